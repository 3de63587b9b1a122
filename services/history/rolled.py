# ruff: noqa: S608 - names are our own tables and columns; values are bound
"""The figures of reports over more rows than can be sorted in time: from rollups, and the rows beside them.

It owns no state. Counts and sums are exact, as from the rows. Percentiles are read off a histogram
(`services.history.histogram`), so they are within 5 % of the exact ones. The database does the sums, in the
same words on SQLite and PostgreSQL.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from services.history import histogram
from services.history.rollups import (
    HOUR,
    SUMS,
    TEMPERATURE,
    VALUES,
    Sum,
    bucket_column,
    hit_column,
    step_sql,
)  # fmt: skip
from services.history.spans import Row, Span
from services.history.tables import UtcTime
from services.record import HITS

PERCENTILES = (50, 95, 99)


def totals(span: Span, by: str | None, most: int | None = None) -> list[Row]:
    """Counts and sums by group, most requests first; with the buckets between which its times lie."""
    part = _part(by)
    names = [total.name for total in SUMS]
    edges = [f"{time}_{edge}" for time in ("ttft", "total") for edge in ("low", "high")]
    of_rows = ", ".join(f"{total.of_row} AS {total.name}" for total in SUMS)
    bucketed = ", ".join(
        f"{histogram.bucket_sql(f'{time}_ms')} AS {time}_{edge}"
        for time in ("ttft", "total")
        for edge in ("low", "high")
    )
    sums = ", ".join(_sum(total) for total in SUMS)
    extremes = ", ".join(f"{'MIN' if edge.endswith('low') else 'MAX'}({edge}) AS {edge}" for edge in edges)
    limit = "" if most is None else f" LIMIT {int(most)}"
    return span.ask(
        f"SELECT grp, {sums}, {extremes} FROM ("
        f" SELECT {_of_rollup(span, by)} AS grp, {', '.join(names + edges)} {span.rolled(part)}"
        f" UNION ALL SELECT {_of_row(span, by)} AS grp, {of_rows}, {bucketed} {span.rows()}"
        f") AS held GROUP BY grp ORDER BY SUM(requests) DESC, grp{limit}"
    )


def percentiles(span: Span, by: str | None, time: str, found: Sequence[Row]) -> list[Row]:
    """``grp``, ``temperature``, ``count`` and each percentile, of the groups in `found` (`totals`)."""
    groups, chosen = [group["grp"] for group in found], ""
    if by == "session":
        chosen = f" AND {_among('{name}', groups, span)}"
    return _percentiles(
        span,
        time,
        _between(found, time),
        f"{_of_rollup(span, by)} AS grp, temperature",
        f"{_of_row(span, by)} AS grp, {TEMPERATURE} AS temperature",
        rolled=f"{span.rolled(_part(by))}{chosen.format(name='value')}{_hours(by, groups)}",
        rows=f"{span.rows()}{chosen.format(name='session')}",
    )


def _percentiles(
    span: Span, time: str, buckets: range | None, of_rollup: str, of_row: str, *, rolled: str, rows: str
) -> list[Row]:
    """Percentiles by the two columns that `of_rollup` and `of_row` name ``grp, temperature``.

    The database sums the buckets. Ranks are found here: as SQL, a row a bucket and group, they had to be
    sorted, in a statement of 20 KB.
    """
    if buckets is None:
        return []
    held: dict[tuple[Any, Any], list[int]] = defaultdict(lambda: [0] * histogram.BUCKETS)
    sums = ", ".join(f"SUM({bucket_column(time, number)})" for number in buckets)
    for grp, temperature, *counts in span.tuples(f"SELECT {of_rollup}, {sums} {rolled} GROUP BY 1, 2"):
        held[grp, temperature][buckets.start : buckets.stop] = [count or 0 for count in counts]
    bucket = histogram.bucket_sql(f"{time}_ms")
    # Materialized: to group the few rows, SQLite would walk an index of all, 1 s at a million.
    fresh = (
        f"WITH fresh AS MATERIALIZED (SELECT {of_row}, {bucket} AS bucket {rows} AND {time}_ms IS NOT NULL)"
    )
    for grp, temperature, number, count in span.tuples(
        f"{fresh} SELECT grp, temperature, bucket, count(*) FROM fresh GROUP BY 1, 2, 3"
    ):
        held[grp, temperature][number] += count
    return [
        {"grp": grp, "temperature": temperature, "count": sum(counts)}
        | {f"p{share}": histogram.percentile(counts, share) for share in PERCENTILES}
        for (grp, temperature), counts in held.items()
        if any(counts)
    ]


def losses(span: Span, *, by_agent: bool = False) -> list[Row]:
    """By cause, or by agent and cause: requests, tokens and milliseconds lost, prefill time spent."""
    keys = "agent, cause" if by_agent else "cause"
    names = [total for total in SUMS if total.name in {"requests", "lost_tokens", "lost_ms", "prefill_ms"}]
    of_rows = ", ".join(f"{total.of_row} AS {total.name}" for total in names)
    sums = ", ".join(_sum(total) for total in names)
    return span.ask(
        f"SELECT {keys}, {sums} FROM ("
        f"SELECT agent, value AS cause, {', '.join(t.name for t in names)} {span.rolled('cause')}"
        f" AND value IS NOT NULL"
        f" UNION ALL SELECT agent, cause, {of_rows} {span.rows()} AND cause IS NOT NULL"
        f") AS held GROUP BY {keys}"
    )


def steps(span: Span, step_s: int) -> tuple[list[Row], list[Row], list[Row]]:
    """By steps of equal length: sums (as `totals`), percentiles of the time to the first token, time lost.

    Each row has ``grp``, the epoch second that its step begins at; losses also ``cause`` and ``lost_ms``.
    """
    rolled, row = f"start_s - start_s % {step_s}", step_sql(span.connection.dialect.name, step_s)
    names = ("requests", "prompt_tokens", "cached_tokens", "foreseen", "predicted_tokens")
    chosen = [total for total in SUMS if total.name in names]
    of_rows = ", ".join(f"{total.of_row} AS {total.name}" for total in chosen)
    sums = ", ".join(_sum(total) for total in chosen)
    bucketed = histogram.bucket_sql("ttft_ms")
    summed = span.ask(
        f"SELECT grp, {sums}, MIN(ttft_low) AS ttft_low, MAX(ttft_high) AS ttft_high FROM ("
        f" SELECT {rolled} AS grp, {', '.join(t.name for t in chosen)}, ttft_low, ttft_high"
        f" {span.rolled('any')}"
        f" UNION ALL SELECT {row} AS grp, {of_rows}, bucket, bucket"
        f" FROM (SELECT requests.*, {bucketed} AS bucket {span.rows()}) AS fresh) AS held GROUP BY grp"
    )
    firsts = _percentiles(
        span,
        "ttft",
        _between(summed, "ttft"),
        f"{rolled} AS grp, '' AS temperature",
        f"{row} AS grp, '' AS temperature",
        rolled=span.rolled("any"),
        rows=span.rows(),
    )
    pieces = " UNION ALL ".join(
        f"SELECT {rolled} AS grp, value AS cause, lost_ms {piece} AND lost_ms > 0"
        for piece in span.rolled_apart("cause")
    )
    lost = span.ask(
        f"SELECT grp, cause, CAST(SUM(lost_ms) AS DOUBLE PRECISION) AS lost_ms FROM ({pieces}"
        f" UNION ALL SELECT {row} AS grp, cause, lost_ms {span.rows()} AND coalesce(lost_ms, 0) > 0) AS held"
        f" GROUP BY grp, cause"
    )
    return summed, firsts, lost


def session_lengths(span: Span, bounds: Sequence[int]) -> Mapping[int, int]:
    """How many sessions fall into each bucket of length, by the bucket's number."""
    rows = span.ask(
        f"SELECT {_buckets('length', bounds)} AS bucket, count(*) AS held FROM ("
        f" SELECT CAST(SUM(requests) AS BIGINT) AS length FROM ("
        f" SELECT value AS session, requests {span.rolled('session')} AND value IS NOT NULL"
        f" UNION ALL SELECT session, 1 {span.rows()} AND session IS NOT NULL"
        f") AS each_one GROUP BY session) AS lengths GROUP BY 1"
    )
    return {row["bucket"]: row["held"] for row in rows}


