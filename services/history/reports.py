"""Sums and percentiles over the history, computed by the database, the same on SQLite and PostgreSQL.

It owns no state. Everything starts from `_base`: the rows that the filters leave, with the two things derived
from a row: the group it falls into, and its temperature: ``warm`` (at least half of its prompt came from the
cache, as the backend counted), ``cold``, or ``unmeasured``.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    String,
    and_,
    case,
    cast,
    func,
    literal,
    null,
    select,
)

from services.history import rolled
from services.history.histogram import RELATIVE_ERROR
from services.history.queries import Filters, narrow, plain
from services.history.rollups import HOUR
from services.history.spans import Span, open_span
from services.history.tables import requests

GROUPS = ("agent", "session", "model", "cause", "hit", "hour")
PERCENTILES = (50, 95, 99)
# Upper bounds of the size buckets of requests, in bytes; the last bucket is open.
SIZES = (1 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20)
# Upper bounds of the length buckets of sessions, in requests.
LENGTHS = (1, 3, 10, 30, 100, 300)
# Rows that a list shows: single requests or prompts, and what each habit of each agent cost.
MOST, MOST_HABITS = 20, 50

# What a group of `figures` sums, besides its hits.
SUMMED = (
    "requests", "measured", "prompt_tokens", "cached_tokens", "foreseen", "predicted_tokens",
    "completion_tokens", "lost_tokens", "lost_ms", "prefill_ms",
)  # fmt: skip

_columns = requests.c
Row = dict[str, Any]


def percentile_error(connection: Connection, filters: Filters) -> float:
    """How far percentiles of these rows may be from the exact ones, as a share; 0.0 where they are exact."""
    return 0.0 if open_span(connection, filters) is None else RELATIVE_ERROR


def figures(
    connection: Connection, filters: Filters, by: str | None = None, most: int | None = None
) -> list[Row]:
    """One row in all (`by` None, group None), or one a group, most requests first.

    Reuse is weighted by prompt tokens, over the rows whose cached tokens are known: ``predicted_reuse`` and
    ``measured_reuse`` speak of the same requests. ``ttft_ms`` and ``total_ms`` hold one object a temperature
    (count, p50, p95, p99). At most `most` groups. Raises `ValueError` for a group that is none of `GROUPS`.
    """
    if by is not None and by not in GROUPS:
        raise ValueError(f"reports group by {', '.join(GROUPS)}, not by {by}")
    if span := _span(connection, filters, by):
        return _rolled_figures(span, by, most)
    base = _base(connection, filters, by)
    found: dict[Any, Row] = {}
    for row in _rows(connection, _totals(base)):
        _fold(found, row)
    for group in found.values():
        _finish(group)
    for name in ("ttft_ms", "total_ms"):
        for group in found.values():
            group[name] = {}
        for row in _rows(connection, _percentiles(base, name)):
            found[row.pop("group")][name][row.pop("temperature")] = row
    return _ordered(found)[:most]


def losses(connection: Connection, filters: Filters) -> list[Row]:
    """What each cause cost: requests, tokens and milliseconds lost, prefill time spent; worst first."""
    return _lost(connection, filters, by_agent=False)


def losses_by_agent(connection: Connection, filters: Filters) -> list[Row]:
    """What each cause cost in each agent: shaped like `losses`, with ``agent``; worst first."""
    rows = _lost(connection, filters, by_agent=True)
    return [row for row in rows if row["lost_ms"]][:MOST_HABITS]


def _lost(connection: Connection, filters: Filters, *, by_agent: bool) -> list[Row]:
    if span := open_span(connection, filters):
        return sorted(rolled.losses(span, by_agent=by_agent), key=lambda row: -(row["lost_ms"] or 0))
    names = ("agent", "cause", "lost_tokens", "lost_ms", "prefill_ms")
    # Materialised, because an index on the cause would lure SQLite into walking the whole history by it.
    rows = narrow(select(*(_columns[name] for name in names)), filters).where(_columns.cause.is_not(None))
    base = rows.cte("base").prefix_with("MATERIALIZED")
    keys = [base.c.agent, base.c.cause] if by_agent else [base.c.cause]
    query = select(
        *keys,
        func.count().label("requests"),
        _whole(func.sum(base.c.lost_tokens), "lost_tokens"),
        _real(func.sum(base.c.lost_ms), "lost_ms"),
        _real(func.sum(base.c.prefill_ms), "prefill_ms"),
    ).group_by(*keys)
    return sorted(_rows(connection, query), key=lambda row: -(row["lost_ms"] or 0))


def longest_losses(connection: Connection, filters: Filters) -> list[Row]:
    """The single requests that lost most time, with their ids."""
    shown = (
        "id",
        "received_at",
        "agent",
        "session",
        "model",
        "cause",
        "diverged_at",
        "lost_tokens",
        "lost_ms",
    )
    query = narrow(select(*(_columns[name] for name in shown)), filters)
    query = query.where(_columns.lost_ms > 0).order_by(_columns.lost_ms.desc(), _columns.id.desc())
    return _rows(connection, query.limit(MOST))


def hit_rate(connection: Connection, filters: Filters) -> list[Row]:
    """By hour, oldest first: requests, the share that hit anything, and reuse predicted and measured."""
    span = _span(connection, filters, "hour")
    rows = _summed(span, "hour") if span else figures(connection, filters, "hour")
    return [
        {
            "hour": row["group"],
            "requests": row["requests"],
            "hit_rate": _share(row["hits"]),
            "predicted_reuse": row["predicted_reuse"],
            "measured_reuse": row["measured_reuse"],
        }
        for row in sorted(rows, key=lambda row: str(row["group"]))
    ]


def session_lengths(connection: Connection, filters: Filters) -> list[Row]:
    """How many sessions had up to so many requests: ``{"up_to": n | None, "count"}``."""
    if span := open_span(connection, filters):
        return listed(rolled.session_lengths(span, LENGTHS), LENGTHS)
    counted = narrow(select(func.count().label("length")), filters).where(_columns.session.is_not(None))
    inner = counted.group_by(_columns.session).subquery()
    return _buckets(connection, inner.c.length, LENGTHS)


def request_sizes(connection: Connection, filters: Filters) -> list[Row]:
    """How many requests had bodies of up to so many bytes: ``{"up_to": n | None, "count"}``."""
    if span := open_span(connection, filters):
        return listed(rolled.request_sizes(span, SIZES), SIZES)
    inner = narrow(select(_columns.request_bytes.label("size")), filters).subquery()
    return _buckets(connection, inner.c.size, SIZES)


def shared(connection: Connection, filters: Filters, name: str) -> list[Row]:
    """System prompts or tool schemas seen more than once (`name` is ``system_hash`` or ``tools_hash``).

    Each with its requests, sessions, agents and models, most often seen first.
    """
    if span := open_span(connection, filters):
        return [plain(row) for row in rolled.shared(span, name, MOST)]
    names = ("session", "agent", "model", "received_at")
    rows = narrow(select(_columns[name].label("hash"), *(_columns[key] for key in names)), filters)
    # Materialised, because the index on the hash would lure SQLite into grouping the whole history by it.
    base = rows.where(_columns[name].is_not(None)).cte("base").prefix_with("MATERIALIZED")
    query = (
        select(
            base.c.hash,
            func.count().label("requests"),
            func.count(base.c.session.distinct()).label("sessions"),
            func.count(base.c.agent.distinct()).label("agents"),
            func.count(base.c.model.distinct()).label("models"),
            func.min(base.c.received_at).label("first_at"),
            func.max(base.c.received_at).label("last_at"),
        )
        .group_by(base.c.hash)
        .having(func.count() > 1)
        .order_by(func.count().desc(), base.c.hash)
        .limit(MOST)
    )
    return _rows(connection, query)


def sharers(connection: Connection, filters: Filters, name: str, hashes: list[str]) -> dict[str, list[str]]:
    """The agents that sent each of these hashes of `name`, in order."""
    column = _columns[name]
    if span := open_span(connection, filters):
        rows = rolled.sharers(span, name, hashes)
    else:
        query = narrow(select(column.label("hash"), _columns.agent).distinct(), filters)
        query = query.where(column.in_(hashes), _columns.agent.is_not(None))
        rows = _rows(connection, query.order_by(_columns.agent))
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["hash"], []).append(row["agent"])
    return found


def listed(counts: Mapping[int, int], bounds: tuple[int, ...]) -> list[Row]:
    """Counts by the number of their bucket as ``{"up_to": n | None, "count"}``, empty buckets too."""
    tops: list[int | None] = [*bounds, None]
    return [{"up_to": top, "count": counts.get(place, 0)} for place, top in enumerate(tops)]


def _span(connection: Connection, filters: Filters, by: str | None) -> Span | None:
    return open_span(connection, filters, HOUR) if by == "hour" else open_span(connection, filters)


def _rolled_figures(span: Span, by: str | None, most: int | None) -> list[Row]:
    sums = rolled.totals(span, by, most)
    found = {row["group"]: row for row in _summed(span, by, sums)}
    for name in ("ttft_ms", "total_ms"):
        for row in rolled.percentiles(span, by, name.removesuffix("_ms"), sums):
            group = found.get(row.pop("grp"))
            if group is not None:
                group[name][row.pop("temperature")] = row
    return _ordered(found)


def _summed(span: Span, by: str | None, sums: list[Row] | None = None) -> list[Row]:
    made = []
    for row in rolled.totals(span, by) if sums is None else sums:
        group = {"group": row["grp"], "hits": rolled.hits_of(row)}
        group |= {name: row[name] for name in SUMMED}
        _finish(group)
        made.append(group | {"ttft_ms": {}, "total_ms": {}})
    return made


def _ordered(found: Mapping[Any, Row]) -> list[Row]:
    return sorted(found.values(), key=lambda row: (-row["requests"], str(row["group"])))


def _base(connection: Connection, filters: Filters, by: str | None) -> CTE:
    measured = and_(_columns.prompt_tokens > 0, _columns.cached_tokens.is_not(None))
    temperature = case(
        (and_(measured, _columns.cached_tokens * 2 >= _columns.prompt_tokens), "warm"),
        (measured, "cold"),
        else_="unmeasured",
    )
    names = ("hit", "lost_tokens", "lost_ms", "prefill_ms", "ttft_ms", "total_ms", "completion_tokens")
    query = select(
        _group(connection, by).label("group"),
        temperature.label("temperature"),
        case((measured, _columns.prompt_tokens)).label("prompt_tokens"),
        case((measured, _columns.cached_tokens)).label("cached_tokens"),
        case((measured, _columns.predicted_reuse * _columns.prompt_tokens)).label("predicted_tokens"),
        case((and_(measured, _columns.predicted_reuse.is_not(None)), _columns.prompt_tokens)).label(
            "foreseen"
        ),
        *(_columns[name] for name in names),
    )
    # Materialised, because an index on the group would lure SQLite into walking the whole history by it.
    return narrow(query, filters).cte("base").prefix_with("MATERIALIZED")


def _group(connection: Connection, by: str | None) -> ColumnElement[Any]:
    if by is None:
        return cast(null(), String)
    if by != "hour":
        return _columns[by]
    if connection.dialect.name == "sqlite":
        return func.substr(cast(_columns.received_at, String), 1, 13).op("||")(literal(":00:00Z"))
    return func.to_char(func.timezone("UTC", _columns.received_at), "YYYY-MM-DD HH24:00:00Z")


def _totals(base: CTE) -> Any:
    """Sums by group and hit, so that one pass over the rows gives both."""
    sums = ("prompt_tokens", "cached_tokens", "foreseen", "completion_tokens", "lost_tokens")
    return select(
        base.c.group,
        base.c.hit,
        func.count().label("requests"),
        func.count(base.c.prompt_tokens).label("measured"),
        *(_whole(func.sum(base.c[name]), name) for name in sums),
        *(_real(func.sum(base.c[name]), name) for name in ("predicted_tokens", "lost_ms", "prefill_ms")),
    ).group_by(base.c.group, base.c.hit)


def _fold(found: dict[Any, Row], row: Row) -> None:
    hit = row.pop("hit") or "unknown"
    group = found.setdefault(row["group"], {"group": row["group"], "hits": {}})
    group["hits"][hit] = row["requests"]
    for name, value in row.items():
        if name != "group":
            known = group.get(name)
            group[name] = value if known is None else known if value is None else known + value


def _finish(group: Row) -> None:
    predicted, foreseen = group.pop("predicted_tokens"), group.pop("foreseen")
    prompt, cached = group["prompt_tokens"], group["cached_tokens"]
    group["measured_reuse"] = cached / prompt if prompt and cached is not None else None
    group["predicted_reuse"] = predicted / foreseen if foreseen and predicted is not None else None


def _percentiles(base: CTE, name: str) -> Any:
    """Nearest rank: the smallest value that at least so many per cent of the values do not exceed."""
    value = base.c[name]
    parts = [base.c.group, base.c.temperature]
    ranked = (
        select(
            *parts,
            value.label("value"),
            func.row_number().over(partition_by=parts, order_by=value).label("place"),
            func.count().over(partition_by=parts).label("count"),
        )
        .where(value.is_not(None))
        .subquery()
    )
    cuts = [
        func.min(case((ranked.c.place * 100 >= ranked.c.count * share, ranked.c.value))).label(f"p{share}")
        for share in PERCENTILES
    ]
    grouped = [ranked.c.group, ranked.c.temperature]
    return select(*grouped, func.count().label("count"), *cuts).group_by(*grouped)


def _buckets(connection: Connection, value: ColumnElement[Any], bounds: tuple[int, ...]) -> list[Row]:
    label = case(*((value <= bound, place) for place, bound in enumerate(bounds)), else_=len(bounds))
    query = (
        select(label.label("place"), func.count().label("count")).where(value.is_not(None)).group_by(label)
    )
    counts = {row["place"]: row["count"] for row in _rows(connection, query)}
    return listed(counts, bounds)


def _rows(connection: Connection, query: Any) -> list[Row]:
    return [plain(row) for row in connection.execute(query).mappings()]


def _whole(expression: Any, name: str) -> Any:
    # PostgreSQL sums big integers into decimals.
    return cast(expression, requests.c.prompt_tokens.type).label(name)


def _real(expression: Any, name: str) -> Any:
    return cast(expression, requests.c.lost_ms.type).label(name)


def _share(hits: Mapping[str, int]) -> float | None:
    known = sum(count for name, count in hits.items() if name != "unknown")
    return (known - hits.get("none", 0)) / known if known else None
