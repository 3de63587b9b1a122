"""Moves the schema up and down under a lock held in the database itself, so that two starters never collide.

It owns the lock: on SQLite the write lock taken before Alembic looks at the version, on PostgreSQL an
advisory lock. Both end with their connection, also after a kill, and the whole move is one transaction.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

import services
from services.history.engine import HistoryError, open_engine, unreachable
from services.history.reader import drop_reader, grant_reader

SCRIPTS = Path(services.__file__).resolve().parent.parent / "migrations"
# Any constant will do, as long as every MetalAnchor uses the same: the first eight bytes of its name.
LOCK_KEY = int.from_bytes(b"MetalAnc")


def upgrade(url: str, revision: str = "head") -> str | None:
    """Bring the schema up to `revision`; answers the one it is at now. Raises `HistoryError`."""
    with _locked(url) as connection:
        _move(command.upgrade, connection, revision)
        grant_reader(connection)
        return _version(connection)


def downgrade(url: str, revision: str = "base") -> str | None:
    """Take the schema down to `revision`; ``base`` drops the history with its data. Raises `HistoryError`."""
    with _locked(url) as connection:
        _move(command.downgrade, connection, revision)
        if _version(connection) is None:
            drop_reader(connection)
        return _version(connection)


def current(url: str) -> str | None:
    """The revision the database is at, None before the first. Raises `HistoryError`."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return _version(connection)
    except SQLAlchemyError as error:
        raise unreachable(error) from None
    finally:
        engine.dispose()


def newest() -> str:
    """The revision this version of the program needs."""
    head = ScriptDirectory(str(SCRIPTS)).get_current_head()
    assert head is not None
    return head


@contextmanager
def _locked(url: str) -> Iterator[Connection]:
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                # The driver must not begin on its own: its BEGIN would come after Alembic's first reads.
                connection.connection.dbapi_connection.isolation_level = None  # type: ignore[union-attr]
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
            yield connection
            connection.commit()
    except SQLAlchemyError as error:
        raise unreachable(error) from None
    finally:
        engine.dispose()


def _move(how: Callable[[Config, str], None], connection: Connection, revision: str) -> None:
    try:
        how(_config(connection), revision)
    except CommandError as error:
        raise HistoryError(
            f"{error}. This MetalAnchor knows revisions up to {newest()}; a newer history needs a newer one."
        ) from None


def _config(connection: Connection) -> Config:
    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
