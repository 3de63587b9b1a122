"""A pretended engine for the scripted personalities: how many tokens a prompt has, and how many are cached.

A token is four characters of the rendered prompt. With slots, the prompt with the longest common prefix is
reused as llama.cpp does it, at least one token is always evaluated, and prefill takes its time.
"""

import json
from dataclasses import dataclass, field
from typing import Any

TOKEN = 4


@dataclass
class Engine:
    """`slots` 0 caches nothing. Delays are in seconds: `first` always, `per_token` for each evaluated one."""

    answer: str = "The scripted model answers in a few words."
    slots: int = 0
    first: float = 0.0
    gap: float = 0.0
    per_token: float = 0.0
    decode_s: float = 0.01
    _kept: list[str] = field(default_factory=list)

    def words(self) -> list[str]:
        """The answer's deltas."""
        return [word if i == 0 else f" {word}" for i, word in enumerate(self.answer.split(" "))]

    def evaluate(self, request: dict[str, Any]) -> "Counts":
        """Count the request's prompt tokens, cached and evaluated."""
        text = render(request)
        total = max(1, len(text) // TOKEN)
        best = max(self._kept, key=lambda kept: _common(kept, text), default="")
        cached = min(_common(best, text) // TOKEN, total - 1)
        if self.slots:
            if cached and len(self._kept) >= self.slots:
                self._kept.remove(best)
            self._kept = [*self._kept, text][-self.slots :]
        evaluated = total - cached
        return Counts(total, cached, evaluated, len(self.words()), self.first + self.per_token * evaluated)

    def forget(self) -> None:
        """Drop what is cached, as an unload does."""
        self._kept.clear()


@dataclass(frozen=True)
class Counts:
    """Tokens of one request, and the seconds until its first token."""

    prompt: int
    cached: int
    evaluated: int
    output: int
    wait: float


def render(request: dict[str, Any]) -> str:
    """The prompt in the order templates render it: tools, system, then messages."""
    parts = [json.dumps(request.get("tools") or [])]
    parts += [_text(request.get(name)) for name in ("system", "instructions", "prompt")]
    turns = request.get("messages") or request.get("input") or []
    parts += [turns] if isinstance(turns, str) else [json.dumps(turn, ensure_ascii=False) for turn in turns]
    return "\n".join(parts)


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value or "", ensure_ascii=False)
