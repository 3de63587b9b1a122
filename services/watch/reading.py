"""One look at a model server's own counters, and what lies between two looks. Pure.

It owns no state. Totals are what the server counted since it started; a rate is made from two readings, and
a server that was restarted in between is recognised, since its counters begin anew.
"""

from typing import Literal

import msgspec

# Start times are told to the second, or come from an uptime that is rounded and read a moment later.
START_SLACK_S = 5.0
Unit = Literal["tokens", "lookups"]
TOTALS = ("lookups", "hits", "prompt_tokens", "generation_tokens")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one scrape said; None is "not told". Counters are totals since the server's start.

    `at` and `started_at` are epoch seconds, `kv_usage` is 0 to 1 and that of the fullest engine or slot.
    `lookups` and `hits` count what `unit` says: prompt tokens, or lookups of any length. `hit_rate` is the
    server's own mean since its start, where it tells one instead of counters. `external_lookups` and `_hits`
    are those of a second cache level. `facts` are settings the server shows, such as ``block_size``.
    """

    exporter: str
    at: float
    model: str | None = None
    started_at: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    unit: Unit | None = None
    lookups: int | None = None
    hits: int | None = None
    external_lookups: int | None = None
    external_hits: int | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    hit_rate: float | None = None
    facts: dict[str, str] = {}
    cache_clears_alone: bool = False


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in the `seconds` before a reading; counts are of that time, None where unknown.

    `hit_rate` comes from ``counters`` where something was looked up in that time, else from the server's own
    ``gauge``, which is a mean since its start; `hit_rate_source` says which.
    """

    seconds: float | None = None
    restarted: bool = False
    lookups: int | None = None
    hits: int | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    hit_rate: float | None = None
    hit_rate_source: Literal["counters", "gauge"] | None = None

    def per_second(self, name: str) -> float | None:
        """A count of this interval by the second."""
        count = getattr(self, name)
        return None if count is None or not self.seconds else count / self.seconds


def between(before: Reading | None, now: Reading) -> Interval:
    """The interval that ends with `now`; without an earlier reading only the server's own gauge is known."""
    if before is None or now.at <= before.at or before.exporter != now.exporter:
        return _rated(Interval(), now)
    anew, restarted = _begun_anew(before, now)
    lookups, hits, prompt, generated = (_grown(name, before, now, anew=name in anew) for name in TOTALS)
    interval = Interval(
        seconds=now.at - before.at,
        restarted=restarted,
        lookups=lookups,
        hits=hits,
        prompt_tokens=prompt,
        generation_tokens=generated,
    )
    return _rated(interval, now)


def total_of(now: Reading) -> Interval:
    """All that the server counted since its start, as one interval without a length."""
    interval = Interval(
        lookups=now.lookups,
        hits=now.hits,
        prompt_tokens=now.prompt_tokens,
        generation_tokens=now.generation_tokens,
    )
    return _rated(interval, now)


def _begun_anew(before: Reading, now: Reading) -> tuple[frozenset[str], bool]:
    """The counters that began at zero since, and whether the whole server did."""
    start, earlier = now.started_at, before.started_at
    if start is not None and earlier is not None and start - earlier > START_SLACK_S:
        return frozenset(TOTALS), True
    fallen = {name for name in TOTALS if _fell(getattr(before, name), getattr(now, name))}
    if not fallen:
        return frozenset(), False
    cache = frozenset({"lookups", "hits"})
    if now.cache_clears_alone and fallen <= cache:
        return cache, False
    return frozenset(TOTALS), True


def _fell(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and now < before


def _grown(name: str, before: Reading, now: Reading, *, anew: bool) -> int | None:
    old, new = getattr(before, name), getattr(now, name)
    if new is None or (old is None and not anew):
        return None
    return int(new) if anew else int(new - old)


def _rated(interval: Interval, now: Reading) -> Interval:
    if interval.lookups and interval.hits is not None:
        # A server may count the hit of a request before its lookup: never more than all.
        rate = min(1.0, interval.hits / interval.lookups)
        return msgspec.structs.replace(interval, hit_rate=rate, hit_rate_source="counters")
    if now.hit_rate is not None:
        return msgspec.structs.replace(interval, hit_rate=now.hit_rate, hit_rate_source="gauge")
    return interval
