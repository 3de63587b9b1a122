"""Any conversation through the choice of breakpoints and into the simulated service: nothing is ever refused.

Sessions take turns, grow, are rewritten; system prompts, tools, thinking and images come and go; time passes.
"""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.costs.cost import Tokens, cost_of
from services.proxy.placing.place import place
from services.proxy.splicing.fix import Breakpoints
from services.proxy.splicing.places import places_of
from tests.support.anthropic_cache import MOST, PromptCache, Usage, breakpoints, rendered
from tests.support.pipeline import Pipeline

LONG, SHORT = "Some words of a prompt. " * 300, "Hi. "
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
CALL = {"type": "tool_use", "id": "t", "name": "run", "input": {"k": LONG}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
TOOLS = [
    [],
    [{"name": "run", "description": LONG, "input_schema": {"type": "object"}}],
    [
        {"name": "run", "description": LONG, "input_schema": {"type": "object"}},
        {"name": "later", "defer_loading": True, "input_schema": {"type": "object"}},
    ],
]
SYSTEMS = [
    None, "", LONG, [{"type": "text", "text": LONG}, {"type": "text", "text": "Be brief."}],
    [{"type": "text", "text": LONG}, {"type": "text", "text": ""}],
]  # fmt: skip
TURNS = [
    [{"role": "user", "content": LONG}, {"role": "assistant", "content": "ok"}],
    [
        {"role": "user", "content": [{"type": "text", "text": LONG}, IMAGE]},
        {"role": "assistant", "content": [THOUGHT]},
    ],
    [
        {"role": "assistant", "content": [CALL] * 25},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": SHORT}] * 25},
    ],
    [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": [{"type": "text", "text": " "}, THOUGHT]},
    ],
    [{"role": "user", "content": SHORT}, {"role": "system", "content": "In between."}],
]  # fmt: skip

STEP = st.fixed_dictionaries(
    {
        "session": st.integers(0, 2),
        "turn": st.integers(0, len(TURNS) - 1),
        "system": st.integers(0, len(SYSTEMS) - 1) | st.none(),
        "tools": st.integers(0, len(TOOLS) - 1) | st.none(),
        "thinking": st.booleans() | st.none(),
        "drop": st.integers(0, 6) | st.none(),
        "clock": st.booleans() | st.none(),
        "own": st.sampled_from([False, False, False, True]),
        "gap": st.sampled_from([0.2, 5.0, 40.0, 290.0, 400.0]),
    }
)


class World:
    """One proxy, one service, and what it all cost."""

    def __init__(self) -> None:
        self.pipeline = Pipeline("anthropic")
        self.pipeline.backend.kind_given = True
        self.fixer = Breakpoints(self.pipeline.billing.prices, self.pipeline.estimator)
        self.cache = PromptCache()
        self.price = self.pipeline.billing.prices.find("anthropic", "claude-sonnet-5")
        self.start = self.pipeline.now_ms
        self.spent = self.plain = 0.0

    async def send(self, body: dict[str, Any], session: int, gap: float) -> Usage:
        headers = {"X-MetalAnchor-Session": f"s{session}"}
        flow = self.pipeline.arrive(body, path="/v1/messages", headers=headers, after_s=gap)
        await place(flow, self.pipeline)
        raw = json.dumps(body, separators=(",", ":")).encode()
        out = json.loads(self.fixer.fixed(flow, raw))
        self.cache.now = (self.pipeline.now_ms - self.start) / 1e3
        blocks = list(rendered(out))
        assert len(breakpoints(out, blocks)) <= MOST
        if places_of(raw) is None:
            assert out == body
        usage = self.cache.take(out)
        answer = {"type": "message", "content": [], "usage": usage.json(5)}
        await self.pipeline.finish(flow, answer=answer, took_s=0.1)
        self.fixer.learn(flow)
        assert flow.cost is not None
        expected = cost_of(Tokens(usage.fresh, usage.read, usage.written, usage.written_1h, 5), self.price)
        assert flow.cost == expected
        self.spent += flow.cost.cost_usd
        self.plain += flow.cost.cost_usd + flow.cost.savings_usd
        return usage


class Session:
    """What one client sends; a step changes some of it."""

    def __init__(self) -> None:
        self.history: list[dict[str, Any]] = []
        self.system: Any = LONG
        self.tools: list[Any] = TOOLS[1]
        self.thinking = self.clock = False

    def body(self, step: dict[str, Any], number: int) -> dict[str, Any]:
        self.system = self.system if step["system"] is None else SYSTEMS[step["system"]]
        self.tools = self.tools if step["tools"] is None else TOOLS[step["tools"]]
        self.thinking = self.thinking if step["thinking"] is None else step["thinking"]
        self.clock = self.clock if step["clock"] is None else step["clock"]
        if step["drop"] is not None:
            del self.history[: step["drop"]]
        self.history += TURNS[step["turn"]]
        last = {"role": "user", "content": f"Question {number}"}
        body: dict[str, Any] = {"model": "claude-sonnet-5", "max_tokens": 5, "tools": self.tools}
        body["messages"] = [*self.history, last]
        if self.system is not None:
            clock = f"It is {number}. " if self.clock else ""
            body["system"] = clock + self.system if isinstance(self.system, str) else self.system
        if self.thinking:
            body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
        if step["own"]:
            last["content"] = [{"type": "text", "text": "Q", "cache_control": {"type": "ephemeral"}}]  # type: ignore[assignment]
        return body


async def run(steps: list[dict[str, Any]]) -> World:
    world, sessions = World(), [Session() for _ in range(3)]
    for number, step in enumerate(steps):
        await world.send(sessions[step["session"]].body(step, number), step["session"], step["gap"])
    return world


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, min_size=1, max_size=12))
def test_no_conversation_is_refused_or_charged_otherwise_than_told(steps: list[dict[str, Any]]) -> None:
    """The service takes every request, a client's own stays the only one, and each cost is right."""
    world = asyncio.run(run(steps))
    assert world.spent <= world.plain * 1.26