def request_sizes(span: Span, bounds: Sequence[int]) -> Mapping[int, int]:
    """How many requests fall into each bucket of size, by the bucket's number."""
    rows = f"SELECT {_buckets('request_bytes', bounds)}, 1 {span.rows()} AND request_bytes IS NOT NULL"
    return _sizes(span, "size", rows)


def message_sizes(span: Span, bounds: Sequence[int]) -> Mapping[int, int]:
    """How many messages fall into each bucket of size, by the bucket's number."""
    unpacked = "json_each(new_chunks)" if span.sqlite else "jsonb_array_elements_text(new_chunks)"
    item = "item.value" if span.sqlite else "item"
    rows = span.rows().replace("FROM requests", f"FROM requests, {unpacked} AS item", 1)
    size = _buckets(f"CAST(substr({item}, 14) AS BIGINT)", bounds)
    return _sizes(span, "message", f"SELECT {size}, 1 {rows} AND substr({item}, 1, 1) IN ('m', 'r')")


def _sizes(span: Span, part: str, rows: str) -> Mapping[int, int]:
    found = span.ask(
        f"SELECT bucket, CAST(SUM(held) AS BIGINT) AS held FROM ("
        f"SELECT CAST(value AS INTEGER) AS bucket, requests AS held {span.rolled(part)} UNION ALL {rows}"
        f") AS bucketed GROUP BY bucket"
    )
    return {row["bucket"]: row["held"] for row in found}


