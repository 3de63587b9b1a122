"""Puts records into the history, each id once, whatever is sent again and in whichever order.

It owns the way to the database: one transaction a batch. Where a row of that id is there already, it stays;
only a ``proxy_lost`` row, which stands for an outcome nobody knew, gives way to the real record of the same
id. So the result is the same in every order of arrival, and always one row.

Errors are of two kinds. The database does not work (`Unavailable`): nothing was stored, try again later. The
database refuses a row: the batch is halved until the row is found, which is then stored bare, without the
values it was refused for.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from services.bodies import Bodies
from services.history.bodies import bodies
from services.history.engine import lacks_schema
from services.history.rollups import HOUR, mark_hours
from services.history.tables import requests, text_of, time_of
from services.record import Record

LOST = "proxy_lost"
# No engine has counted that far; eight million such figures still add up within 64 bits.
LARGEST = 1 << 40
COLUMNS = tuple(column.name for column in requests.columns)
# SQLSTATE classes that speak of the data: data exception, integrity violation, a limit of the program
# exceeded (an index entry too large). All others speak of the server's state.
REFUSALS = frozenset({"22", "23", "54"})

_fields = attrgetter(*COLUMNS)
# What a backend reports, or what is worked out from that.
_figures = attrgetter(
    "prompt_tokens", "cached_tokens", "completion_tokens", "lost_tokens", "written_tokens",
    "written_1h_tokens", "saved_tokens", "load_ms", "prefill_ms", "lost_ms",
)  # fmt: skip
_RECEIVED = COLUMNS.index("received_at")
_DOCUMENTS = tuple(COLUMNS.index(name) for name in ("causes", "fixes", "new_chunks"))
_encode = msgspec.json.Encoder().encode


class Unavailable(Exception):  # noqa: N818
    """The database does not take rows now; the text says why, without any row's values."""


class Refused(Exception):  # noqa: N818
    """The database, or the way there, cannot take one of these rows as it is."""


class Saved(msgspec.Struct):
    """What became of a batch, in rows: new, there before, stored bare, lost."""

    stored: int = 0
    repeated: int = 0
    refused: int = 0
    dropped: int = 0

    def add(self, other: "Saved") -> None:
        """Sum up."""
        self.stored += other.stored
        self.repeated += other.repeated
        self.refused += other.refused
        self.dropped += other.dropped


