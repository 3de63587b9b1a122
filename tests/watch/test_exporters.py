"""Each generation of each server's metrics, from texts of the shape that it sends."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.watch.exporters import EXPORTERS, NotMetrics, Unknown, read
from services.watch.reading import total_of

FOLDER = Path(__file__).with_name("metrics")
AT = 1_790_003_600.0
EXPECTED: dict[str, dict[str, Any]] = {
    "vllm-v0": {
        "exporter": "vllm-v0", "model": "meta-llama/Llama-3.1-8B-Instruct", "running": 2, "waiting": 1,
        "kv_usage": 0.4375, "unit": None, "lookups": None, "hits": None, "hit_rate": 0.62,
        "prompt_tokens": 1_250_000, "generation_tokens": 48_000,
    },
    "vllm-v1-early": {
        "exporter": "vllm-v1-early", "model": "Qwen/Qwen3-32B", "started_at": 1.74603e9, "running": 3,
        "waiting": 0, "kv_usage": 0.81, "unit": "tokens", "lookups": 200_000, "hits": 150_000,
    },
    "vllm": {
        "exporter": "vllm", "model": "Qwen/Qwen3-30B-A3B", "started_at": 1.79e9, "running": 5, "waiting": 2,
        "kv_usage": 0.9, "unit": "tokens", "lookups": 1_000_000, "hits": 800_000,
        "external_lookups": 200_000, "external_hits": 50_000,
        "facts": {"block_size": "16", "cache_dtype": "auto", "enable_prefix_caching": "True",
                  "num_gpu_blocks": "62500"},
    },
    "llama-server": {
        "exporter": "llama-server", "running": 1, "waiting": 3, "kv_usage": None, "unit": "tokens",
        "lookups": 10_000, "hits": 7_500, "prompt_tokens": 10_000, "generation_tokens": 400,
    },
    "llama-server-2025": {
        "exporter": "llama-server", "kv_usage": 0.25, "unit": None, "lookups": None, "hits": None,
        "prompt_tokens": 2_500,
    },
    "vllm-mlx": {
        "exporter": "vllm-mlx", "running": 2, "waiting": 1, "kv_usage": 0.4, "unit": "lookups",
        "lookups": 40, "hits": 30, "prompt_tokens": 100_000, "started_at": AT - 3_600,
    },
    "rapid-mlx": {
        "exporter": "rapid-mlx", "model": "mlx-community/Qwen3.6-27B-4bit", "running": 1, "kv_usage": 0.25,
        "unit": "lookups", "lookups": 50, "hits": 45, "started_at": AT - 120.5,
    },
}  # fmt: skip
RATES = {
    "vllm-v0": (0.62, "gauge"), "vllm-v1-early": (0.75, "counters"), "vllm": (0.8, "counters"),
    "llama-server": (0.75, "counters"), "llama-server-2025": (None, None), "vllm-mlx": (0.75, "counters"),
    "rapid-mlx": (0.9, "counters"),
}  # fmt: skip


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_generation_is_recognised_and_read(name: str):
    """By its names alone; of two generations side by side the newer one counts."""
    reading = read(text_of(name), AT)
    assert {field: getattr(reading, field) for field in EXPECTED[name]} == EXPECTED[name]
    total = total_of(reading)
    assert (total.hit_rate, total.hit_rate_source) == RATES[name]


def test_every_generation_has_a_recorded_text():
    """A row in the table of names that no test reads would be a guess."""
    assert {read(text_of(name), AT).exporter for name in EXPECTED} == {one.name for one in EXPORTERS}


def test_v0_without_prefix_caching_has_no_hit_rate():
    """It says -1, which is no rate."""
    text = text_of("vllm-v0").replace(
        'hit_rate{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.62', "hit_rate{} -1.0"
    )
    assert read(text, AT).hit_rate is None


@pytest.mark.parametrize(
    "text", ["", "<!doctype html><title>x</title>", '{"error": "not found"}', "vllm:x{ 1"]
)
def test_what_is_no_metrics_is_said(text: str):
    """A web page, an error, a broken line."""
    with pytest.raises(NotMetrics):
        read(text, AT)


def test_metrics_of_another_program_are_told_apart():
    """Prometheus text, but of no model server; also vLLM with --disable-log-stats, which keeps Python's."""
    with pytest.raises(Unknown):
        read("# TYPE go_goroutines gauge\ngo_goroutines 7\n", AT)
    with pytest.raises(Unknown):
        read("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.7e9\n", AT)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-3", "1e300"])
def test_a_counter_that_cannot_be_one_is_unknown(value: str):
    """Not zero, and no crash."""
    reading = read(f"vllm:prefix_cache_queries_total 10\nvllm:prefix_cache_hits_total {value}\n", AT)
    assert (reading.lookups, reading.hits, reading.unit) == (10, None, None)


names = st.sampled_from(sorted({name for one in EXPORTERS for group in one.names.values() for name in group}))
labels = st.dictionaries(st.sampled_from(["engine", "model_name", "le"]), st.text(max_size=8), max_size=3)
values = st.one_of(st.integers(0, 10**12), st.floats(width=32)).map(str)


def _line(name: str, given: dict[str, str], value: str) -> str:
    escaped = {k: v.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for k, v in given.items()}
    inner = ",".join(f'{key}="{text}"' for key, text in escaped.items())
    return f"{name}{{{inner}}} {value}" if inner else f"{name} {value}"


@given(st.lists(st.tuples(names, labels, values), min_size=1, max_size=12))
def test_any_series_with_any_labels_is_read(series: list[tuple[str, dict[str, str], str]]):
    """Whatever a model is called; figures are unknown or within their bounds."""
    lines = [_line(*one) for one in series]
    try:
        reading = read("\n".join(["# TYPE x gauge", *lines]), AT)
    except Unknown:
        return
    assert reading.kv_usage is None or 0 <= reading.kv_usage <= 1
    for name in ("lookups", "hits", "prompt_tokens", "generation_tokens"):
        assert getattr(reading, name) is None or getattr(reading, name) >= 0


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(1, 5))
def test_counters_of_several_engines_add_up(lookups: int, hits: int, engines: int):
    """As vLLM's data parallelism exports them."""
    lines = []
    for engine in range(engines):
        lines.append(f'vllm:prefix_cache_queries_total{{engine="{engine}"}} {lookups}')
        lines.append(f'vllm:prefix_cache_hits_total{{engine="{engine}"}} {hits}')
    reading = read("\n".join(lines), AT)
    assert (reading.lookups, reading.hits) == (lookups * engines, hits * engines)


nearly = st.text(alphabet='vllm:_{}"=,\\ \n#0123456789.eE+-').map(lambda text: "vllm:" + text)


@given(st.one_of(st.text(), nearly))
def test_garbage_is_refused_and_nothing_else_happens(text: str):
    """A server may answer anything."""
    with contextlib.suppress(NotMetrics, Unknown):
        read(text, AT)


@given(st.sampled_from(sorted(EXPECTED)), st.data())
def test_a_text_cut_anywhere_or_with_a_broken_byte_is_read_or_refused(name: str, data: st.DataObject):
    """A connection may end in mid line."""
    text = text_of(name)
    place = data.draw(st.integers(0, len(text) - 1))
    for broken in (text[:place], text[:place] + data.draw(st.characters()) + text[place + 1 :]):
        with contextlib.suppress(NotMetrics, Unknown):
            read(broken, AT)
