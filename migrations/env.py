"""How Alembic reaches the database: on the connection that `services.history.migrate` holds the lock on."""

from alembic import context
from sqlalchemy import Connection

from services.history.bodies import bodies
from services.history.rollups import rollups

LAST = (rollups, bodies)  # modules with tables of their own, which register when they are imported


def run(connection: Connection) -> None:
    """Run what was asked for inside the caller's transaction, which the caller commits."""
    context.configure(
        connection=connection,
        target_metadata=LAST[0].metadata,  # one for all tables
        render_as_batch=True,
        transactional_ddl=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
