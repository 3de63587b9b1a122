"""Keeps readings as rows of `backend_samples`, and draws them over time. Each function takes a connection.

It owns no state. What a worker needs to go on where another stopped, the totals and the recent past, is read
back from the rows.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Float, and_, case, cast, func, insert, select

from services.history.series import step_of
from services.history.tables import EPOCH, samples
from services.watch.reading import Interval, Reading, Unit

# More lines than this cannot be told apart on one chart.
BACKENDS = 4
_columns = samples.c


def store(connection: Connection, backend: str, reading: Reading, interval: Interval) -> None:
    """Add one sample."""
    connection.execute(
        insert(samples).values(
            backend=backend,
            sampled_at=_time(reading.at),
            exporter=reading.exporter,
            model=reading.model,
            started_at=None if reading.started_at is None else _time(reading.started_at),
            restarted=interval.restarted,
            running=reading.running,
            waiting=reading.waiting,
            kv_usage=reading.kv_usage,
            unit=reading.unit,
            lookups_total=reading.lookups,
            hits_total=reading.hits,
            prompt_tokens_total=reading.prompt_tokens,
            generation_tokens_total=reading.generation_tokens,
            interval_s=interval.seconds,
            lookups=interval.lookups,
            hits=interval.hits,
            prompt_tokens=interval.prompt_tokens,
            generation_tokens=interval.generation_tokens,
            hit_rate=interval.hit_rate,
            hit_rate_source=interval.hit_rate_source,
        )
    )


def latest(connection: Connection, backend: str, since: float) -> Reading | None:
    """The last sample's totals as a reading to go on from, None where there is none after `since` (epoch)."""
    query = (
        select(samples)
        .where(_columns.backend == backend, _columns.sampled_at >= _time(since))
        .order_by(_columns.sampled_at.desc())
        .limit(1)
    )
    row = connection.execute(query).mappings().first()
    if row is None:
        return None
    return Reading(
        exporter=row["exporter"],
        at=row["sampled_at"].timestamp(),
        started_at=row["started_at"].timestamp() if row["started_at"] else None,
        lookups=row["lookups_total"],
        hits=row["hits_total"],
        prompt_tokens=row["prompt_tokens_total"],
        generation_tokens=row["generation_tokens_total"],
    )


def recent(connection: Connection, backend: str, since: float) -> tuple[int, int, Unit | None]:
    """What was looked up and found since then (epoch seconds), and in which unit."""
    query = select(
        func.coalesce(func.sum(_columns.lookups), 0),
        func.coalesce(func.sum(_columns.hits), 0),
        func.max(_columns.unit),
    ).where(_columns.backend == backend, _columns.sampled_at >= _time(since), _columns.hits.is_not(None))
    lookups, hits, unit = connection.execute(query).one()
    return int(lookups), int(hits), unit


def series(connection: Connection, since: datetime, step_s: int, until: datetime) -> dict[str, Any]:
    """``{step_s, t, backends: [{backend, exporter, hit_rate, kv_usage, running, waiting}]}``.

    `t` are epoch seconds of each step's start; the figures have that length, with None where nothing is
    known. Hit rates are weighted by what was looked up; load and KV use are the highest of the step.
    """
    first = int(since.timestamp()) // step_s * step_s
    times = list(range(first, int(until.astimezone(UTC).timestamp()) + 1, step_s))
    at = {moment: place for place, moment in enumerate(times)}
    found: dict[str, dict[str, Any]] = {}
    step = step_of(connection, _columns.sampled_at, step_s)
    counted = and_(_columns.lookups > 0, _columns.hits.is_not(None))
    rate = cast(func.sum(case((counted, _columns.hits))), Float) / func.sum(case((counted, _columns.lookups)))
    query = (
        select(
            _columns.backend,
            step,
            func.max(_columns.exporter).label("exporter"),
            func.coalesce(rate, func.avg(_columns.hit_rate)).label("hit_rate"),
            *(func.max(_columns[name]).label(name) for name in ("kv_usage", "running", "waiting")),
        )
        .where(_columns.sampled_at >= since, _columns.sampled_at <= until)
        .group_by(_columns.backend, step)
        .order_by(_columns.backend, step)
    )
    for row in connection.execute(query).mappings():
        place = at.get(int(row["step"]))
        if place is None:
            continue
        lines = found.setdefault(row["backend"], _empty(row["backend"], len(times)))
        lines["exporter"] = row["exporter"]
        for name in FIGURES:
            lines[name][place] = None if row[name] is None else float(row[name])
    return {"step_s": step_s, "t": times, "backends": list(found.values())[:BACKENDS]}


FIGURES = ("hit_rate", "kv_usage", "running", "waiting")


def _empty(backend: str, length: int) -> dict[str, Any]:
    return {"backend": backend, "exporter": None, **{name: [None] * length for name in FIGURES}}


def _time(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)