CALM = {
    "system": None, "tools": None, "thinking": None, "drop": None, "clock": None, "own": False, "turn": 0,
    "session": 0, "gap": 5.0,
}  # fmt: skip


@pytest.mark.parametrize("gaps", [(5.0, 400.0), (5.0, 5.0, 400.0), (5.0, 400.0, 400.0), (290.0, 310.0)])
def test_pauses_after_every_other_turn_are_learnt(gaps: tuple[float, ...]) -> None:
    """A write that nobody reads is paid for once or twice, not at each pause; what can be read still is."""
    world = asyncio.run(run([{**CALM, "gap": gaps[number % len(gaps)]} for number in range(40)]))
    print(f"gaps {gaps}: {world.spent / world.plain:.0%} of the cost without caching")
    assert world.spent <= world.plain * (1.01 if len(gaps) == 2 or gaps[1] > 300 else 0.85)


@pytest.mark.parametrize(
    ("name", "change", "share"),
    [
        ("one agent", {}, 0.4),
        ("a tool loop", {"turn": 2}, 0.4),
        ("text and images", {"turn": 1}, 1.1),
        ("pauses of four minutes", {"gap": 290.0}, 0.4),
        ("pauses of seven minutes", {"gap": 400.0}, 1.0),
        ("a clock in the system prompt", {"clock": True}, 1.0),
    ],
)
def test_what_twenty_turns_cost_against_no_caching(name: str, change: dict[str, Any], share: float) -> None:
    """Of what they cost without; where nothing can be saved, nothing is lost to writes either."""
    world = asyncio.run(run([{**CALM, **change} for _ in range(20)]))
    print(f"{name}: {world.spent / world.plain:.0%} of the cost without caching")
    assert world.spent <= world.plain * share
