"""Settling takes the engine's figures, learns from them, and puts a price on what was lost."""

from typing import Any

import pytest

from services.proxy.settling.row import record_of
from services.proxy.settling.settle import settled_of
from tests.support.pipeline import Engine, Pipeline, codes

RULES = "RULES " * 400
U1, A1, U2 = (
    {"role": role, "content": text}
    for role, text in (("user", "hello there"), ("assistant", "ok"), ("user", "go on"))
)


def chat(*messages: dict[str, Any], system: str = RULES, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "system", "content": system}, *messages], **more}


async def test_a_warm_append_has_no_cause_and_no_price() -> None:
    pipeline = Pipeline(engine=Engine())
    await pipeline.send(chat(U1))
    flow = await pipeline.send(chat(U1, A1, U2))
    assert (codes(flow), flow.lost_tokens, flow.lost_ms) == ([], None, None)


@pytest.mark.parametrize(
    ("kind", "altered", "keeps", "counted"),
    [("ollama", False, True, True), ("ollama", True, True, False), ("ollama", False, False, False),
     ("anthropic", False, True, False)],
)  # fmt: skip
async def test_an_answer_is_expected_where_the_model_was_seen_to_keep_answers(
    kind: str, altered: bool, keeps: bool, counted: bool
) -> None:
    """And the client repeats it as it was relayed; nothing of it is expected before, nor of a cloud."""
    pipeline, said = Pipeline(kind, version="0.33.3"), "A long answer. " * 100
    size, reply = 620, 375
    messages, total = [U1], size

    async def turn(cached: int) -> Any:
        message = {"role": "assistant", "content": said}
        usage = {"prompt_tokens": total, "completion_tokens": reply}
        told = {**usage, "prompt_tokens_details": {"cached_tokens": cached}}
        answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": told}
        return await pipeline.send(chat(*messages), answer=answer)

    await turn(0)
    for number in range(5):
        before, last = total, number == 4
        text = said.upper() if last and altered else said
        messages, total = [*messages, {"role": "assistant", "content": text}, U2], total + reply + 10
        flow = await turn(before + reply if keeps else before)
        if number == 0:
            assert flow.verdict.predicted_reuse == pytest.approx(size / total, abs=0.05)
    found = before + (reply if counted else 0)
    assert flow.verdict.predicted_reuse == pytest.approx(found / total, abs=0.05)


async def test_a_break_costs_what_stood_behind_it() -> None:
    pipeline = Pipeline(engine=Engine())
    await pipeline.send(chat(U1, system="Time 10:41\n" + RULES))
    flow = await pipeline.send(chat(U1, A1, U2, system="Time 10:42\n" + RULES))
    assert flow.lost_tokens == pytest.approx(len(RULES) / 4, rel=0.1)


async def test_a_change_that_the_template_leaves_out_costs_nothing() -> None:
    """The engine found all but the new turn, so nothing was prefilled for the changed tools."""
    pipeline = Pipeline()
    tools = [{"type": "function", "function": {"name": n, "parameters": {}}} for n in ("read", "write")]
    await pipeline.send(chat(U1, system=RULES, tools=tools[:1]), tokens=(1_000, 0))
    flow = await pipeline.send(chat(U1, A1, U2, system=RULES, tools=tools), tokens=(1_030, 1_000))
    assert record_of(flow).cause == "tools_added"
    assert flow.lost_tokens == 0


async def test_of_several_breaks_the_first_carries_what_stood_behind_it_once() -> None:
    """The tools behind which nothing was found again cost all of it; the clock behind them nothing more."""
    pipeline = Pipeline(engine=Engine())
    tools = [{"type": "function", "function": {"name": n, "parameters": {}}} for n in ("read", "write")]
    await pipeline.send(chat(U1, system="Time 10:41\n" + RULES, tools=tools))
    both = await pipeline.send(chat(U1, A1, U2, system="Time 10:42\n" + RULES, tools=tools[::-1]))
    assert [cause.code for cause in both.causes if cause.severity == "break"] == ["tool_reorder", "timestamp"]
    assert record_of(both).cause == "tool_reorder"
    assert both.measured is not None
    assert both.measured.prompt_tokens is not None
    assert both.lost_tokens is not None
    assert 0.8 * len(RULES) / 4 < both.lost_tokens <= both.measured.prompt_tokens


async def test_a_loss_costs_what_was_found_below_the_parents_own_count() -> None:
    pipeline = Pipeline()
    await pipeline.send(chat(U1), tokens=(10_000, 0), ttft_s=10.0)
    await pipeline.send({"model": "m", "messages": [U1], "max_tokens": 20}, tokens=(20, 0))
    flow = await pipeline.send(chat(U1, A1, U2), tokens=(10_100, 0), ttft_s=10.1)
    assert codes(flow) == ["evicted_by"]
    assert flow.lost_tokens == 10_000
    assert flow.lost_ms == pytest.approx(10_000, rel=0.02)


async def test_no_price_in_time_before_the_rate_is_known() -> None:
    pipeline = Pipeline()
    await pipeline.send(chat(U1), tokens=(500, 0))
    await pipeline.send({"model": "m", "messages": [U1], "max_tokens": 20}, tokens=(20, 0))
    flow = await pipeline.send(chat(U1, A1, U2), tokens=(540, 0))
    assert flow.lost_tokens == 500
    assert flow.lost_ms is None


