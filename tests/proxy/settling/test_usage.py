"""What counters mean, by API, engine and version: three states, and never a zero that nobody measured."""

import pytest

from services.proxy.backends.backend import Backend
from services.proxy.dialects.base import Outcome
from services.proxy.settling.usage import measure
from tests.support.requests import CHAT, GENERATE, MESSAGES, OLLAMA, RESPONSES, dialect_of


def measured(path, kind=None, version=None, **reported):
    fields = {name.replace("__", "."): float(count) for name, count in reported.items()}
    return measure(
        Outcome(reported=fields),
        dialect_of(path),
        Backend(name="b", url="http://b", kind=kind, version=version),
    )


def test_llama_servers_timings_hold_the_truth():
    """Also where usage is absent, or says otherwise: the prompt is what was cached and what was processed."""
    found = measured(
        CHAT, timings__cache_n=500, timings__prompt_n=20, timings__predicted_n=7, timings__prompt_ms=12.5,
        usage__prompt_tokens=1, usage__prompt_tokens_details__cached_tokens=1,
    )  # fmt: skip
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (520, 500, 7)
    assert (found.source, found.field, found.prefill_ms) == ("timings", "timings.cache_n", 12.5)


def test_timings_without_a_cached_count_leave_it_to_usage():
    """Old builds, and nothing at all stays unknown."""
    found = measured(CHAT, timings__prompt_n=20, usage__prompt_tokens=520)
    assert (found.prompt_tokens, found.cached_tokens, found.source) == (520, None, None)


@pytest.mark.parametrize("cached", [0, 40])
def test_openais_usage_includes_cached_tokens(cached):
    """A reported zero is a zero."""
    found = measured(
        CHAT, "vllm", usage__prompt_tokens=50, usage__prompt_tokens_details__cached_tokens=cached
    )
    assert (found.prompt_tokens, found.cached_tokens, found.source) == (50, cached, "usage")
    assert found.field == "usage.prompt_tokens_details.cached_tokens"


def test_usage_without_details_is_unknown():
    """So do vLLM without its flag and old mlx_lm."""
    assert measured(CHAT, "vllm", usage__prompt_tokens=50).cached_tokens is None


def test_omlx_counts_directly_in_usage():
    """Without a details object."""
    found = measured(CHAT, usage__prompt_tokens=50, usage__cached_tokens=30)
    assert (found.cached_tokens, found.source, found.field) == (30, "usage", "usage.cached_tokens")


def test_responses_have_their_own_source():
    """Here too the input includes what was cached."""
    found = measured(
        RESPONSES, "llama-server", usage__input_tokens=9, usage__input_tokens_details__cached_tokens=4,
        usage__output_tokens=2,
    )  # fmt: skip
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (9, 4, 2)
    assert (found.source, found.field) == ("responses", "usage.input_tokens_details.cached_tokens")


def test_anthropics_input_is_only_the_uncached_remainder():
    """The prompt is input, read and written together."""
    found = measured(
        MESSAGES, "anthropic", usage__input_tokens=5, usage__cache_read_input_tokens=20,
        usage__cache_creation_input_tokens=75, usage__output_tokens=9,
    )  # fmt: skip
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (100, 20, 9)
    assert (found.source, found.field) == ("anthropic", "usage.cache_read_input_tokens")


def test_anthropics_last_usage_corrects_its_first():
    """Cumulative values; what the last does not repeat stays."""
    found = measured(
        MESSAGES, "anthropic", message_start__usage__input_tokens=7,
        message_start__usage__cache_read_input_tokens=90, usage__output_tokens=9, usage__input_tokens=10,
    )  # fmt: skip
    assert (found.prompt_tokens, found.cached_tokens) == (100, 90)
    assert found.field == "usage.cache_read_input_tokens"


def test_ollamas_first_usage_is_a_guess_and_never_counts():
    """A stream cut before its end has no prompt count."""
    found = measured(MESSAGES, "ollama", "0.33.3", message_start__usage__input_tokens=700)
    assert found.prompt_tokens is None


