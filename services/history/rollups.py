"""Sums of the history by hour, six hours and day, so that a report of a month need not read a million rows.

It owns the tables, and the rule by which they stay true: an hour is marked as due whenever a row in it is
added, changed or removed, in the same transaction, by triggers and, on SQLite, by whoever adds rows; the
worker computes a due hour anew from its rows (`services.logger.rolling`); and readers take what is due, or
not whole, from the rows themselves (`services.history.cover`). So an answer never depends on how far the
worker is, and nothing is counted twice.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Connection, Double, Index, Integer, String, Table, text

from services.history import histogram
from services.history.tables import UtcTime, metadata
from services.record import HITS

HOUR, SIX_HOURS, DAY = 3_600, 21_600, 86_400
LEVELS = (HOUR, SIX_HOURS, DAY)
# Computed with their hour, and good as long as that is: the steps of a day's charts. Of the parts that charts
# read alone.
QUARTER = 900

# What `value` holds in each part. Figures are asked by one of these at a time, besides agent and model; all
# at once would be as many sums as there are rows.
VALUES = {"all": None, "any": None, "hit": "hit", "cause": "cause", "session": "session"}
# Of any temperature: charts over time have many steps and do not tell warm from cold.
ANY = "any"
IN_QUARTERS = (ANY, "cause")
# Parts that only count: requests by the bucket of their size, messages by the bucket of theirs.
COUNTS = ("size", "message")
PARTS = (*VALUES, *COUNTS)

TIMES = ("ttft", "total")

MEASURED = "prompt_tokens > 0 AND cached_tokens IS NOT NULL"
TEMPERATURE = (
    f"CASE WHEN {MEASURED} THEN CASE WHEN cached_tokens * 2 >= prompt_tokens THEN 'warm' ELSE 'cold' END"
    " ELSE 'unmeasured' END"
)


def step_sql(dialect: str, step_s: int) -> str:
    """SQL for the epoch second at which the step of a row of `requests` begins."""
    if dialect == "sqlite":
        return f"CAST(strftime('%s', received_at) AS INTEGER) / {step_s} * {step_s}"
    return f"CAST(floor(date_part('epoch', received_at) / {step_s}) AS BIGINT) * {step_s}"


class Sum(NamedTuple):
    """A summed column: its name, and what a row of `requests` adds to it."""

    name: str
    of_row: str
    real: bool = False


def hit_column(hit: str) -> str:
    """The column that counts a kind of hit."""
    return "hit_" + hit.replace("+", "_")


SUMS = (
    Sum("requests", "1"),
    Sum("measured", f"CASE WHEN {MEASURED} THEN 1 ELSE 0 END"),
    Sum("prompt_tokens", f"CASE WHEN {MEASURED} THEN prompt_tokens END"),
    Sum("cached_tokens", f"CASE WHEN {MEASURED} THEN cached_tokens END"),
    Sum("foreseen", f"CASE WHEN {MEASURED} AND predicted_reuse IS NOT NULL THEN prompt_tokens END"),
    Sum("predicted_tokens", f"CASE WHEN {MEASURED} THEN predicted_reuse * prompt_tokens END", real=True),
    Sum("completion_tokens", "completion_tokens"),
    Sum("lost_tokens", "lost_tokens"),
    Sum("lost_ms", "lost_ms", real=True),
    Sum("prefill_ms", "prefill_ms", real=True),
    *(Sum(hit_column(hit), f"CASE WHEN hit = '{hit}' THEN 1 ELSE 0 END") for hit in HITS),
)


def bucket_column(time: str, number: int) -> str:
    """The column that counts the requests whose time fell into a bucket of the histogram."""
    return f"{time}_{number}"


# One row a span of time, part, kind, agent, model, value and temperature; unknown ones are NULL, as in rows.
# Counts of the buckets are columns, NULL where none fell into it: a sum over some thousand of these
# rows then costs what it costs to read them, whatever number of requests they stand for.
rollups = Table(
    "rollups",
    metadata,
    Column("span_s", Integer, nullable=False),
    Column("start_s", BigInteger, nullable=False),
    Column("part", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("agent", String),
    Column("model", String),
    Column("value", String),
    Column("temperature", String),
    *(Column(total.name, Double if total.real else BigInteger) for total in SUMS),
    *(Column(f"{time}_{edge}", Integer) for time in TIMES for edge in ("low", "high")),
    *(Column(bucket_column(time, number), Integer) for time in TIMES for number in range(histogram.BUCKETS)),
)
Index("ix_rollups_span_part_start", rollups.c.span_s, rollups.c.part, rollups.c.start_s)
# What charts of losses read, beside the wide rows: a month is some 40,000 of these.
_lossy = text("part = 'cause' AND lost_ms > 0")
Index(
    "ix_rollups_lost",
    *(rollups.c[name] for name in ("span_s", "start_s", "kind", "agent", "model", "value", "lost_ms")),
    sqlite_where=_lossy,
    postgresql_where=_lossy,
)

# Which sessions sent which system prompt and tools: what counts of distinct sessions need.
prompt_rollups = Table(
    "prompt_rollups",
    metadata,
    Column("span_s", Integer, nullable=False),
    Column("start_s", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("agent", String),
    Column("model", String),
    Column("session", String),
    Column("system_hash", String),
    Column("tools_hash", String),
    Column("requests", BigInteger, nullable=False),
    Column("first_at", UtcTime, nullable=False),
    Column("last_at", UtcTime, nullable=False),
)
Index("ix_prompt_rollups_span_start", prompt_rollups.c.span_s, prompt_rollups.c.start_s)

# Spans whose sums are not what their rows say. On PostgreSQL one span may stand here many times: writers only
# ever add a mark, so that they never wait for one another nor for the worker that takes marks away.
rollups_due = Table(
    "rollups_due",
    metadata,
    Column("span_s", Integer, nullable=False),
    Column("start_s", BigInteger, nullable=False),
)
Index("ix_rollups_due_span_start", rollups_due.c.span_s, rollups_due.c.start_s)

_MARK = text(
    "INSERT INTO rollups_due (span_s, start_s) SELECT :span, :start WHERE NOT EXISTS"
    " (SELECT 1 FROM rollups_due WHERE span_s = :span AND start_s = :start)"
)


def mark_hours(connection: Connection, starts: Iterable[int]) -> None:
    """Mark hours (epoch seconds) as due on SQLite, for the transaction that adds rows to them.

    There a trigger on inserts would run once a row and take two fifths of the worker's speed (10 against 17
    ms of processor time for 200 rows); PostgreSQL's runs once a statement.
    """
    marks = [{"span": HOUR, "start": start} for start in starts]
    if marks:
        connection.execute(_MARK, marks)
