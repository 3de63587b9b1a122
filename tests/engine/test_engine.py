"""The real llama.cpp through the proxy: what it reuses is what the proxy says, and what was predicted."""

import pytest

from tests.engine.chat import Stack, Turn, system_prompt

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(240)]

POINTS = 0.05  # predicted against measured, where the engine could reuse all of it


def say(text: str) -> dict[str, str]:
    """A user's message."""
    return {"role": "user", "content": text}


def agrees(turn: Turn) -> None:
    """Row and engine tell the same figures, with their source; the header too where it could be there."""
    row = turn.row
    assert (row["cached_tokens"], row["prompt_tokens"]) == (turn.cached, turn.prompt)
    assert row["cached_source"] in {"timings", "anthropic", "usage"}
    assert row["status"] == "completed"
    assert turn.ours.get("cached-tokens", str(turn.cached)) == str(turn.cached)
    assert float(turn.ours["reuse"]) == pytest.approx(row["predicted_reuse"], abs=1e-4)
    assert turn.ours["hit"] == row["hit"]


def test_cold_then_next_turn_then_the_same_again(stack: Stack):
    """A first prompt reuses nothing, its continuation nearly all of it, a repeat all but a token."""
    messages = [{"role": "system", "content": system_prompt("Aldebaran")}, say("Name part 7.")]
    cold = stack.openai(messages)
    agrees(cold)
    assert cold.ours["hit"] == "none"
    assert cold.measured_reuse < POINTS

    messages += [{"role": "assistant", "content": cold.text}, say("And part 14?")]
    warm = stack.openai(messages)
    agrees(warm)
    assert (warm.ours["hit"], warm.row["relation"]) == ("prefix", "append")
    assert warm.row["parent_id"] == cold.ours["request-id"]
    assert warm.row["predicted_reuse"] == pytest.approx(warm.measured_reuse, abs=POINTS)

    again = stack.openai(messages)
    agrees(again)
    assert (again.ours["hit"], again.row["relation"]) == ("exact", "exact_repeat")
    assert again.cached >= again.prompt - 1 - POINTS * again.prompt
    assert again.row["predicted_reuse"] == pytest.approx(again.measured_reuse, abs=POINTS)


def test_a_changed_head_costs_everything_and_is_named(stack: Stack):
    """A clock before the instructions: the engine starts again; header, row and explain name the cause."""
    rules = system_prompt("Betelgeuse")
    first = stack.openai([{"role": "system", "content": f"It is 10:15:07 UTC.\n{rules}"}, say("Go.")])
    changed = stack.openai([{"role": "system", "content": f"It is 10:16:09 UTC.\n{rules}"}, say("Go.")])

    agrees(changed)
    assert changed.measured_reuse < POINTS
    assert changed.row["predicted_reuse"] == pytest.approx(changed.measured_reuse, abs=POINTS)
    assert changed.ours["cause"] == changed.row["cause"] == "timestamp"
    assert (changed.row["diverged_at"], changed.row["byte_offset"]) == ("system", len("It is 10:1"))
    assert changed.row["lost_tokens"] > 0.8 * changed.prompt

    told = stack.proxy.json(f"/api/requests/{changed.ours['request-id']}/explain")
    assert told["parent_id"] == first.ours["request-id"]
    assert told["observed"]["cached_tokens"] == changed.cached
    assert "10:15:07" in told["before"]
    assert "10:16:09" in told["after"]


def test_another_session_with_the_same_head(stack: Stack):
    """A new conversation on a known system prompt is `system+tools`, and never predicted above that part."""
    system = {"role": "system", "content": system_prompt("Capella")}
    stack.openai([system, say("What is part 21?")], headers=[("X-Session-Id", "one")])
    other = stack.openai([system, say("Explain rule 3, please.")], headers=[("X-Session-Id", "two")])

    agrees(other)
    assert other.ours["hit"] == "system+tools"
    assert other.ours["session"] == "two"
    assert 0.8 < other.row["predicted_reuse"] < 1
    # A sliding-window model may go back to a checkpoint: the engine can fall short, never go beyond.
    assert other.measured_reuse <= other.row["predicted_reuse"] + POINTS
    if other.measured_reuse < other.row["predicted_reuse"] - POINTS:
        assert other.row["cause"] is not None


def test_five_streamed_turns_as_openai(stack: Stack):
    """Each turn of a streamed chat continues the one before, and the engine agrees within five points."""
    messages = [{"role": "system", "content": system_prompt("Deneb")}]
    for number in range(5):
        messages.append(say(f"What about part {number * 7}?"))
        turn = stack.openai(messages, stream=True)
        agrees(turn)
        _continues(turn, number)
        messages.append({"role": "assistant", "content": turn.text})


def test_five_streamed_turns_as_anthropic(stack: Stack):
    """The same conversation in Anthropic's shape, with the counters that this API has."""
    system, messages = system_prompt("Electra"), []
    for number in range(5):
        messages.append(say(f"What about part {number * 7}?"))
        turn = stack.anthropic(system, messages)
        agrees(turn)
        assert turn.row["cached_source"] in {"timings", "anthropic"}
        _continues(turn, number)
        messages.append({"role": "assistant", "content": turn.text})


def _continues(turn: Turn, number: int) -> None:
    assert turn.row["stream"] is True
    assert turn.row["ttft_ms"] > 0
    assert turn.row["streamed_deltas"] > 0
    if number == 0:
        assert turn.ours["hit"] == "none"
        return
    assert (turn.ours["hit"], turn.row["relation"]) == ("prefix", "append")
    assert turn.row["predicted_reuse"] == pytest.approx(turn.measured_reuse, abs=POINTS)


def test_a_client_that_leaves_frees_the_engine(stack: Stack):
    """A cancelled cold prefill stops in the engine: its slot is idle soon after."""
    with stack.proxy.client() as client:
        body = b'{"model":"m","max_tokens":400,"stream":true,"messages":[{"role":"user","content":"%s"}]}'
        content = system_prompt("Fomalhaut", 40).replace("\n", " ").encode()
        client.send("POST", "/v1/chat/completions", body % content, [("Content-Type", "application/json")])
        stack.wait_busy()
    stack.wait_idle()
    (row,) = stack.proxy.wait_rows(1, lambda row: row["status"] == "client_cancelled")
    assert row["endpoint"] == "/v1/chat/completions"
