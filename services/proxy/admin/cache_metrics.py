"""The response cache's figures as metrics: what all proxies share in Redis, and what failed here.

It owns what Redis said last. Asked at each scrape, before the page is written; while Redis is away those
figures have no sample.
"""

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from services.proxy.answers.base import AwayError, Stats
from services.proxy.answers.cache import ResponseCache

GAUGES = {
    "entries": "Cached answers in Redis.",
    "bytes": "Bytes of cached answers in Redis, indexes included.",
    "max_bytes": "The cap on these.",
}
COUNTERS = {
    "stored": "Answers stored, by all proxies of this Redis.",
    "evicted": "Answers dropped for want of room, least recently used first.",
    "expired": "Answers whose time was over.",
    "invalidated": "Answers that somebody had dropped.",
}

Family = CounterMetricFamily | GaugeMetricFamily


class CacheMetrics:
    """What is known of a cache, which is None where it is off."""

    def __init__(self, cache: ResponseCache | None) -> None:
        self._cache = cache
        self._stats: Stats | None = None

    async def refresh(self) -> None:
        """Ask Redis, within its own time limit."""
        if self._cache is not None:
            try:
                self._stats = await self._cache.store.stats()
            except AwayError:
                self._stats = None

    def families(self) -> Iterable[Family]:
        """The figures of the last look."""
        matcher = self._cache.matcher if self._cache is not None else None
        return families(self._stats, matcher.status()["failures"] if matcher is not None else {})


def families(stats: Stats | None, failures: Mapping[str, int]) -> Iterable[Family]:
    """The figures; without `stats` those of Redis have no sample. Pure."""
    for name, text in GAUGES.items():
        gauge = GaugeMetricFamily(f"metalanchor_response_cache_{name}", text, labels=[])
        if stats is not None:
            gauge.add_metric([], getattr(stats, name))
        yield gauge
    for name, text in COUNTERS.items():
        counter = CounterMetricFamily(f"metalanchor_response_cache_{name}", text, labels=[])
        if stats is not None:
            counter.add_metric([], getattr(stats, name))
        yield counter
    text = "Looks and additions by meaning that failed; each look is a miss."
    failed = CounterMetricFamily("metalanchor_semantic_failures", text, labels=["kind"])
    for kind, count in failures.items():
        failed.add_metric([kind], count)
    yield failed