async def test_unreported_reuse_stays_unknown_without_cold_samples() -> None:
    pipeline = Pipeline("lmstudio")
    flow = await pipeline.send(chat(U1), tokens=(600, None), ttft_s=0.5)
    assert flow.measured is not None
    assert (flow.measured.cached_tokens, flow.measured.source) == (None, None)


async def test_unreported_reuse_is_inferred_from_time_once_cold_prefill_is_known() -> None:
    pipeline = Pipeline("lmstudio")
    await pipeline.send(chat(U1), tokens=(17_433, None), ttft_s=57.7)
    flow = await pipeline.send(chat(U1, A1, U2), tokens=(17_460, None), ttft_s=2.0)
    measured = flow.measured
    assert measured is not None
    assert (measured.source, measured.field) == ("inferred_ttft", None)
    assert measured.cached_tokens is not None
    assert measured.cached_tokens > 16_000
    assert measured.confidence is not None
    assert codes(flow) == []


async def test_an_inferred_miss_is_explained_like_a_reported_one() -> None:
    pipeline = Pipeline("lmstudio")
    await pipeline.send(chat(U1), tokens=(17_433, None), ttft_s=57.7)
    await pipeline.send({"model": "m", "messages": [U1], "max_tokens": 20}, tokens=(20, None), ttft_s=0.1)
    flow = await pipeline.send(chat(U1, A1, U2), tokens=(17_460, None), ttft_s=57.0)
    assert flow.measured is not None
    assert flow.measured.cached_tokens == 0
    assert codes(flow) == ["evicted_by"]
    assert flow.lost_ms == pytest.approx(57_000, rel=0.05)


async def test_waiting_behind_another_call_is_no_prefill_time() -> None:
    """While another request holds the engine, time to first token says nothing about this prompt."""
    from services.proxy.placing.place import place

    pipeline = Pipeline("lmstudio")
    await pipeline.send(chat(U1), tokens=(17_433, None), ttft_s=57.7)
    busy = pipeline.arrive({"model": "m", "messages": [{"role": "user", "content": "another talk"}]})
    await place(busy, pipeline)
    flow = await pipeline.send(chat(U1, A1, U2), tokens=(17_460, None), ttft_s=57.0)
    assert flow.measured is not None
    assert flow.measured.cached_tokens is None


async def test_load_time_is_taken_out_of_the_wait() -> None:
    def answer(load_s: float) -> Any:
        def made(*_: Any) -> dict[str, Any]:
            counts = {"prompt_eval_count": 10_000, "eval_count": 3, "load_duration": int(load_s * 1e9)}
            return {
                "message": {"role": "assistant", "content": "ok"},
                "done": True,
                "done_reason": "stop",
                **counts,
            }

        return made

    pipeline = Pipeline("ollama", version="0.31.0")
    await pipeline.send(chat(U1), path="/api/chat", answer=answer(0.02), ttft_s=10.0)
    flow = await pipeline.send(
        chat(U1, A1, U2), path="/api/chat", answer=answer(9.0), ttft_s=10.0, after_s=400
    )
    assert flow.measured is not None
    assert flow.measured.cached_tokens is not None
    assert flow.measured.cached_tokens > 8_000


async def test_what_the_state_keeps_of_an_answer_is_no_text() -> None:
    pipeline = Pipeline()
    flow = await pipeline.send(chat(U1), reply={"content": "swordfish", "reasoning_content": "swordfish"})
    kept = settled_of(flow, pipeline.key)
    assert "swordfish" not in repr(kept)
    assert {name for name, _ in kept.reply} == {"text", "text~", "reasoning", "reasoning~"}
    other = settled_of(flow, b"x" * 32)
    assert kept.reply != other.reply


async def test_the_next_turn_knows_an_answer_that_the_state_has_not_heard_of() -> None:
    pipeline = Pipeline()
    flow = await pipeline.send(chat(U1), tokens=(900, 0))
    pipeline.state._entries[flow.id].settled = None
    again = await pipeline.send(chat(U1, A1, U2), tokens=(940, 0))
    assert again.verdict is not None
    assert again.verdict.parent is not None
    assert again.verdict.parent.settled is not None
    assert again.verdict.parent.settled.prompt_tokens == 900


async def test_estimates_learn_from_counts() -> None:
    pipeline = Pipeline()
    for _ in range(5):
        await pipeline.send(chat(U1), tokens=(800, 0))
    flow = await pipeline.send(chat(U1), tokens=(800, 799))
    assert flow.verdict is not None
    assert flow.verdict.prompt_estimate == pytest.approx(800, rel=0.05)


async def test_a_flow_without_a_prompt_still_has_its_row() -> None:
    pipeline = Pipeline()
    flow = pipeline.arrive(chat(U1))
    flow.prompt = flow.identity = None
    flow.status = "rejected"
    record = record_of(flow)
    assert (record.status, record.kind, record.cached_tokens, record.cause) == (
        "rejected",
        "generation",
        None,
        None,
    )
