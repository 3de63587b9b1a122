"""Figures over time for charts: requests, reuse, time to first token, losses by cause, in equal steps.

Owns no state. Steps are cut by the database, the same on SQLite and PostgreSQL.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Float, Select, and_, case, cast, func, select

from services.history import rolled
from services.history.queries import Filters, narrow
from services.history.rollups import LEVELS, QUARTER
from services.history.spans import Span, open_span
from services.history.tables import requests

PERCENTILES = (50, 95, 99)
# Causes drawn one by one; the rest is one line. More colours than this cannot be told apart.
CAUSES = 6

_columns = requests.c


def series(connection: Connection, filters: Filters, step_s: int, until: datetime) -> dict[str, Any]:
    """Columns of equal length: ``t`` (epoch seconds of each step's start), counts, reuse, TTFT, losses.

    `filters.since` must be set; a step without requests holds None where a figure would be unknown.
    """
    assert filters.since is not None
    first = int(filters.since.timestamp()) // step_s * step_s
    times = list(range(first, int(until.astimezone(UTC).timestamp()) + 1, step_s))
    at = {moment: place for place, moment in enumerate(times)}
    if span := open_span(connection, filters, longest_in(step_s)):
        return _rolled(span, step_s, times, at)
    found: dict[str, Any] = {"step_s": step_s, "t": times}
    for name in ("requests", "predicted_reuse", "measured_reuse"):
        found[name] = [0 if name == "requests" else None] * len(times)
    for row in _rows(connection, _totals(connection, filters, step_s)):
        place = at.get(int(row.pop("step")))
        if place is not None:
            for name, value in row.items():
                found[name][place] = value
    found["ttft_ms"] = _ttft(connection, filters, step_s, at)
    found["lost_s"] = _losses(connection, filters, step_s, at)
    return found


def step_of(connection: Connection, column: ColumnElement[Any], step_s: int) -> ColumnElement[Any]:
    """The start of the step that a row's time is in, in epoch seconds, as a column named ``step``."""
    if connection.dialect.name == "sqlite":
        seconds: ColumnElement[Any] = cast(func.strftime("%s", column), BigInteger)
    else:
        seconds = cast(func.floor(func.extract("epoch", column)), BigInteger)
    return (seconds - seconds % step_s).label("step")


def longest_in(step_s: int) -> int:
    """The longest rollups that fit into a step, 0 where none do."""
    return max((level for level in (QUARTER, *LEVELS) if step_s % level == 0), default=0)


def _rolled(span: Span, step_s: int, times: list[int], at: dict[int, int]) -> dict[str, Any]:
    sums, firsts, lost = rolled.steps(span, step_s)
    found: dict[str, Any] = {"step_s": step_s, "t": times, "requests": [0] * len(times)}
    for name in ("predicted_reuse", "measured_reuse"):
        found[name] = [None] * len(times)
    found["ttft_ms"] = {f"p{share}": [None] * len(times) for share in PERCENTILES}
    for row in sums:
        place = at.get(row["grp"])
        if place is not None:
            found["requests"][place] = row["requests"]
            found["predicted_reuse"][place] = _ratio(row["predicted_tokens"], row["foreseen"])
            found["measured_reuse"][place] = _ratio(row["cached_tokens"], row["prompt_tokens"])
    for row in firsts:
        place = at.get(row["grp"])
        if place is not None:
            for name, values in found["ttft_ms"].items():
                values[place] = row[name]
    found["lost_s"] = _by_cause([{**row, "step": row["grp"]} for row in lost], at)
    return found


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if whole and part is not None else None


def _step(connection: Connection, step_s: int) -> ColumnElement[Any]:
    return step_of(connection, _columns.received_at, step_s)


def _totals(connection: Connection, filters: Filters, step_s: int) -> Select[Any]:
    step = _step(connection, step_s)
    known = and_(_columns.prompt_tokens > 0, _columns.cached_tokens.is_not(None))
    total = func.nullif(func.sum(case((known, _columns.prompt_tokens))), 0)
    foreseen = and_(known, _columns.predicted_reuse.is_not(None))
    predicted = func.sum(case((foreseen, _columns.predicted_reuse * _columns.prompt_tokens)))
    query = select(
        step,
        func.count().label("requests"),
        cast(predicted / func.nullif(func.sum(case((foreseen, _columns.prompt_tokens))), 0), Float).label(
            "predicted_reuse"
        ),
        cast(cast(func.sum(case((known, _columns.cached_tokens))), Float) / total, Float).label(
            "measured_reuse"
        ),
    )
    return narrow(query, filters).group_by(step)


def _ttft(
    connection: Connection, filters: Filters, step_s: int, at: dict[int, int]
) -> dict[str, list[float | None]]:
    step = _step(connection, step_s)
    value = _columns.ttft_ms
    ranked = (
        narrow(
            select(
                step,
                value.label("value"),
                func.row_number().over(partition_by=step, order_by=value).label("place"),
                func.count().over(partition_by=step).label("count"),
            ),
            filters,
        )
        .where(value.is_not(None))
        .subquery()
    )
    cuts = [
        func.min(case((ranked.c.place * 100 >= ranked.c.count * share, ranked.c.value))).label(f"p{share}")
        for share in PERCENTILES
    ]
    found: dict[str, list[float | None]] = {f"p{share}": [None] * len(at) for share in PERCENTILES}
    for row in _rows(connection, select(ranked.c.step, *cuts).group_by(ranked.c.step)):
        place = at.get(int(row["step"]))
        if place is not None:
            for name, values in found.items():
                values[place] = row[name]
    return found


def _losses(
    connection: Connection, filters: Filters, step_s: int, at: dict[int, int]
) -> dict[str, list[float]]:
    """Seconds lost by cause, the worst cause first; what is beyond `CAUSES` is ``other``."""
    step = _step(connection, step_s)
    lost = cast(func.sum(_columns.lost_ms), Float).label("lost_ms")
    query = narrow(select(step, _columns.cause, lost), filters).where(func.coalesce(_columns.lost_ms, 0) > 0)
    return _by_cause(_rows(connection, query.group_by(step, _columns.cause)), at)


def _by_cause(rows: list[dict[str, Any]], at: dict[int, int]) -> dict[str, list[float]]:
    totals: dict[str, float] = {}
    for row in rows:
        row["cause"] = row["cause"] or "engine_unknown"
        totals[row["cause"]] = totals.get(row["cause"], 0.0) + row["lost_ms"]
    named = sorted(totals, key=lambda cause: -totals[cause])[:CAUSES]
    keys = [*named, "other"] if len(totals) > len(named) else named
    found = {cause: [0.0] * len(at) for cause in keys}
    for row in rows:
        place = at.get(int(row["step"]))
        if place is not None:
            found[row["cause"] if row["cause"] in named else "other"][place] += row["lost_ms"] / 1e3
    return found


def _rows(connection: Connection, query: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(query).mappings()]
