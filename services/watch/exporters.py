"""Knows the metric names of each model server, generation by generation. Pure.

It owns the table of names. A server is known by the metrics it has, never by its address. Series of several
engines (vLLM's data parallelism) are summed, shares are those of the fullest.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from services.watch.reading import Reading, Unit

# All that is read begins with one of these; the rest, histograms above all, is not parsed.
PREFIXES = ("vllm:", "vllm_mlx_", "rapid_mlx_", "llamacpp:", "process_start_time_seconds")
# Above this a float has no exact integers, and no server has counted that far.
LARGEST = 2**53


class NotMetrics(ValueError):  # noqa: N818
    """The text is no Prometheus exposition."""


class Unknown(ValueError):  # noqa: N818
    """The text is Prometheus metrics, but none of a model server known here."""


class Exporter(NamedTuple):
    """One generation of one server: the metrics that show it, and where each figure stands.

    A figure has several names where a server changed it without changing the rest; the first present is read.
    """

    name: str
    shown_by: tuple[str, ...]
    unit: Unit | None
    names: Mapping[str, tuple[str, ...]]
    clears_alone: bool = False


_VLLM = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
}
_VLLM_NOW = {
    **_VLLM,
    "lookups": ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries"),
    "hits": ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits"),
    "external_lookups": ("vllm:external_prefix_cache_queries_total",),
    "external_hits": ("vllm:external_prefix_cache_hits_total",),
}
_VLLM_EARLY = {
    **_VLLM,
    "lookups": ("vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries"),
    "hits": ("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits"),
}
_LLAMA = {
    "running": ("llamacpp:requests_processing",),
    "waiting": ("llamacpp:requests_deferred",),
    "kv_usage": ("llamacpp:kv_cache_usage_ratio",),
    "processed": ("llamacpp:prompt_tokens_total",),
    "hits": ("llamacpp:prompt_tokens_cached_total",),
    "generation_tokens": ("llamacpp:tokens_predicted_total",),
}
_VLLM_MLX = {
    "running": ("vllm_mlx_scheduler_running_requests",),
    "waiting": ("vllm_mlx_scheduler_waiting_requests",),
    "kv_usage": ("vllm_mlx_cache_utilization_ratio",),
    "hits": ("vllm_mlx_cache_hits",),
    "misses": ("vllm_mlx_cache_misses",),
    "prompt_tokens": ("vllm_mlx_prompt_tokens_total",),
    "generation_tokens": ("vllm_mlx_completion_tokens_total",),
    "uptime": ("vllm_mlx_engine_uptime_seconds",),
}
_RAPID_MLX = {
    "running": ("rapid_mlx_requests_running",),
    "waiting": ("rapid_mlx_requests_waiting",),
    "used_bytes": ("rapid_mlx_prefix_cache_current_bytes",),
    "cap_bytes": ("rapid_mlx_prefix_cache_cap_bytes",),
    "hits": ("rapid_mlx_prefix_cache_hits_total",),
    "misses": ("rapid_mlx_prefix_cache_misses_total",),
    "prompt_tokens": ("rapid_mlx_prompt_tokens_total",),
    "generation_tokens": ("rapid_mlx_completion_tokens_total",),
    "uptime": ("rapid_mlx_uptime_seconds",),
}
# Newest first: mid-2025 releases of vLLM fed the names of two generations side by side.
EXPORTERS = (
    Exporter("vllm", _VLLM_NOW["lookups"], "tokens", _VLLM_NOW),
    Exporter("vllm-v1-early", _VLLM_EARLY["lookups"], "tokens", _VLLM_EARLY),
    Exporter(
        "vllm-v0",
        ("vllm:num_requests_running", "vllm:gpu_cache_usage_perc"),
        None,
        {**_VLLM, "hit_rate": ("vllm:gpu_prefix_cache_hit_rate",)},
    ),
    Exporter("llama-server", ("llamacpp:prompt_tokens_total",), "tokens", _LLAMA),
    Exporter(
        "vllm-mlx", ("vllm_mlx_model_loaded", "vllm_mlx_cache_hits"), "lookups", _VLLM_MLX, clears_alone=True
    ),
    Exporter("rapid-mlx", ("rapid_mlx_build_info",), "lookups", _RAPID_MLX),
)
OF_THE_FULLEST = frozenset({"kv_usage", "hit_rate", "uptime"})
CONFIG = "vllm:cache_config_info"
FACTS = ("enable_prefix_caching", "block_size", "num_gpu_blocks", "cache_dtype")


class _Series(NamedTuple):
    labels: dict[str, str]
    value: float


def read(text: str, at: float) -> Reading:
    """What a server's metrics say; raises `NotMetrics` or `Unknown`."""
    series = _parse(text)
    for exporter in EXPORTERS:
        if any(name in series for name in exporter.shown_by):
            return _reading(exporter, series, at)
    if not series and not _is_exposition(text):
        raise NotMetrics("it has no `# TYPE` line")
    raise Unknown("no metrics of a known model server")


