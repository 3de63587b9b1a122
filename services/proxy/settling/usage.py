"""What an answer's counters mean: prompt, cached and generated tokens, load and prefill times. Pure.

The same names mean different things by API, engine and version; all of that knowledge is here. Three states
are kept apart: reported above zero, reported as zero, and not reported (None), because several servers leave
a count out, or send a constant zero, whatever they reused.
"""

from typing import NamedTuple

from services.proxy.backends.backend import Backend
from services.proxy.dialects.base import Dialect, Outcome
from services.proxy.flow import Measured

# Ollama's prompt_eval_count covered only newly processed tokens up to 0.3.x and again in 0.30.0; it exposes
# cached tokens from 0.33.3 on, and sent a constant zero on some routes before that.
OLLAMA_COUNTS_ALL = (0, 4)
OLLAMA_REGRESSION = (0, 30, 0)
OLLAMA_REPORTS_CACHED = (0, 33, 3)


class _Cached(NamedTuple):
    source: str
    field: str
    tokens: int


def measure(outcome: Outcome, dialect: Dialect, backend: Backend) -> Measured:
    """The engine's own account of one answer."""
    told = _Told(
        outcome.reported,
        trust_start=dialect.family == "anthropic" and backend.kind != "ollama",
        cumulative=backend.kind == "anthropic",
    )
    uncached_only = _uncached_only(told, backend)
    charges = dialect.family == "anthropic" or backend.kind == "openai"
    written, written_1h = _written(told) if charges else (None, None)
    total = _prompt_tokens(told, dialect, (written or 0) + (written_1h or 0))
    cached = _believed(_cached(told, dialect), dialect, backend)
    if cached and total is not None and cached.tokens > total and not uncached_only:
        cached = None  # more than there was: whatever it counts, it is not this
    return Measured(
        prompt_tokens=total,
        cached_tokens=cached.tokens if cached else None,
        source=cached.source if cached else None,
        field=cached.field if cached else None,
        completion_tokens=told.first(*_COMPLETION),
        load_ms=_milliseconds(told, _LOAD),
        prefill_ms=_milliseconds(told, _PREFILL),
        uncached_only=uncached_only,
        written=written,
        written_1h=written_1h,
    )


_COMPLETION = ("timings.predicted_n", "usage.completion_tokens", "usage.output_tokens", "eval_count",
               "tokens_predicted", "stats.total_output_tokens")  # fmt: skip
_LOAD = (("load_duration", 1e-6), ("stats.model_load_time_seconds", 1e3))
_PREFILL = (("timings.prompt_ms", 1.0), ("prompt_eval_duration", 1e-6))


class _Told:
    """Reported counters. Those of Anthropic's first event count until the last one corrects them.

    Ollama's first event is a guess from bytes and never counts. Anthropic's own last one is `cumulative`: a
    count in it that is below the first event's was put there by a gateway, and the first one's holds.
    """

    def __init__(self, reported: dict[str, float], *, trust_start: bool, cumulative: bool = False) -> None:
        self._reported = reported
        self._trust_start, self._cumulative = trust_start, cumulative

    def get(self, field: str) -> int | None:
        number = self._reported.get(field)
        if self._trust_start and (number is None or self._cumulative):
            start = self._reported.get(f"message_start.{field}")
            number = start if number is None else number if start is None else max(number, start)
        return int(number) if number is not None and number >= 0 and number == int(number) else None

    def exact(self, field: str) -> float | None:
        return self._reported.get(field)

    def first(self, *fields: str) -> int | None:
        return next((found for found in map(self.get, fields) if found is not None), None)


def _cached(told: _Told, dialect: Dialect) -> _Cached | None:
    """The first source that reports cached tokens: the engine's timings before what an API says."""
    fields = (
        ("timings", "timings.cache_n"),
        ("timings", "prompt_progress.cache"),
        ("usage", "usage.prompt_tokens_details.cached_tokens"),
        ("usage", "usage.prompt_cache_hit_tokens"),
        ("responses", "usage.input_tokens_details.cached_tokens"),
        ("anthropic", "usage.cache_read_input_tokens"),
        ("responses" if dialect.name == "openai_responses" else "usage", "usage.cached_tokens"),
        ("ollama", "prompt_eval_cached_count"),
    )
    for source, field in fields:
        tokens = told.get(field)
        if tokens is not None:
            return _Cached(source, field, tokens)
    return None


def _believed(cached: _Cached | None, dialect: Dialect, backend: Backend) -> _Cached | None:
    """Drop zeros that their senders are known to write whatever was reused."""
    if cached is None or cached.tokens > 0 or cached.source == "timings":
        return cached
    if backend.kind == "lmstudio":
        return None
    if backend.kind == "ollama" and cached.source != "ollama":
        constant = dialect.name == "openai_responses"
        recent = backend.numbers is not None and backend.numbers >= OLLAMA_REPORTS_CACHED
        return None if constant or not recent else cached
    return cached


def _written(told: _Told) -> tuple[int | None, int | None]:
    """Tokens written to a cache for five minutes (or for whatever time there is), and for an hour.

    Anthropic breaks its total down by lifetime; what the parts leave of it has the lifetime that a breakpoint
    has when it names none.
    """
    total = told.first(
        "usage.cache_creation_input_tokens",
        "usage.prompt_tokens_details.cache_write_tokens",
        "usage.input_tokens_details.cache_write_tokens",
    )
    short = told.get("usage.cache_creation.ephemeral_5m_input_tokens")
    hour = told.get("usage.cache_creation.ephemeral_1h_input_tokens")
    if total is None:
        return short, hour
    return max(total - (hour or 0), short or 0), hour


def _prompt_tokens(told: _Told, dialect: Dialect, written: int) -> int | None:
    """All tokens of the prompt, cached and written ones included, where they are reported."""
    new = told.get("timings.prompt_n")
    old = told.get("timings.cache_n")
    if new is not None and old is not None:
        return new + old
    if dialect.family == "anthropic":
        return _anthropic_total(told, written)
    return told.first(
        "usage.prompt_tokens",
        "usage.input_tokens",
        "prompt_eval_count",
        "tokens_evaluated",
        "prompt_progress.total",
        "stats.input_tokens",
    )


def _anthropic_total(told: _Told, written: int) -> int | None:
    """Here the input is only the uncached remainder; written and read tokens are counted apart."""
    fresh = told.get("usage.input_tokens")
    if fresh is None:
        return None
    return fresh + (told.get("usage.cache_read_input_tokens") or 0) + written


def _uncached_only(told: _Told, backend: Backend) -> bool:
    """Whether the prompt count is known to leave cached tokens out (Ollama's versions differ)."""
    numbers = backend.numbers
    if backend.kind != "ollama" or numbers is None or told.get("prompt_eval_count") is None:
        return False
    return numbers < OLLAMA_COUNTS_ALL or numbers[:3] == OLLAMA_REGRESSION


def _milliseconds(told: _Told, fields: tuple[tuple[str, float], ...]) -> float | None:
    """The first reported of several durations, by field and what it takes to make it milliseconds."""
    for field, factor in fields:
        number = told.exact(field)
        if number is not None:
            return number * factor
    return None
