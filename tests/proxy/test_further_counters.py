"""Cases from the field once more, with further inputs: counters of every kind and type."""

import time
from typing import Any

import pytest

from tests.support.backend import Reply, as_json, ndjson, sse
from tests.support.proxy import Wire

pytestmark = pytest.mark.process

DONE = "data: [DONE]\n\n"


def asked(**more: Any) -> dict[str, Any]:
    """A request with a text of its own."""
    text = f"counted by a further {time.monotonic_ns()}"
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


@pytest.mark.parametrize(
    ("fields", "prompt", "cached"),
    [
        ({}, None, None),
        ({"prompt_eval_count": None}, None, None),
        ({"prompt_eval_count": 0}, 0, None),
        ({"prompt_eval_count": 12, "prompt_eval_cached_count": 0}, 12, 0),
        ({"prompt_eval_count": "12"}, None, None),
        ({"prompt_eval_count": -3}, None, None),
        ({"prompt_eval_count": 12.0, "prompt_eval_cached_count": 4}, 12, 4),
    ],
)
def test_ollamas_count_is_taken_for_what_it_is(
    wire: Wire, fields: dict[str, Any], prompt: int | None, cached: int | None
) -> None:
    """R99: missing, null, zero, text and negative: unknown is not zero, and the answer is complete."""
    last = {"response": "", "done": True, "done_reason": "stop", "eval_count": 2, **fields}
    wire.answer(ndjson([{"response": "a", "done": False}, last]))
    answer = wire.proxy.chat({"model": "m", "prompt": f"x{time.monotonic_ns()}"}, path="/api/generate")
    row = wire.proxy.row(answer)
    assert (row["status"], row["completion_tokens"]) == ("completed", 2)
    assert (row.get("prompt_tokens"), row.get("cached_tokens")) == (prompt, cached)


def test_a_tiny_count_for_a_long_prompt_is_not_taken_for_its_length(wire: Wire) -> None:
    """R99: 12 for some 900 tokens stays as reported, and the next prompt's estimate is still of its size."""
    model = f"old-{time.monotonic_ns()}"
    for number in range(3):
        wire.answer(ndjson([{"message": {"content": ""}, "done": True, "prompt_eval_count": 12}]))
        text = f"{number} " + "some nine hundred tokens of quite ordinary text " * 80
        chat = {"model": model, "messages": [{"role": "user", "content": text}]}
        row = wire.proxy.row(wire.proxy.chat(chat, path="/api/chat"))
        assert row["prompt_tokens"] == 12
        assert "cached_tokens" not in row
    again = {**chat, "messages": [*chat["messages"], {"role": "user", "content": "go on"}]}
    assert wire.proxy.row(wire.proxy.chat(again, path="/api/chat"))["predicted_tokens"] > 500


USAGE = {"prompt_tokens": 520, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 500}}


@pytest.mark.parametrize(
    ("extra", "cached", "source"),
    [
        ({"timings": {"cache_n": 500, "prompt_n": 20, "predicted_n": 7}}, 500, "timings"),
        ({"timings": {"cache_n": 0, "prompt_n": 520, "predicted_n": 7}}, 0, "timings"),
        ({"timings": {"prompt_n": 20, "predicted_n": 7}, "usage": USAGE}, 500, "usage"),
        ({"timings": {"cache_n": 400, "prompt_n": 120, "predicted_n": 7}, "usage": USAGE}, 400, "timings"),
        ({"timings": {"cache_n": "500", "prompt_n": None}, "usage": USAGE}, 500, "usage"),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_timings_hold_the_truth(
    wire: Wire, extra: dict[str, Any], cached: int, source: str, streamed: bool
) -> None:
    """R103: in the chunk that finishes, with or without usage, streamed or whole; timings win over usage."""
    said = {"role": "assistant", "content": "hi"}
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
    stream = sse([{"choices": [{"index": 0, "delta": said}]}, {"choices": [last], **extra}, DONE])
    whole = as_json({"choices": [{"index": 0, "message": said, "finish_reason": "stop"}], **extra})
    wire.answer(stream if streamed else whole)
    answer = wire.proxy.chat(asked(stream=streamed))
    row = wire.proxy.row(answer)
    assert (row["prompt_tokens"], row["cached_tokens"], row["cached_source"]) == (520, cached, source)
    assert row["completion_tokens"] == 7
    assert answer.ours.get("cached-tokens") == (None if streamed else str(cached))


def test_progress_of_a_prefill_is_no_token_and_tells_the_cached_part(wire: Wire) -> None:
    """R103: `prompt_progress` that the client asked for; the stream then breaks off before its timings."""
    progress = {"total": 520, "cache": 480, "processed": 500, "time_ms": 3}
    first = {"choices": [{"index": 0, "delta": {}}], "prompt_progress": progress}
    wire.answer(sse([first, {"choices": [{"index": 0, "delta": {"content": "x"}}]}], gap=0.4))
    row = wire.proxy.row(wire.proxy.chat(asked(stream=True, return_progress=True)))
    assert wire.received[0].json()["return_progress"] is True
    assert row["ttft_ms"] >= 380
    assert row["status"] == "incomplete"
    assert (row["prompt_tokens"], row["cached_tokens"]) == (520, 480)


ODD: dict[str, Reply] = {
    "/v1/chat/completions": sse(
        [{"choices": [None, {"index": "0", "delta": {"content": "a", "tool_calls": {}}}], "usage": []},
         {"choices": [{"finish_reason": "stop", "delta": 1}], "usage": {"prompt_tokens": 5, "x": "y"}}, DONE]
    ),
    "/api/chat": ndjson(
        [{"message": {"content": "a", "tool_calls": "none"}, "done": 0},
         {"message": [], "done": True, "done_reason": "stop", "eval_duration": "1ms", "prompt_eval_count": 5}]
    ),
    "/v1/messages": sse(
        [("content_block_delta", {"type": "content_block_delta", "index": None, "delta": {"text": "a"}}),
         ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn", "text": 7},
                            "usage": {"input_tokens": 5, "output_tokens": None}})]
    ),
    "/completion": sse([{"content": "a", "stop": None}, {"content": "", "stop": True, "stop_type": "eos",
                                                         "tokens_cached": "9", "tokens_evaluated": 5}]),
}  # fmt: skip


@pytest.mark.parametrize("path", ODD)
def test_a_member_of_a_foreign_type_takes_nothing_else_away(wire: Wire, path: str) -> None:
    """Counters as texts, null as index, an object for a list: the rest of the event still counts."""
    wire.answer(ODD[path])
    answer = wire.proxy.chat(asked(stream=True, prompt="p"), path=path)
    assert answer.body == b"".join(data for _, data in ODD[path].writes)
    row = wire.proxy.row(answer)
    assert row["status"] == "completed"
    assert (row["streamed_deltas"], row["prompt_tokens"]) == (1, 5)
