"""Opens the history's database; every connection to it is made here, with the same safety settings.

It owns the engines' connection settings, since a SQLite connection that forgets its busy timeout is the
classic source of "database is locked".
"""

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

VARIABLE = "METALANCHOR_DATABASE_URL"
# Longer than any batch or prune step takes on a slow disk; a writer that waits longer has a stuck peer.
BUSY_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_S = 5
# What a missing or older schema looks like: undefined table or column, in PostgreSQL's codes and SQLite's
# words.
SCHEMA_STATES = frozenset({"42P01", "42703"})
SCHEMA_WORDS = ("no such table", "has no column named", "no such column")


class HistoryError(RuntimeError):
    """The history cannot be used; the text says why and what to do."""


def parse_url(url: str) -> URL:
    """The database address with its driver chosen; raises `HistoryError` when it is none we can use."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise HistoryError(f"{VARIABLE} is no SQLAlchemy URL. Use sqlite:///FILE or postgresql://…") from None
    if parsed.drivername in {"postgres", "postgresql"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise HistoryError(
            f"{VARIABLE} names {parsed.get_backend_name()}; the history needs SQLite or PostgreSQL."
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise HistoryError(f"{VARIABLE} names no file. Use sqlite:///FILE; several processes share it.")
    return parsed


def open_engine(url: str, *, read_only: bool = False) -> Engine:
    """An engine for the history; raises `HistoryError`. Nothing is connected yet.

    Errors never show parameters (`hide_parameters`), since those hold what users may paste into issues.
    """
    parsed = parse_url(url)
    try:
        if parsed.get_backend_name() == "sqlite":
            return _open_sqlite(parsed, read_only=read_only)
        return _open_postgres(parsed, read_only=read_only)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise HistoryError(
            f"{VARIABLE} needs a driver that is not installed: pip install 'metalanchor[postgres]' ({error})."
        ) from None


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite history, None for a server."""
    parsed = parse_url(url)
    return Path(str(parsed.database)).expanduser() if parsed.get_backend_name() == "sqlite" else None


def unreachable(error: Exception) -> HistoryError:
    """A database error as one line that names the setting; never parameters, never the URL's password."""
    cause = getattr(error, "orig", None) or error
    first = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    return HistoryError(f"The history database does not work: {first}. Check {VARIABLE}.")


def lacks_schema(error: Exception) -> bool:
    """Whether the database works and has no tables yet, or those of an older version."""
    cause = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None)
    return state in SCHEMA_STATES if state else any(words in str(cause) for words in SCHEMA_WORDS)


def _open_sqlite(url: URL, *, read_only: bool) -> Engine:
    path = Path(str(url.database)).expanduser()
    if not read_only:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HistoryError(
                f"{VARIABLE}: the folder {path.parent} cannot be made ({error.strerror})."
            ) from None
    query = {"uri": "true", "mode": "ro"} if read_only else {"uri": "true"}
    target = URL.create("sqlite+pysqlite", database=path.absolute().as_uri(), query=query)
    engine = create_engine(
        target,
        hide_parameters=True,
        connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        if not read_only:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")

    return engine


def _use_wal(connection: sqlite3.Connection) -> None:
    # Switching a new file to WAL ignores the busy timeout; two that start at once must both get there.
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _open_postgres(url: URL, *, read_only: bool) -> Engine:
    options = "-c default_transaction_read_only=on" if read_only else ""
    arguments: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "metalanchor"}
    if options:
        arguments["options"] = options
    return create_engine(url, hide_parameters=True, pool_pre_ping=True, pool_size=4, connect_args=arguments)
