"""The analysis of a request without its wire: read, identify, place, foresee, settle, and no sockets.

`Pipeline` plays the proxy for one backend over a `LocalState`; `Engine` plays a prefix cache of given slots,
so that measured figures are those a real one would report. Time is a number the test sets.
"""

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

from services.costs.prices import load_prices
from services.proxy.backends.backend import Backend
from services.proxy.chunking.analysis import Analyser
from services.proxy.dialects import for_route
from services.proxy.flow import Flow
from services.proxy.identity import identify
from services.proxy.later import Later
from services.proxy.placing.place import marks_of, place, query_of
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Estimator
from services.proxy.prompt import Prompt, Section
from services.proxy.settling.billing import Billing
from services.proxy.settling.endings import Endings
from services.proxy.settling.explain import Explanations
from services.proxy.settling.settle import finish, foresee, judge, settled_of, teach
from services.proxy.settling.speed import Speeds
from services.proxy.state.local import LocalState
from services.settings import Settings

Answer = dict[str, Any] | Callable[[int | None, int | None], dict[str, Any]]
CHAT = "/v1/chat/completions"
BYTES_A_TOKEN = 4


class Engine:
    """A prefix cache: `slots` rendered prompts, the best match continued, else the oldest overwritten."""

    def __init__(self, slots: int = 1, likeness: float = 0.5) -> None:
        self.slots: list[bytes] = []
        self.limit, self.likeness = slots, likeness

    def run(self, text: bytes) -> tuple[int, int]:
        """(prompt tokens, cached tokens) of a prompt, which is then what a slot holds."""
        best = max(self.slots, key=lambda held: _shared(held, text), default=b"")
        cached = _shared(best, text)
        if best and cached >= self.likeness * len(text):
            self.slots.remove(best)
        elif len(self.slots) >= self.limit:
            cached = _shared(self.slots.pop(0), text)
        else:
            cached = 0
        self.slots.append(text)
        total = max(1, len(text) // BYTES_A_TOKEN)
        return total, min(total - 1, cached // BYTES_A_TOKEN)

    def keep(self, reply: bytes) -> None:
        """The tokens generated for the last prompt stay in its slot."""
        self.slots[-1] += reply


class Pipeline:
    """One proxy, one backend, no sockets."""

    def __init__(
        self,
        kind: str | None = "llama-server",
        *,
        version: str | None = None,
        facts: dict[str, Any] | None = None,
        keep_text: bool = True,
        engine: Engine | None = None,
    ) -> None:
        self.backend = Backend(name="backend:1", url="http://backend:1", kind=kind, version=version)
        self.backend.facts = facts or {}
        self.settings = Settings(keep_text=keep_text)
        self.key = b"k" * 32
        self.state = LocalState(64 << 20)
        self.texts = Texts(64 << 20, 3600, keep_text)
        self.estimator = Estimator()
        self.later = Later()
        self.speeds = Speeds()
        self.analyser = Analyser(1 << 20)
        self.explanations = Explanations(3600, enabled=keep_text)
        self.endings = Endings()
        self.billing = Billing(load_prices())
        self.engine = engine
        self.now_ms = 1_790_000_000_000
        self._ids = itertools.count(1)

    async def send(
        self,
        body: dict[str, Any] | bytes,
        *,
        path: str = CHAT,
        headers: dict[str, str] | None = None,
        answer: Answer | None = None,
        tokens: tuple[int | None, int | None] | None = None,
        reply: dict[str, Any] | None = None,
        status: str = "completed",
        after_s: float = 1.0,
        took_s: float = 0.5,
        ttft_s: float | None = None,
    ) -> Flow:
        """Send a request `after_s` after the last one ended; its answer reports `tokens` (prompt, cached)."""
        flow = self.arrive(body, path=path, headers=headers, after_s=after_s)
        await place(flow, self)
        foresee(flow, self)
        await self.finish(
            flow, answer=answer, tokens=tokens, reply=reply, status=status, took_s=took_s, ttft_s=ttft_s
        )
        return flow

    def arrive(
        self,
        body: dict[str, Any] | bytes,
        *,
        path: str = CHAT,
        headers: dict[str, str] | None = None,
        after_s: float = 1.0,
    ) -> Flow:
        """A flow that was read and identified."""
        raw = (
            body
            if isinstance(body, bytes)
            else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        )
        dialect = for_route("POST", path)
        assert dialect is not None, path
        self.now_ms += round(after_s * 1e3)
        sent = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        number = next(self._ids)
        flow = Flow(
            id=f"01900000-0000-7000-8000-{number:012d}",
            received_at=self.now_ms,
            backend=self.backend,
            method="POST",
            path=path,
            headers=sent,
            dialect=dialect,
        )
        flow.body_at = flow.sent_at = flow.started
        flow.prompt = self.analyser.read(dialect, raw, self.backend.name)
        flow.identity = identify(flow.headers, flow.prompt, self.key, None)
        return flow

    async def finish(
        self,
        flow: Flow,
        *,
        answer: Answer | None = None,
        tokens: tuple[int | None, int | None] | None = None,
        reply: dict[str, Any] | None = None,
        status: str = "completed",
        took_s: float = 0.5,
        ttft_s: float | None = None,
    ) -> None:
        """The answer to a flow came and ended."""
        assert flow.prompt is not None
        assert flow.dialect is not None
        if tokens is None and self.engine is not None:
            tokens = self.engine.run(rendered(flow))
        known = tokens or (None, None)
        made = answer(*known) if callable(answer) else answer
        made = make_answer(flow.prompt, known, reply) if made is None else made
        tap = flow.dialect.tap(flow.prompt, "application/json", "")
        tap.feed(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode(), time.perf_counter())
        flow.outcome = tap.close(time.perf_counter())
        if self.engine is not None and self.engine.slots and flow.outcome.reply is not None:
            self.engine.keep(turn("assistant", flow.outcome.reply.sections))
        if ttft_s is not None:
            flow.outcome.first_token_at = flow.started + ttft_s
        flow.status, flow.http_status = status, 200
        flow.ended_at = flow.started + took_s
        self.now_ms += round(took_s * 1e3)
        query = query_of(flow, self.settings, self.estimator)
        for step in (judge, teach, finish):
            step(flow, self)
        self.state.settle(query, settled_of(flow, self.key), marks_of(flow, self))


def rendered(flow: Flow) -> bytes:
    """What a plain template makes of a prompt: all sections in order, template parameters left out."""
    assert flow.prompt is not None
    assert flow.dialect is not None
    parts = []
    for chunk in flow.prompt.chunks:
        if chunk.kind != "params":
            sections = flow.dialect.sections(chunk.kind, chunk.raw)
            parts.append(turn(chunk.role, sections))
    return b"".join(parts)


def turn(role: str, sections: list[Section]) -> bytes:
    """One turn as the plain template prints it."""
    return b"\x1e%s\x1f%s" % (role.encode(), b"\x1f".join(section.text for section in sections))


def make_answer(
    prompt: Prompt, tokens: tuple[int | None, int | None], reply: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A non-streamed answer in the shape of the request's API, reporting (prompt, cached) tokens."""
    total, cached = tokens
    message = {"role": "assistant", **(reply or {"content": "ok"})}
    if prompt.dialect.startswith("ollama"):
        counts = {"prompt_eval_count": total, "prompt_eval_cached_count": cached, "eval_count": 3}
        told = {name: value for name, value in counts.items() if value is not None}
        if "generate" in prompt.dialect:
            return {"model": prompt.model, "response": message["content"], "done": True, **told}
        return {"model": prompt.model, "message": message, "done": True, "done_reason": "stop", **told}
    if prompt.dialect.startswith("anthropic"):
        usage = {
            "input_tokens": (total or 0) - (cached or 0),
            "cache_read_input_tokens": cached,
            "output_tokens": 3,
        }
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        told = {} if total is None else {"usage": usage}
        return {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "end_turn", **told}
    if "responses" in prompt.dialect:
        usage = {"input_tokens": total, "output_tokens": 3, "input_tokens_details": {"cached_tokens": cached}}
        item = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": message["content"]}],
        }
        return {
            "object": "response",
            "status": "completed",
            "output": [item],
            "usage": usage if total else None,
        }
    usage = {"prompt_tokens": total, "completion_tokens": 3}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"choices": [choice], "usage": usage if total is not None else None}


def _shared(left: bytes, right: bytes) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low


def codes(flow: Flow) -> list[str]:
    """The codes of a flow's causes, in order."""
    return [cause.code for cause in flow.causes]
