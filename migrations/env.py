"""How Alembic reaches the database: on the connection that `services.history.migrate` holds the lock on."""

from alembic import context
from sqlalchemy import Connection

from services.history import bodies, rollups  # noqa: F401 - importing them registers their tables
from services.history.tables import metadata


def run(connection: Connection) -> None:
    """Run what was asked for inside the caller's transaction, which the caller commits."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=True,
        transactional_ddl=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