def _parse(text: str) -> dict[str, list[_Series]]:
    found: dict[str, list[_Series]] = {}
    try:
        for family in text_string_to_metric_families("\n".join(_ours(text))):
            for sample in family.samples:
                found.setdefault(sample.name, []).append(_Series(dict(sample.labels), float(sample.value)))
    except (ValueError, IndexError, KeyError, TypeError) as error:  # the library's ways to say "malformed"
        raise NotMetrics(f"a line is malformed ({type(error).__name__})") from None
    return found


def _ours(text: str) -> Iterable[str]:
    for line in text.split("\n"):
        if line.startswith(PREFIXES) and "_bucket{" not in line:
            yield line


def _is_exposition(text: str) -> bool:
    return text.startswith(("# HELP ", "# TYPE ")) or "\n# TYPE " in text


def _reading(exporter: Exporter, series: Mapping[str, list[_Series]], at: float) -> Reading:
    figures = {field: _figure(field, names, series) for field, names in exporter.names.items()}
    hits, lookups, prompt = _counts(figures)
    return Reading(
        exporter=exporter.name,
        at=at,
        model=_model(exporter, series),
        started_at=_started(exporter, series, figures.get("uptime"), at),
        running=figures.get("running"),
        waiting=figures.get("waiting"),
        kv_usage=_usage(figures),
        unit=exporter.unit if hits is not None else None,
        lookups=lookups,
        hits=hits,
        external_lookups=_count(figures.get("external_lookups")),
        external_hits=_count(figures.get("external_hits")),
        prompt_tokens=prompt,
        generation_tokens=_count(figures.get("generation_tokens")),
        hit_rate=_share(figures.get("hit_rate")),
        facts=_facts(series),
        cache_clears_alone=exporter.clears_alone,
    )


def _figure(field: str, names: Iterable[str], series: Mapping[str, list[_Series]]) -> float | None:
    values = next((series[name] for name in names if name in series), [])
    numbers = [one.value for one in values if math.isfinite(one.value)]
    if not numbers:
        return None
    return max(numbers) if field in OF_THE_FULLEST else sum(numbers)


def _counts(figures: Mapping[str, float | None]) -> tuple[int | None, int | None, int | None]:
    """Hits, lookups and prompt tokens, also where a server gives them in parts."""
    hits, lookups = _count(figures.get("hits")), _count(figures.get("lookups"))
    prompt, misses = _count(figures.get("prompt_tokens")), _count(figures.get("misses"))
    if hits is not None and misses is not None:
        lookups = hits + misses
    if (processed := _count(figures.get("processed"))) is not None:
        # llama-server counts what it computed; with what it reused, where it tells that, it is all.
        prompt = processed + (hits or 0)
        lookups = prompt if hits is not None else None
    return hits, lookups, prompt


def _usage(figures: Mapping[str, float | None]) -> float | None:
    used, cap = figures.get("used_bytes"), figures.get("cap_bytes")
    if used is not None and cap:
        return _share(used / cap)
    return _share(figures.get("kv_usage"))


def _count(value: float | None) -> int | None:
    return int(value) if value is not None and 0 <= value <= LARGEST else None


def _share(value: float | None) -> float | None:
    """A share from 0 to 1. vLLM V0 says -1 for a hit rate it does not have."""
    return value if value is not None and 0 <= value <= 1 else None


def _started(
    exporter: Exporter, series: Mapping[str, list[_Series]], uptime: float | None, at: float
) -> float | None:
    """Epoch seconds of the server's start, from its process, its counters' creation or its uptime."""
    if "process_start_time_seconds" in series:
        return max(one.value for one in series["process_start_time_seconds"])
    if uptime is not None:
        return at - uptime if uptime > 0 else None
    for name in exporter.names.get("lookups", ()):
        created = series.get(name.removesuffix("_total") + "_created")
        if created:
            return max(one.value for one in created)
    return None


def _model(exporter: Exporter, series: Mapping[str, list[_Series]]) -> str | None:
    names = {
        one.labels.get("model_name") or one.labels.get("model")
        for shown in exporter.shown_by
        for one in series.get(shown, ())
    } - {None, ""}
    return names.pop() if len(names) == 1 else None


def _facts(series: Mapping[str, list[_Series]]) -> dict[str, str]:
    labels = [one.labels for one in series.get(CONFIG, ())]
    return {
        name: labels[0][name] for name in FACTS if labels and labels[0].get(name) not in {None, "", "None"}
    }
