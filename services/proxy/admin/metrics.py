"""Prometheus metrics of this process, in a registry of their own.

`observe` is called once per row, when the answer has ended; figures of queue, spool and state are read when
somebody scrapes. Label values come from closed sets: kinds, statuses, hits and causes of the contract, and
`other` for everything else, so that no client can make series grow.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from services.proxy.answers import reasons
from services.record import HITS, STATUSES, Record
from services.semantic.base import Match

CONTENT_TYPE = "text/plain; version=0.0.4"
KINDS = frozenset({"generation", "embedding", "management", "other"})
CAUSES = frozenset({
    "client_attribution_token", "timestamp", "date_rollover", "counter", "workspace_snapshot", "system_edit",
    "dynamic_block", "tool_reorder", "tools_added", "tools_removed", "tool_schema_key_order",
    "tool_description_dynamic", "tool_schema_changed", "tool_args_reserialised", "template_param_changed",
    "reasoning_dropped_by_client", "reply_altered_by_client", "transient_block_removed", "tool_result_pruned",
    "history_rewrite", "compaction", "model_switch", "alternating_variants", "evicted_by",
    "capacity_suspected", "model_reload", "model_unloaded", "context_truncated", "client_disabled_cache",
    "template_history_rewrite_suspected", "template_generation_prompt_mismatch_suspected",
    "tool_turn_rerender_suspected", "engine_no_rewind_suspected", "engine_granularity",
    "checkpoint_or_window", "engine_unknown",
})  # fmt: skip
VERDICTS = frozenset({*reasons.VERDICTS, "bypass"})
REASONS = frozenset(reasons.BYPASSES)
_STATUSES, _HITS = frozenset(STATUSES), frozenset(HITS)

# From a warm turn of a small model to a cold 100k-token prompt on a laptop.
TTFT_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
# Around the figure to hold: 0.3 ms for a small request, 3 ms for a large one.
OVERHEAD_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25)
# An embedding takes 20 ms, 100 ms on a busy core; a quarter of a second is the limit.
LOOKUP_S = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3)
REUSE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
Labels = tuple[str, ...]

COUNTERS: dict[str, tuple[str, Labels]] = {
    "requests": ("Requests received, by kind, outcome and predicted hit.", ("kind", "status", "hit")),
    "tokens": (
        "Prompt tokens: sent and cached as the backend counts, and predicted to be reused.",
        ("what",),
    ),
    "causes": ("Requests by the first cause of lost reuse.", ("cause",)),
    "lost_tokens": ("Tokens prefilled again, by first cause.", ("cause",)),
    "lost_seconds": ("Prefill time lost, by first cause.", ("cause",)),
    "response_cache": (
        "Generations by what the response cache said of them, and why it did not ask or look by meaning.",
        ("verdict", "reason"),
    ),
    "saved_tokens": ("Tokens of the answers that the response cache gave instead of the backend.", ()),
    "saved_seconds": ("Time that the backend had taken for these answers.", ()),
    "semantic_lookups": (
        "Looks for an equal question: match, alias (learned), none; failures are apart.",
        ("outcome",),
    ),
}
HISTOGRAMS: dict[str, tuple[str, Labels, tuple[float, ...]]] = {
    "ttft_seconds": ("Time to first token, by predicted hit.", ("hit",), TTFT_S),
    "overhead_seconds": ("Time the proxy itself added.", (), OVERHEAD_S),
    "reuse_ratio": ("Share of the prompt reused, predicted and measured.", ("side",), REUSE),
    "semantic_lookup_seconds": ("Time of a look for an equal question, embedding included.", (), LOOKUP_S),
}


class Metrics(Collector):
    """Counts rows; `attach` adds the figures that are only read when scraped.

    The counts are plain dicts: the library's own counters took 17 µs a row, these take 5.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[Labels, float]] = {name: {} for name in COUNTERS}
        self._spreads: dict[str, dict[Labels, Spread]] = {name: {} for name in HISTOGRAMS}
        self._readers: list[Callable[[], Iterable[Family]]] = []
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(namespace="metalanchor", registry=self.registry)

    def observe(self, record: Record) -> None:
        """Count a finished request."""
        hit = _of(record.hit, _HITS, unknown="unknown")
        self._add("requests", (_of(record.kind, KINDS), _of(record.status, _STATUSES), hit), 1)
        if record.overhead_ms is not None:
            self._see("overhead_seconds", (), record.overhead_ms / 1e3)
        if record.ttft_ms is not None:
            self._see("ttft_seconds", (hit,), record.ttft_ms / 1e3)
        self._observe_reuse(record)
        if record.response_cache is not None:
            self._observe_cache(record.response_cache, record)
        if record.cause is not None:
            cause = (_of(record.cause, CAUSES),)
            self._add("causes", cause, 1)
            self._add("lost_tokens", cause, record.lost_tokens or 0)
            self._add("lost_seconds", cause, (record.lost_ms or 0.0) / 1e3)

    def looked(self, match: Match | None, seconds: float) -> None:
        """Count a look for an equal question."""
        outcome = "none" if match is None else "alias" if match.alias is not None else "match"
        self._add("semantic_lookups", (outcome,), 1)
        self._see("semantic_lookup_seconds", (), seconds)

    def attach(self, read: Callable[[], Iterable[Family]]) -> None:
        """Have `read` called for further families at each scrape."""
        self._readers.append(read)

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)

    def describe(self) -> Iterable[Family]:
        """Nothing in advance, so that the registry does not ask the readers before there is anything."""
        return ()

    def collect(self) -> Iterable[Family]:
        """Every family as it stands now."""
        for name, (text, labels) in COUNTERS.items():
            counter = CounterMetricFamily(f"metalanchor_{name}", text, labels=labels)
            for values, count in self._counts[name].items():
                counter.add_metric(values, count)
            yield counter
        for name, (text, labels, bounds) in HISTOGRAMS.items():
            histogram = HistogramMetricFamily(f"metalanchor_{name}", text, labels=labels)
            for values, spread in self._spreads[name].items():
                histogram.add_metric(values, spread.buckets(bounds), spread.total)
            yield histogram
        for read in self._readers:
            yield from read()

    def _observe_reuse(self, record: Record) -> None:
        if record.predicted_reuse is not None:
            self._see("reuse_ratio", ("predicted",), record.predicted_reuse)
        if record.predicted_tokens is not None:
            self._add("tokens", ("predicted",), record.predicted_tokens)
        if record.prompt_tokens is not None:
            self._add("tokens", ("prompt",), record.prompt_tokens)
        if record.cached_tokens is not None:
            self._add("tokens", ("cached",), record.cached_tokens)
            if record.prompt_tokens:
                self._see("reuse_ratio", ("measured",), record.cached_tokens / record.prompt_tokens)

    def _observe_cache(self, told: str, record: Record) -> None:
        verdict, _, reason = told.partition(":")
        labels = (_of(verdict, VERDICTS), _of(reason, REASONS) if reason else "")
        self._add("response_cache", labels, 1)
        self._add("saved_tokens", (), record.saved_tokens or 0)
        self._add("saved_seconds", (), (record.saved_ms or 0.0) / 1e3)

    def _add(self, name: str, labels: Labels, amount: float) -> None:
        counts = self._counts[name]
        counts[labels] = counts.get(labels, 0) + max(0, amount)

    def _see(self, name: str, labels: Labels, value: float) -> None:
        bounds = HISTOGRAMS[name][2]
        spreads = self._spreads[name]
        spread = spreads.get(labels)
        if spread is None:
            spread = spreads[labels] = Spread(len(bounds) + 1)
        spread.counts[bisect_left(bounds, value)] += 1
        spread.total += value