@pytest.mark.parametrize(("cached", "known"), [(40, 40), (0, 0), (None, None)])
def test_ollamas_cached_count_has_three_states(cached, known):
    """Positive, zero, not reported."""
    more = {} if cached is None else {"prompt_eval_cached_count": cached}
    found = measured(OLLAMA, "ollama", "0.33.3", prompt_eval_count=50, eval_count=3, **more)
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (50, known, 3)
    assert found.field == (None if cached is None else "prompt_eval_cached_count")
    assert not found.uncached_only


@pytest.mark.parametrize(
    ("version", "uncached_only"),
    [("0.3.14", True), ("0.4.0", False), ("0.24.0", False), ("0.30.0", True), ("0.30.1", False),
     ("v0.33.2", False), (None, False)],
)  # fmt: skip
def test_ollamas_prompt_count_changed_its_meaning_twice(version, uncached_only):
    """Only new tokens up to 0.3 and in 0.30.0: no total, and marked so."""
    found = measured(GENERATE, "ollama", version, prompt_eval_count=12)
    assert (found.prompt_tokens, found.uncached_only) == (12, uncached_only)


def test_an_absent_prompt_count_is_unknown_and_a_zero_is_as_reported():
    """Old versions leave it out when all was cached."""
    assert measured(OLLAMA, "ollama", "0.3.0", eval_count=3).prompt_tokens is None
    assert measured(OLLAMA, "ollama", "0.3.0", prompt_eval_count=0).prompt_tokens == 0


@pytest.mark.parametrize(
    ("path", "field", "version", "believed"),
    [
        (RESPONSES, "usage__input_tokens_details__cached_tokens", "0.33.2", False),
        (RESPONSES, "usage__input_tokens_details__cached_tokens", "0.33.3", False),
        (CHAT, "usage__prompt_tokens_details__cached_tokens", "0.33.2", False),
        (CHAT, "usage__prompt_tokens_details__cached_tokens", None, False),
        (CHAT, "usage__prompt_tokens_details__cached_tokens", "0.33.3", True),
        (MESSAGES, "usage__cache_read_input_tokens", "0.40.1", True),
    ],
)
def test_ollamas_constant_zeros_are_no_misses(path, field, version, believed):
    """Before 0.33.3 nothing was counted; the Responses route sends a constant."""
    assert measured(path, "ollama", version, **{field: 0}).cached_tokens == (0 if believed else None)
    assert measured(path, "ollama", version, **{field: 8}).cached_tokens == 8


def test_lm_studios_zero_is_no_miss_and_its_load_time_counts():
    """It reports no reuse; seconds become milliseconds."""
    found = measured(
        CHAT, "lmstudio", usage__prompt_tokens=9, usage__prompt_tokens_details__cached_tokens=0,
        stats__model_load_time_seconds=1.5,
    )  # fmt: skip
    assert (found.prompt_tokens, found.cached_tokens, found.load_ms) == (9, None, 1500.0)


def test_ollamas_durations_become_milliseconds():
    """Nanoseconds on the wire; a reported zero stays zero."""
    found = measured(
        OLLAMA, "ollama", "0.33.3", load_duration=5_000_000_000, prompt_eval_duration=500_000_000
    )
    assert (found.load_ms, found.prefill_ms) == (5000.0, 500.0)
    assert measured(OLLAMA, "ollama", "0.33.3", load_duration=0).load_ms == 0.0
    assert measured(OLLAMA, "ollama", "0.33.3").load_ms is None


def test_llamas_own_route_counts_evaluated_tokens():
    """Where there are no timings; `tokens_cached` is no cached count."""
    found = measured("/completion", "llama-server", tokens_evaluated=30, tokens_cached=35, tokens_predicted=5)
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (30, None, 5)


def test_nothing_reported_is_nothing_known():
    """In every field."""
    found = measured(CHAT)
    assert [
        getattr(found, name) for name in ("prompt_tokens", "cached_tokens", "source", "field", "load_ms")
    ] == [None] * 5
