"""Which sections get a breakpoint: those that were seen before, lately, with the same in front of them."""

import json
from typing import Any

from services.proxy.flow import Flow
from services.proxy.placing.place import place
from services.proxy.splicing.fix import Breakpoints
from tests.support.pipeline import Pipeline

RULES = "Follow the rules. " * 600
TOOL = {"name": "run", "description": "Runs a command. " * 400, "input_schema": {"type": "object"}}
USER = [{"role": "user", "content": f"Question {k}. " * 200} for k in range(20)]
SAID = {"role": "assistant", "content": "An answer."}


def request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A turn with tools and system prompt."""
    return {
        "model": "claude-sonnet-5", "max_tokens": 10, "tools": [TOOL], "system": RULES,
        "messages": list(messages), **more,
    }  # fmt: skip


class Client:
    """Sends turns through one proxy's steps, without sockets."""

    def __init__(self) -> None:
        self.pipeline = Pipeline("anthropic")
        self.breakpoints = Breakpoints(self.pipeline.billing.prices, self.pipeline.estimator)

    async def send(self, body: dict[str, Any], after_s: float = 1.0) -> tuple[list[str], bytes]:
        """The points that a request was given, and the body that went out."""
        flow, raw, out = await self.fixed(body, after_s)
        await self.pipeline.finish(flow)
        assert (out == raw) is (not flow.fixes)
        return [name.removeprefix("breakpoint:") for name in flow.fixes], out

    async def fixed(self, body: dict[str, Any], after_s: float = 1.0) -> tuple[Flow, bytes, bytes]:
        flow = self.pipeline.arrive(body, path="/v1/messages", after_s=after_s)
        await place(flow, self.pipeline)
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        return flow, raw, self.breakpoints.fixed(flow, raw)


async def test_the_first_request_gets_none() -> None:
    """Nothing was measured yet."""
    assert (await Client().send(request(USER[0])))[0] == []


async def test_the_second_turn_is_marked_at_all_four() -> None:
    """Tools, system, where the first turn ended, and where this one does."""
    client = Client()
    await client.send(request(USER[0]))
    points, out = await client.send(request(USER[0], SAID, USER[1]))
    assert points == ["tools", "system", "messages.0", "messages.2"]
    assert out.count(b"cache_control") == 4


async def test_another_session_shares_tools_and_system() -> None:
    client = Client()
    await client.send(request(USER[0]))
    assert (await client.send(request(USER[5])))[0] == ["tools", "system"]


async def test_a_system_prompt_that_changes_each_turn_gets_none() -> None:
    """And neither do the messages behind it: they would be written each turn and never read."""
    client = Client()
    for turn in range(4):
        history = [message for k in range(turn) for message in (USER[k], SAID)]
        points, _ = await client.send(request(*history, USER[turn], system=f"It is 10:4{turn}. {RULES}"))
        assert points == (["tools"] if turn else [])


async def test_tools_that_change_each_turn_leave_nothing_to_mark() -> None:
    client = Client()
    for turn in range(4):
        history = [message for k in range(turn) for message in (USER[k], SAID)]
        tools = [{**TOOL, "description": f"{turn} {TOOL['description']}"}]
        assert (await client.send(request(*history, USER[turn], tools=tools)))[0] == []


async def test_a_passing_context_in_the_last_message_is_left_out() -> None:
    """The client takes it out again next turn: what stays ends one message earlier."""
    client = Client()

    def turn(number: int) -> dict[str, Any]:
        history = [message for k in range(number) for message in (USER[k], SAID)]
        last = {"role": "user", "content": USER[number]["content"] + f"<open_tabs>{number}</open_tabs>"}
        return request(*history, last)

    await client.send(turn(1))
    points, _ = await client.send(turn(2))
    assert points == ["tools", "system", "messages.1", "messages.3"]


async def test_a_rewritten_history_gets_no_message_marked() -> None:
    client = Client()
    history = [message for k in range(5) for message in (USER[k], SAID)]
    await client.send(request(*history, USER[5]))
    compacted = [{"role": "user", "content": "Summary. " * 100}, SAID, *history[6:], USER[5], SAID, USER[6]]
    assert (await client.send(request(*compacted)))[0] == ["tools", "system"]