class Spread:
    """One histogram series: observations by bucket, the last one open-ended, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total = 0.0

    def buckets(self, bounds: tuple[float, ...]) -> list[tuple[str, float]]:
        """Cumulated counts by upper bound, as Prometheus has them."""
        names = [*map(floatToGoString, bounds), "+Inf"]
        return list(zip(names, accumulate(self.counts), strict=True))


def outbox_families(status: dict[str, Any]) -> Iterable[Family]:
    """Queue, spool, buffer and drops from `Outbox.status()`."""
    queue, spool = status["queue"], status["spool"]
    yield _gauge("queue_jobs", "Batches waiting in Redis, failed ones included.", queue["depth"])
    yield _gauge("queue_bytes", "Estimated bytes of those batches.", queue["bytes"])
    yield _gauge("queue_oldest_seconds", "Age of the oldest waiting batch.", queue["oldest_s"] or 0.0)
    yield _gauge("buffer_records", "Rows waiting in memory.", status["buffer"]["records"])
    yield _gauge("spool_records", "Rows waiting on disk.", spool["records"])
    yield _gauge("spool_bytes", "Bytes of rows waiting on disk.", spool["bytes"])
    yield _gauge("open_requests", "Requests whose row is not safe yet.", status["journal"]["open"])
    yield _gauge("redis_up", "Whether the queue's Redis answers.", float(status["redis"]["status"] == "up"))
    dropped = CounterMetricFamily("metalanchor_dropped", "What was lost on the way out.", labels=["what"])
    for what, count in status["dropped"].items():
        dropped.add_metric([what], count)
    yield dropped
    recovered = status["journal"]["recovered"]
    yield _count("recovered_records", "Rows of requests that a killed proxy left open.", recovered)
    missed = status["journal"]["unjournalled"]
    yield _count("unjournalled_requests", "Requests that a kill would lose.", missed)


def state_families(status: dict[str, Any]) -> Iterable[Family]:
    """The hit state's figures from `State.status()`."""
    shared = status["mode"] == "redis"
    yield _gauge("state_shared", "Whether hits are shared in Redis.", float(shared))
    away = "redis" in status and not shared
    yield _gauge("state_breaker_open", "Whether Redis is left alone for now.", float(away))
    for name in ("bytes", "lineages", "requests"):
        if isinstance(value := status.get(name), int | float):
            yield _gauge(f"state_{name}", f"Hit state in this process: {name}.", value)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"metalanchor_{name}", text, value=value)


def _count(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"metalanchor_{name}", text, value=value)


def _of(value: str | None, known: frozenset[str], unknown: str = "other") -> str:
    if value is None:
        return unknown
    return value if value in known else "other"