class Store:
    """The history as a place to put records; one a process, used by one thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._postgres = engine.dialect.name == "postgresql"
        # The driver's own base error: COPY goes past SQLAlchemy, which would else wrap it.
        self._errors: type[Exception] = engine.dialect.dbapi.Error  # type: ignore[union-attr]
        self._write: Callable[[Connection, list[tuple[Any, ...]]], int] = _copy if self._postgres else _insert

    def save(self, records: Sequence[Record]) -> Saved:
        """Store all records in one transaction; raises `Unavailable` when nothing could be stored."""
        unique: dict[str, Record] = {}
        for record in records:
            if record.id not in unique or unique[record.id].status == LOST:
                unique[record.id] = record
        saved = Saved(repeated=len(records) - len(unique))
        self._save(list(unique.values()), saved)
        return saved

    def keep(self, copies: Sequence[Bodies]) -> int:
        """Store copies of bodies, each once, in one transaction; answers how many are new.

        Raises `Unavailable`. What the database refuses is thrown away: a body is worth no second way.
        """
        rows = [{**msgspec.structs.asdict(copy), "received_at": time_of(copy.received_at)} for copy in copies]
        dialect = postgresql if self._postgres else sqlite
        insert = dialect.insert(bodies).on_conflict_do_nothing()
        try:
            with self._engine.begin() as connection:
                return sum(connection.execute(insert, row).rowcount for row in rows)
        except (SQLAlchemyError, ValueError, OverflowError) as error:
            told = self._told(error)
            if isinstance(told, Refused):
                return 0
            raise told from None

    def probe(self) -> None:
        """Raise `Unavailable` unless the history takes writes; changes nothing."""
        try:
            with self._engine.connect() as connection:
                connection.execute(requests.delete().where(requests.c.id == ""))
                connection.rollback()
        except SQLAlchemyError as error:
            raise Unavailable(str(self._told(error))) from None

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        self._engine.dispose()

    def _save(self, records: list[Record], saved: Saved) -> None:
        if not records:
            return
        try:
            self._transact(records, saved)
        except Refused:
            if len(records) == 1:
                self._save_bare(records[0], saved)
                return
            middle = len(records) // 2
            self._save(records[:middle], saved)
            self._save(records[middle:], saved)

    def _save_bare(self, record: Record, saved: Saved) -> None:
        bare = Record(
            id=record.id, received_at=record.received_at, kind=record.kind, status=record.status,
            error="record_refused",
        )  # fmt: skip
        try:
            self._transact([bare], Saved())
        except Refused:  # not even an id and a time: counted, never retried for ever
            saved.dropped += 1
        else:
            saved.refused += 1

    def _transact(self, records: list[Record], saved: Saved) -> None:
        try:
            rows = [row_of(record, postgres=self._postgres) for record in records]
            with self._engine.begin() as connection:
                count = self._write(connection, rows)
                if not self._postgres:
                    mark_hours(connection, {record.received_at // 3_600_000 * HOUR for record in records})
        except (SQLAlchemyError, self._errors, ValueError, TypeError, OverflowError) as error:
            raise self._told(error) from None
        saved.stored += count
        saved.repeated += len(rows) - count

    def _told(self, error: Exception) -> "Unavailable | Refused":
        cause = getattr(error, "orig", None) or error
        name = type(cause).__name__
        state = getattr(cause, "sqlstate", None)
        if isinstance(cause, self._errors):
            refused = str(state)[:2] in REFUSALS if state else name in {"DataError", "IntegrityError"}
        else:
            refused = not isinstance(cause, SQLAlchemyError)
        if refused:
            return Refused(name)
        # A failed-over server leaves dead connections in the pool: start anew.
        self._engine.dispose()
        lines = str(cause).strip().splitlines()
        text = f"{name}: {lines[0] if lines else 'no text'}"
        return Unavailable(f"{text} (run `metalanchor migrate`)" if lacks_schema(error) else text)


def row_of(record: Record, *, postgres: bool) -> tuple[Any, ...]:
    """A record as the driver takes it, in the order of `COLUMNS`.

    Raises `OverflowError` for a figure that would keep sums from being taken.
    """
    if max(figure or 0 for figure in _figures(record)) > LARGEST:
        raise OverflowError
    values = list(_fields(record))
    received = time_of(record.received_at)
    values[_RECEIVED] = received if postgres else text_of(received)
    for place in _DOCUMENTS:
        if values[place] is not None:
            values[place] = _encode(values[place]).decode().replace("\\u0000", "\\ufffd")
    # PostgreSQL has no NUL in text, and none is meant in any of our names.
    return tuple([v.replace("\0", "\ufffd") if type(v) is str and "\0" in v else v for v in values])


def _insert(connection: Connection, rows: list[tuple[Any, ...]]) -> int:
    # One prepared statement a transaction, run once a row: no limit on variables, no statement text to build.
    count = connection.exec_driver_sql(_INSERT, rows).rowcount
    if count < len(rows):
        # Rarely: some were there before. That it may update makes the statement twice as dear, as a trigger
        # watches updates; so it is asked for apart.
        count += connection.exec_driver_sql(_REPLACE, rows).rowcount
    return count


def _copy(connection: Connection, rows: list[tuple[Any, ...]]) -> int:
    driver: Any = connection.connection.dbapi_connection
    with driver.cursor() as cursor:
        cursor.execute(_STAGE)
        with cursor.copy(_COPY) as copy:
            for row in rows:
                copy.write_row(row)
        cursor.execute(_MERGE)
        return int(cursor.rowcount)


_names = ", ".join(COLUMNS)
_once = (
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS[1:])}"
    f" WHERE {requests.name}.status = '{LOST}' AND excluded.status <> '{LOST}'"
)
# Names of our own table and columns; values are bound.
_ADD = f"INSERT INTO {requests.name} ({_names}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
_INSERT = f"{_ADD} ON CONFLICT (id) DO NOTHING"
_REPLACE = f"{_ADD} {_once}"
_STAGE = f"CREATE TEMPORARY TABLE IF NOT EXISTS staged (LIKE {requests.name}) ON COMMIT DELETE ROWS"
_COPY = f"COPY staged ({_names}) FROM STDIN"
_MERGE = f"INSERT INTO {requests.name} ({_names}) SELECT {_names} FROM staged {_once}"  # noqa: S608
