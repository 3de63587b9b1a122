# ruff: noqa: S608 - names are our own tables and columns; values are bound
"""Keeps the rollups true: computes one due span anew from what lies below it, hours first, newest first.

It owns no state; a step is one short transaction, and one worker at a time takes it. Computing anew, not
adding up, makes it exactly once by nature: rows that come late, twice, or as the real outcome of a lost
request only mark their hour as due again.

On PostgreSQL the marks are taken away before the rows are read. A row is committed together with its mark: if
the mark was not there to be taken, it stays for the next step; if it was, the reading statement that follows
sees the row.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, text

from services.history import histogram
from services.history.repeats import SIZES as MESSAGE_SIZES
from services.history.reports import SIZES as REQUEST_SIZES
from services.history.rollups import (
    ANY,
    COUNTS,
    DAY,
    HOUR,
    IN_QUARTERS,
    LEVELS,
    PARTS,
    QUARTER,
    SIX_HOURS,
    SUMS,
    TEMPERATURE,
    TIMES,
    VALUES,
    bucket_column,
    step_sql,
)  # fmt: skip
from services.history.tables import UtcTime, time_of

# Rows come from the queue within seconds; an hour that is over is left alone this long, so that it need not
# be computed twice.
SETTLED_S = 30
# What a span is computed from.
BELOW = {SIX_HOURS: HOUR, DAY: SIX_HOURS}
ADVISORY_KEY = int.from_bytes(b"MetaRoll")

KEYS = ("kind", "agent", "model", "value", "temperature")
BUCKET_COLUMNS = tuple(bucket_column(time, number) for time in TIMES for number in range(histogram.BUCKETS))


def roll_step(engine: Engine, now: float) -> bool:
    """Compute one due span that is over at `now` (epoch seconds); False where there is none to do."""
    with engine.connect() as connection:
        found = _next(connection, now)
        connection.rollback()
        if found is None:
            return False
        with connection.begin():
            if not _alone(connection):
                return False
            _roll(connection, *found)
    return True


def _next(connection: Connection, now: float) -> tuple[int, int] | None:
    """The span to do: an hour before what is made of it, the newest first."""
    query = text(
        "SELECT max(start_s) FROM rollups_due WHERE span_s = :span AND start_s + :span + :settled <= :now"
    )
    for span in LEVELS:
        start = connection.scalar(query, {"span": span, "settled": SETTLED_S, "now": int(now)})
        if start is not None:
            return span, int(start)
    return None


def _alone(connection: Connection) -> bool:
    # SQLite has one writer at a time anyway: the first statement of the step, a DELETE, takes its lock.
    if connection.dialect.name == "sqlite":
        return True
    query = text("SELECT pg_try_advisory_xact_lock(:key)")
    return bool(connection.scalar(query, {"key": ADVISORY_KEY}))


def _roll(connection: Connection, span: int, start: int) -> None:
    bound: dict[str, Any] = {"span": span, "start": start, "past": start + span}
    connection.execute(text("DELETE FROM rollups_due WHERE span_s = :span AND start_s = :start"), bound)
    connection.execute(text(_CLEAR), bound)
    connection.execute(text("DELETE FROM prompt_rollups WHERE span_s = :span AND start_s = :start"), bound)
    if span == HOUR:
        connection.execute(text(_CLEAR_QUARTERS), bound)
        times = [bindparam(name, type_=UtcTime) for name in ("first_at", "past_at")]
        bound |= {"first_at": time_of(start * 1_000), "past_at": time_of((start + span) * 1_000)}
        for statement in _from_rows(connection.dialect.name):
            connection.execute(text(statement).bindparams(*times), bound)
        for above in BELOW:
            marked = {"span": above, "start": start // above * above}
            connection.execute(text(_MARK), marked)
    else:
        below = bound | {"below": BELOW[span]}
        connection.execute(text(_rollups_from_below()), below)
        connection.execute(text(_PROMPTS_FROM_BELOW), below)


@cache
def _from_rows(dialect: str) -> tuple[str, ...]:
    times = ", ".join(f"{histogram.bucket_sql(f'{time}_ms')} AS {time}" for time in TIMES)
    values = " ".join(f"WHEN '{part}' THEN {column}" for part, column in VALUES.items() if column)
    parts = ", ".join(f"('{part}')" for part in VALUES)
    # Materialised: taken apart, the query would find the bucket anew for each of the columns that count it.
    hour = (
        f"WITH parts(part) AS (VALUES {parts}), hour AS MATERIALIZED (SELECT requests.*, part,"
        f" CASE part {values} END AS value,"
        f" CASE WHEN part <> '{ANY}' THEN {TEMPERATURE} END AS temperature, {times}"
        f", {step_sql(dialect, QUARTER)} AS quarter FROM requests CROSS JOIN parts WHERE {_HOUR})"
    )
    names = [total.name for total in SUMS]
    sums = [f"SUM({total.of_row})" for total in SUMS]
    for time in TIMES:
        names += [f"{time}_low", f"{time}_high"]
        sums += [f"MIN({time})", f"MAX({time})"]
    names += BUCKET_COLUMNS
    sums += [f"SUM(CASE WHEN {time} = {n} THEN 1 END)" for time in TIMES for n in range(histogram.BUCKETS)]
    keys = ", ".join(("part", *KEYS))
    insert = f"INSERT INTO rollups (span_s, start_s, {keys}, {', '.join(names)}) {hour}"
    whole = f"{insert} SELECT :span, :start, {keys}, {', '.join(sums)} FROM hour GROUP BY {keys}"
    quarters = (
        f"{insert} SELECT {QUARTER}, quarter, {keys}, {', '.join(sums)} FROM hour"
        f" WHERE part IN ({_listed(IN_QUARTERS)}) GROUP BY quarter, {keys}"
    )
    return (whole, quarters, _sizes(), _messages(dialect), _PROMPTS_FROM_ROWS)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _buckets(value: str, bounds: tuple[int, ...]) -> str:
    whens = " ".join(f"WHEN {value} <= {bound} THEN '{place}'" for place, bound in enumerate(bounds))
    return f"CASE {whens} ELSE '{len(bounds)}' END"


def _counted(part: str, source: str, value: str, bounds: tuple[int, ...]) -> str:
    bucketed = f"SELECT kind, agent, model, {_buckets(value, bounds)} AS bucket {source}"
    return (
        "INSERT INTO rollups (span_s, start_s, part, kind, agent, model, value, requests)"
        f" SELECT :span, :start, '{part}', kind, agent, model, bucket, count(*) FROM ({bucketed}) AS bucketed"
        " GROUP BY kind, agent, model, bucket"
    )


def _sizes() -> str:
    source = f"FROM requests WHERE {_HOUR} AND request_bytes IS NOT NULL"
    return _counted(COUNTS[0], source, "request_bytes", REQUEST_SIZES)


def _messages(dialect: str) -> str:
    unpacked = "json_each(new_chunks)" if dialect == "sqlite" else "jsonb_array_elements_text(new_chunks)"
    column = "item.value" if dialect == "sqlite" else "item"
    source = f"FROM requests, {unpacked} AS item WHERE {_HOUR} AND substr({column}, 1, 1) IN ('m', 'r')"
    return _counted(COUNTS[1], source, f"CAST(substr({column}, 14) AS BIGINT)", MESSAGE_SIZES)


@cache
def _rollups_from_below() -> str:
    names = [total.name for total in SUMS]
    sums = [f"SUM({name})" for name in names]
    for time in TIMES:
        names += [f"{time}_low", f"{time}_high"]
        sums += [f"MIN({time}_low)", f"MAX({time}_high)"]
    names += BUCKET_COLUMNS
    sums += [f"SUM({name})" for name in BUCKET_COLUMNS]
    keys = ", ".join(("part", *KEYS))
    return (
        f"INSERT INTO rollups (span_s, start_s, {keys}, {', '.join(names)})"
        f" SELECT :span, :start, {keys}, {', '.join(sums)} FROM rollups"
        f" WHERE span_s = :below AND part IN ({_PARTS}) AND start_s >= :start AND start_s < :past"
        f" GROUP BY {keys}"
    )


_HOUR = "received_at >= :first_at AND received_at < :past_at"
_PARTS = _listed(PARTS)
_CLEAR = f"DELETE FROM rollups WHERE span_s = :span AND part IN ({_PARTS}) AND start_s = :start"
_CLEAR_QUARTERS = (
    f"DELETE FROM rollups WHERE span_s = {QUARTER} AND part IN ({_listed(IN_QUARTERS)})"
    " AND start_s >= :start AND start_s < :past"
)
_MARK = (
    "INSERT INTO rollups_due (span_s, start_s) SELECT :span, :start WHERE NOT EXISTS"
    " (SELECT 1 FROM rollups_due WHERE span_s = :span AND start_s = :start)"
)
_PROMPT_KEYS = "kind, agent, model, session, system_hash, tools_hash"
_PROMPT_NAMES = f"span_s, start_s, {_PROMPT_KEYS}, requests, first_at, last_at"
_PROMPTS_FROM_ROWS = (
    f"INSERT INTO prompt_rollups ({_PROMPT_NAMES}) SELECT :span, :start, {_PROMPT_KEYS}, count(*),"
    f" min(received_at), max(received_at) FROM requests WHERE {_HOUR} GROUP BY {_PROMPT_KEYS}"
)
_PROMPTS_FROM_BELOW = (
    f"INSERT INTO prompt_rollups ({_PROMPT_NAMES}) SELECT :span, :start, {_PROMPT_KEYS}, SUM(requests),"
    " min(first_at), max(last_at) FROM prompt_rollups"
    f" WHERE span_s = :below AND start_s >= :start AND start_s < :past GROUP BY {_PROMPT_KEYS}"
)