def shared(span: Span, name: str, limit: int) -> list[Row]:
    """System prompts or tool schemas (`name` is their column) seen more than once, most often first."""
    assert name in {"system_hash", "tools_hash"}
    found = span.ask(
        f"SELECT hash, CAST(SUM(requests) AS BIGINT) AS requests, count(DISTINCT session) AS sessions,"
        f" count(DISTINCT agent) AS agents, count(DISTINCT model) AS models,"
        f" min(first_at) AS first_at, max(last_at) AS last_at FROM ({_prompts(span, name)}) AS held"
        f" GROUP BY hash HAVING SUM(requests) > 1 ORDER BY SUM(requests) DESC, hash LIMIT {int(limit)}"
    )
    read = UtcTime()
    for row in found:
        for at in ("first_at", "last_at"):
            row[at] = read.process_result_value(row[at], span.connection.dialect)
    return found


def sharers(span: Span, name: str, hashes: Sequence[str]) -> list[Row]:
    """``hash`` and ``agent`` of all who sent one of the hashes, each once, in order."""
    chosen = ", ".join(span.bind(value) for value in hashes) or "NULL"
    return span.ask(
        f"SELECT DISTINCT hash, agent FROM ({_prompts(span, name)}) AS held"
        f" WHERE hash IN ({chosen}) AND agent IS NOT NULL ORDER BY agent"
    )


def _prompts(span: Span, name: str) -> str:
    return (
        f"SELECT {name} AS hash, session, agent, model, requests, first_at, last_at {span.prompts()}"
        f" AND {name} IS NOT NULL UNION ALL SELECT {name}, session, agent, model, 1, received_at, received_at"
        f" {span.rows()} AND {name} IS NOT NULL"
    )


def hits_of(row: Row) -> dict[str, int]:
    """The kinds of hit of a group of `totals`, those that occurred."""
    counted = {hit: row[hit_column(hit)] or 0 for hit in HITS}
    counted["unknown"] = row["requests"] - sum(counted.values())
    return {hit: count for hit, count in counted.items() if count}


def _sum(total: Sum) -> str:
    # Cast, because PostgreSQL sums big integers into decimals.
    return f"CAST(SUM({total.name}) AS {'DOUBLE PRECISION' if total.real else 'BIGINT'}) AS {total.name}"


def _between(found: Sequence[Row], time: str) -> range | None:
    """The buckets in which there are any; to sum the others too would cost as much again."""
    lows = [row[f"{time}_low"] for row in found if row[f"{time}_low"] is not None]
    highs = [row[f"{time}_high"] for row in found if row[f"{time}_high"] is not None]
    return range(min(lows), max(highs) + 1) if lows else None


def _part(by: str | None) -> str:
    return by if by in VALUES else "all"


def _of_rollup(span: Span, by: str | None) -> str:
    if by == "hour":
        return _hour_of_rollup(span)
    if by in {"agent", "model"}:
        return by
    return "CAST(NULL AS VARCHAR)" if by is None else "value"


def _of_row(span: Span, by: str | None) -> str:
    if by == "hour":
        return _hour_of_row(span)
    return "CAST(NULL AS VARCHAR)" if by is None else by


def _hour_of_rollup(span: Span) -> str:
    assert all(piece.span == HOUR for piece in span.cover.pieces)
    if span.sqlite:
        return r"strftime('%Y-%m-%d %H\:00\:00Z', start_s, 'unixepoch')"
    return r"to_char(timezone('UTC', to_timestamp(start_s)), 'YYYY-MM-DD HH24\:00\:00Z')"


def _hour_of_row(span: Span) -> str:
    if span.sqlite:
        return r"substr(received_at, 1, 13) || '\:00\:00Z'"
    return r"to_char(timezone('UTC', received_at), 'YYYY-MM-DD HH24\:00\:00Z')"


def _hours(by: str | None, groups: Sequence[Any]) -> str:
    if by != "hour":
        return ""
    starts = (str(round(datetime.fromisoformat(label).timestamp())) for label in groups)
    return f" AND start_s IN ({', '.join(starts)})"


def _among(name: str, values: Sequence[Any], span: Span) -> str:
    known = ", ".join(span.bind(value) for value in values if value is not None) or "NULL"
    return f"({name} IN ({known}){f' OR {name} IS NULL' if None in values else ''})"


def _buckets(value: str, bounds: Sequence[int]) -> str:
    whens = " ".join(f"WHEN {value} <= {bound} THEN {place}" for place, bound in enumerate(bounds))
    return f"CASE {whens} ELSE {len(bounds)} END"
