"""What the recognisers see of a request: its prompt, the verdict on its text, the timeline, the answer.

Pure; owns no state. Whatever is not known is None, and a recogniser without its evidence says nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from services.proxy.backends.backend import Backend
from services.proxy.flow import Breaker, Measured, Verdict
from services.proxy.prompt import Prompt, Section, plain_model
from services.proxy.state.base import Call, Past, Settled, Sighting

NEVER_RAN = frozenset({"rejected", "upstream_unreachable", "upstream_error", "response_cache"})
SLOTLESS = frozenset({"vllm", "openai", "anthropic"})  # caches shared by all requests: no single slot to lose
OPENAI = "api.openai.com"
MLX_ENTRIES = 10  # mlx_lm keeps the caches of its 10 latest prompts (``--prompt-cache-size``)


class Run(NamedTuple):
    """One call of the timeline that reached the engine."""

    call: Call
    settled: Settled | None

    @property
    def ended(self) -> int:
        """When it let go of the engine, epoch milliseconds; its arrival while it still runs."""
        return self.settled.ended if self.settled else self.call.at


@dataclass(eq=False)  # one is made three times a request: frozen, its fields would cost 10 µs
class Scene:
    """One request among the others. What is derived from the timeline is derived once. Nobody changes it.

    Texts come on demand: `older(path)` are earlier texts of a section from before the parent, newest first;
    `sections(i)` those of the parent's chunk i; `own_sections(kind)` those of this request's chunk of a kind;
    `answer()` those of the parent's answer. All are empty where the text is gone.
    """

    request: str
    at: int
    backend: Backend
    prompt: Prompt
    verdict: Verdict
    sighting: Sighting
    measured: Measured | None
    scope: str | None
    session: str | None
    agent: str | None
    older: Callable[[str], list[bytes]]
    sections: Callable[[int], list[Section]]
    own_sections: Callable[[str], list[Section]]
    answer: Callable[[], list[Section] | None]

    @property
    def parent(self) -> Past | None:
        """The request it is compared with."""
        return self.verdict.parent

    @property
    def kind(self) -> str | None:
        """The engine's kind."""
        return engine_kind(self.backend)

    @cached_property
    def runs(self) -> list[Run]:
        """All calls on this backend that reached an engine, oldest first."""
        found = (Run(call, settled) for call, settled in self.sighting.calls)
        return [run for run in found if run.settled is None or run.settled.status not in NEVER_RAN]

    @cached_property
    def model_runs(self) -> list[Run]:
        """Those of them on this model."""
        model = self.prompt.model
        return [
            Run(call, settled)
            for call, settled in self.sighting.calls
            if (call.model == model or same_model(call.model, model))
            and (settled is None or settled.status not in NEVER_RAN)
        ]

    @cached_property
    def since_parent(self) -> list[Run]:
        """Calls on this model that used the engine after the parent did, oldest first."""
        parent = self.parent
        if parent is None:
            return []
        ended = parent.settled.ended if parent.settled else parent.node.at
        runs = (run for run in self.model_runs if run.call.id != parent.node.id)
        return [run for run in runs if run.call.at > parent.node.at or run.ended > ended]

    @property
    def cached(self) -> int | None:
        """Measured cached tokens, however measured."""
        return self.measured.cached_tokens if self.measured else None

    @property
    def slots(self) -> int | None:
        """Conversations that the engine keeps at a time; None where it has no such number."""
        return slots_of(self.backend)

    def only_shortens(self, breaker: Breaker) -> bool:
        """Whether messages only went from the end: the request is a prefix of its parent."""
        if breaker.section != "messages" or breaker.change != "removed" or breaker.inserted:
            return False
        last = self.prompt.chunks[-1] if self.prompt.chunks else None
        following = f"{self.prompt.list_name}[{last.index + 1}]" if last and last.kind == "message" else ""
        return breaker.path == following

    @property
    def num_ctx(self) -> int | None:
        """The context size that this request runs under, as far as it is known."""
        asked = self.prompt.engine.options.get("num_ctx")
        if isinstance(asked, int) and asked > 0:
            return asked
        facts = self.backend.facts
        sizes = facts.get("context_lengths") or {}
        known = sizes.get(self.prompt.model) if isinstance(sizes, dict) else None
        known = known or facts.get("n_ctx")
        return known if isinstance(known, int) and known > 0 else None


def slots_of(backend: Backend) -> int | None:
    """Conversations that an engine keeps at a time; None where it has no such number."""
    for name in ("total_slots", "num_parallel", "OLLAMA_NUM_PARALLEL"):
        if isinstance(found := backend.facts.get(name), int) and found > 0:
            return found
    kind = engine_kind(backend)
    if kind in SLOTLESS:
        return None
    return MLX_ENTRIES if kind == "mlx_lm" else 1


def engine_kind(backend: Backend) -> str | None:
    """The engine's kind. A local server that is only known to speak OpenAI's API has none."""
    return None if backend.kind == "openai" and not backend.authority.endswith(OPENAI) else backend.kind


def same_model(left: str, right: str) -> bool:
    """Whether two names mean one model; Ollama's ``:latest`` is no difference."""
    return plain_model(left) == plain_model(right)
