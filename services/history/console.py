"""Runs a stranger's SQL on the history: it can read the history, and neither write, nor read files, nor hang.

It owns the fences. On SQLite a read-only file is not enough (ATTACH and VACUUM INTO still write elsewhere):
an authoriser refuses everything but selecting, reading and plain functions, and a progress handler ends what
runs too long. On PostgreSQL the statement runs under a cursor, in a read-only transaction with a time limit,
in a session that logged in as the reader (`services.history.reader`): no statement makes that session more.
"""

import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import URL

from services.history.bodies import bodies
from services.history.engine import CONNECT_TIMEOUT_S, HistoryError, parse_url, sqlite_path, unreachable
from services.history.reader import reader_url

MAX_ROWS = 10_000
# An answer larger than this helps nobody and would fill the memory of the process that asks.
MAX_BYTES = 16 << 20
# One value: enough for any column, and too little for one function call, which nothing interrupts, to run for
# long: the worst, instr() on two such values, takes about 3 s.
MAX_VALUE = 256 << 10
MAX_PATTERN = 256
# Virtual machine steps between two looks at the clock: well under a millisecond.
STEPS = 2_000
GRACE_S = 1.0
# Rows fetched from PostgreSQL at a time: what is held beyond `MAX_BYTES` at most.
STRIDE = 100

# Functions that reach outside, some of them only in some builds of SQLite; and printf, which counts to two
# thousand million in one uninterruptible call when asked for that many characters.
FORBIDDEN = frozenset(
    {
        "load_extension",
        "readfile",
        "writefile",
        "edit",
        "fts3_tokenizer",
        "fsdir",
        "zipfile",
        "printf",
        "format",
    }
)
ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})


class Answer(msgspec.Struct):
    """Column names and rows of plain values; `truncated` when a limit cut the answer."""

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool = False


class Refused(ValueError):  # noqa: N818
    """The statement was not run, or not to its end; the text says why and is for the user."""


def run_sql(url: str, sql: str, limit: int = 1_000, timeout: float = 5.0) -> Answer:
    """Run one SELECT on the history for at most `timeout` seconds; raises `Refused` or `HistoryError`.

    Blocks; never call it on an event loop.
    """
    parsed = parse_url(url)
    limit = max(1, min(limit, MAX_ROWS))
    if not sql.strip().rstrip(";").strip():
        raise Refused("There is no statement.")
    if parsed.get_backend_name() == "sqlite":
        return _run_sqlite(url, sql, limit, timeout)
    return _run_postgres(parsed, sql, limit, timeout)


def _run_sqlite(url: str, sql: str, limit: int, timeout: float) -> Answer:
    path = sqlite_path(url)
    assert path is not None
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=timeout)
    except sqlite3.Error:
        raise HistoryError(f"There is no history at {path} yet. Run `metalanchor migrate`.") from None
    with closing(connection):
        _fence(connection, time.monotonic() + timeout)
        try:
            cursor = connection.execute(sql)
            if cursor.description is None:
                raise Refused("Only SELECT statements are run here.")
            return _collect([column[0] for column in cursor.description], cursor, limit)
        except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError) as error:
            raise _explained(error, timeout) from None


def _fence(connection: sqlite3.Connection, deadline: float) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN)
    connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.execute("PRAGMA query_only = ON")
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    connection.set_authorizer(_authorise)


def _authorise(action: int, *names: str | None) -> int:
    if action == sqlite3.SQLITE_READ and names[0] == bodies.name:
        return sqlite3.SQLITE_DENY  # on PostgreSQL the reader was never given it
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (names[1] or "").lower() in FORBIDDEN else sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY


def _explained(error: Exception, timeout: float) -> Refused:
    text = str(error)
    if text == "interrupted":
        return Refused(f"The statement ran longer than {timeout:g} s. Narrow it, for example by received_at.")
    if "not authorized" in text or "prohibited" in text:
        return Refused("Only reading the history is allowed: one SELECT, without PRAGMA, ATTACH or files.")
    if "one statement" in text:
        return Refused("Only one statement at a time is run here.")
    return Refused(text)


def _run_postgres(url: URL, sql: str, limit: int, timeout: float) -> Answer:
    import psycopg  # noqa: PLC0415 - an optional driver

    with _session(url, timeout) as connection:
        try:
            # Prepared, because the simple protocol would run several statements; as a cursor, because that
            # takes nothing but a query and hands out no more rows than are fetched.
            connection.execute(f"DECLARE answer NO SCROLL CURSOR FOR {_bare(sql)}".encode(), prepare=True)
            columns = [column.name for column in connection.execute("FETCH 0 FROM answer").description]
            return _collect(columns, _fetch(connection, time.monotonic() + timeout), limit)
        except psycopg.errors.QueryCanceled:
            raise Refused(
                f"The statement ran longer than {timeout:g} s. Narrow it, for example by received_at."
            ) from None
        except psycopg.Error as error:
            raise Refused(_sentence(error)) from None


@contextmanager
def _session(url: URL, timeout: float) -> Iterator[Any]:
    import psycopg  # noqa: PLC0415 - an optional driver

    reader = reader_url(url).set(drivername="postgresql")
    try:
        connection = psycopg.connect(
            reader.render_as_string(hide_password=False), connect_timeout=CONNECT_TIMEOUT_S,
            application_name="metalanchor console",
            # In UTC, as times on SQLite are: a statement may cut them as text.
            options="-c default_transaction_read_only=on -c lock_timeout=2000 -c timezone=UTC",
        )  # fmt: skip
    except psycopg.OperationalError as error:
        if str(reader.username) not in str(error):
            raise unreachable(error) from None
        raise HistoryError(
            f"The SQL console has no role of its own on this server ({_sentence(error)})."
            " Run `metalanchor migrate` once as a role that may create roles."
        ) from None
    # A server that hangs would hold this thread for ever: the socket is shut from outside.
    handle = socket.socket(fileno=os.dup(connection.fileno()))
    watch = threading.Timer(timeout + GRACE_S, _shut, (handle,))
    watch.daemon = True
    watch.start()
    try:
        yield connection
    finally:
        watch.cancel()
        handle.close()
        connection.close()


def _shut(handle: socket.socket) -> None:
    with suppress(OSError):
        handle.shutdown(socket.SHUT_RDWR)


def _fetch(connection: Any, deadline: float) -> Iterator[Any]:
    while True:
        # Anew each time: a function in the statement may change the session's settings, though not its role.
        left = max(1, int((deadline - time.monotonic()) * 1000))
        connection.execute(f"SET LOCAL statement_timeout = {left}")
        rows = connection.execute(f"FETCH {STRIDE} FROM answer").fetchall()
        yield from rows
        if len(rows) < STRIDE:
            return


def _bare(sql: str) -> str:
    return sql.strip().rstrip(";")


def _sentence(error: Exception) -> str:
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return primary or (str(error).strip().splitlines() or [type(error).__name__])[0]


def _collect(columns: list[str], cursor: Any, limit: int) -> Answer:
    answer = Answer(columns, [])
    size = 0
    for row in cursor:
        values = [_plain(value) for value in row]
        size += sum(len(value) for value in values if isinstance(value, str))
        if len(answer.rows) == limit or size > MAX_BYTES:
            answer.truncated = True
            break
        answer.rows.append(values)
    return answer


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, date | UUID):
        return str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else str(value)