async def test_changed_thinking_is_another_cache_for_the_messages() -> None:
    client = Client()
    await client.send(request(USER[0]))
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert (await client.send(request(USER[0], SAID, USER[1], **thinking)))[0] == ["tools", "system"]
    points, _ = await client.send(request(USER[0], SAID, USER[1], SAID, USER[2], **thinking))
    assert points == ["tools", "system", "messages.2", "messages.4"]


async def test_turns_further_apart_than_an_entry_lives_get_none() -> None:
    """Each would pay for writing, and none would read."""
    client = Client()
    for turn in range(4):
        history = [message for k in range(turn) for message in (USER[k], SAID)]
        assert (await client.send(request(*history, USER[turn]), after_s=301))[0] == []


async def test_what_is_too_short_to_be_cached_is_not_marked() -> None:
    """Sonnet 5 caches from 1,024 tokens on."""
    client = Client()
    short = {"tools": [{"name": "run"}], "system": "Be brief."}
    await client.send(request(USER[0], **short))
    points, _ = await client.send(request(USER[0], SAID, USER[1], **short))
    assert points == ["messages.2"]


async def test_another_model_shares_nothing() -> None:
    client = Client()
    await client.send(request(USER[0]))
    assert (await client.send(request(USER[0], SAID, USER[1], model="claude-opus-5-5")))[0] == []


async def test_a_clients_own_breakpoint_stays_the_only_one() -> None:
    client = Client()
    own = [{"type": "text", "text": RULES, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    await client.send(request(USER[0], system=own))
    points, out = await client.send(request(USER[0], SAID, USER[1], system=own))
    assert points == []
    assert out.count(b"cache_control") == 1


async def test_a_model_whose_service_refused_gets_no_more() -> None:
    client = Client()
    await client.send(request(USER[0]))
    flow, _, _ = await client.fixed(request(USER[0], SAID, USER[1]))
    client.breakpoints.refuse(flow)
    await client.pipeline.finish(flow)
    assert (await client.send(request(USER[0], SAID, USER[1], SAID, USER[2])))[0] == []


async def test_turns_that_read_something_keep_their_breakpoints() -> None:
    """Only what is never read ends them, and only within the lifetime of an entry."""
    client = Client()
    for turn in range(8):
        history = [message for k in range(turn) for message in (USER[k], SAID)]
        flow, _, _ = await client.fixed(request(*history, USER[turn]))
        read = 4_000 if turn % 3 == 2 else 0
        await client.pipeline.finish(flow, answer=answer(read))
        client.breakpoints.learn(flow)
        assert bool(flow.fixes) is (turn > 0)
    assert client.breakpoints.status() == {"stopped": []}


async def test_requests_at_the_same_time_are_no_evidence_against_a_model() -> None:
    """None of them could read what the others were still writing."""
    client = Client()
    await client.send(request(USER[0]))
    for _ in range(3):
        together = [await client.fixed(request(USER[0], SAID, USER[1]), after_s=0.0) for _ in range(4)]
        for flow, _, _ in together:
            assert flow.fixes
            await client.pipeline.finish(flow, answer=answer(0), took_s=0.0)
            flow.ended_at = flow.started + 3.0
            client.breakpoints.learn(flow)
    assert client.breakpoints.status() == {"stopped": []}


def answer(read: int) -> dict[str, Any]:
    """An answer that read so many tokens."""
    counts = {"input_tokens": 9, "output_tokens": 1, "cache_creation_input_tokens": 5_000 - read}
    return {"type": "message", "content": [], "usage": {**counts, "cache_read_input_tokens": read}}


async def test_a_repeated_request_is_marked_once_at_its_end() -> None:
    client = Client()
    await client.send(request(USER[0], SAID, USER[1]))
    assert (await client.send(request(USER[0], SAID, USER[1])))[0] == ["tools", "system", "messages.2"]


async def test_only_requests_to_anthropic_are_fixed() -> None:
    for kind, path, applies in (
        ("anthropic", "/v1/messages", True),
        ("anthropic", "/v1/chat/completions", False),
        ("ollama", "/v1/messages", False),
        (None, "/v1/messages", False),
    ):
        flow = Pipeline(kind).arrive({"model": "m", "messages": []}, path=path)
        assert Breakpoints.applies(flow) is applies
