"""Counters that people misread, over real HTTP: what is not reported is unknown (cases R30, R99 to R104)."""

from typing import Any

import pytest

from tests.support.backend.script import Reply, as_json, ndjson, sse
from tests.support.story import MESSAGES, OLLAMA, NewStory, Told, streamed

pytestmark = pytest.mark.process

LONG = "All the words of a long prompt. " * 120
ASK = {"messages": [{"role": "user", "content": LONG}]}


def final(**counts: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        **counts,
    }


def ollama_stream(**counts: Any) -> Reply:
    piece = {"model": "m", "message": {"role": "assistant", "content": "ok"}, "done": False}
    return ndjson([piece, final(**counts)])


def observed(told: Told) -> tuple[Any, Any, Any]:
    seen = told.explain["observed"]
    return seen["prompt_tokens"], seen["cached_tokens"], seen["source"]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"eval_count": 3}, (None, None, None)),
        ({"prompt_eval_count": 900, "eval_count": 3}, (900, None, None)),
    ],
)
def test_r99_an_absent_count_is_unknown(stories: NewStory, counts: dict[str, Any], expected: Any) -> None:
    story = stories("ollama", version="0.6.0")
    told = story.say({**ASK, "stream": True}, path=OLLAMA, answer=ollama_stream(**counts))
    assert observed(told) == expected


def test_r99_a_tiny_count_of_an_old_version_is_no_total(stories: NewStory) -> None:
    """Old Ollama counted only what it newly processed: 12 of some 900 is no total."""
    story = stories("ollama", version="0.3.0")
    told = story.say(
        {**ASK, "stream": True}, path=OLLAMA, answer=ollama_stream(prompt_eval_count=12, eval_count=3)
    )
    assert told.explain["observed"]["cached_tokens"] != 0
    assert "context_truncated" not in told.codes


@pytest.mark.parametrize(
    ("cached", "expected"),
    [({"prompt_eval_cached_count": 40}, 40), ({}, None), ({"prompt_eval_cached_count": 0}, 0)],
)
def test_r100_three_states_of_ollamas_cached_count(
    stories: NewStory, cached: dict[str, int], expected: Any
) -> None:
    story = stories("ollama", version="0.33.3")
    answer = ollama_stream(prompt_eval_count=50, eval_count=3, **cached)
    told = story.say(
        {"messages": [{"role": "user", "content": "hi there"}], "stream": True}, path=OLLAMA, answer=answer
    )
    assert observed(told) == (50, expected, None if expected is None else "ollama")


def test_r100_a_zero_of_a_version_that_cannot_know_is_unknown(stories: NewStory) -> None:
    story = stories("ollama", version="0.31.0")
    body = {"model": story.model, "input": [{"type": "message", "role": "user", "content": LONG}]}
    usage = {"input_tokens": 900, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 0}}
    answer = as_json({"object": "response", "status": "completed", "output": [], "usage": usage})
    told = story.say(body, path="/v1/responses", answer=answer)
    assert observed(told)[:2] == (900, None)


def test_r101_time_tells_warm_from_cold_where_nothing_is_reported(stories: NewStory) -> None:
    story = stories("lmstudio")
    said = {"role": "assistant", "content": "ok"}
    body = {**ASK, "stream": True}
    first = story.say(body, answer=streamed("ok", (17_433, None), first=1.2))
    longer = {"messages": [*ASK["messages"], said, {"role": "user", "content": "go on"}], "stream": True}
    second = story.say(longer, answer=streamed("ok", (17_460, None), first=0.05))
    assert observed(first) == (17_433, None, None)
    total, cached, source = observed(second)
    assert (total, source) == (17_460, "inferred_ttft")
    assert cached > 0.8 * total
    assert 0 < second.explain["observed"]["confidence"] < 1
    assert second.codes == []


def test_r33_two_builds_of_one_model_are_told_apart_by_time(stories: NewStory) -> None:
    """The one that is slow on every turn is inferred cold, the other warm."""
    gguf, mlx = stories("lmstudio"), stories("lmstudio")
    said = {"role": "assistant", "content": "ok"}
    seen: dict[str, list[Any]] = {"gguf": [], "mlx": []}
    for name, story, later in (("gguf", gguf, 0.05), ("mlx", mlx, 1.0)):
        messages = list(ASK["messages"])
        for turn in range(3):
            answer = streamed("ok", (17_000 + 50 * turn, None), first=1.0 if turn == 0 else later)
            seen[name].append(observed(story.say({"messages": messages, "stream": True}, answer=answer)))
            messages += [said, {"role": "user", "content": f"go on {turn}"}]
    assert all(source == "inferred_ttft" and cached > 13_000 for _, cached, source in seen["gguf"][1:])
    assert all(source == "inferred_ttft" and cached == 0 for _, cached, source in seen["mlx"][1:])


@pytest.mark.parametrize("details", [None, {}, {"cached_tokens": None}])
def test_r101_null_details_are_unreported(stories: NewStory, details: Any) -> None:
    story = stories("unknown")
    usage = {"prompt_tokens": 900, "completion_tokens": 3, "prompt_tokens_details": details}
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    assert observed(story.say(ASK, answer=as_json({"choices": [choice], "usage": usage}))) == (
        900,
        None,
        None,
    )


def test_r103_timings_hold_the_truth_without_usage(stories: NewStory) -> None:
    story = stories()
    timings = {"cache_n": 500, "prompt_n": 20, "predicted_n": 7}
    events = [
        {"choices": [{"index": 0, "delta": {"content": "ok"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "timings": timings},
        "data: [DONE]\n\n",
    ]
    told = story.say({**ASK, "stream": True}, answer=sse(events))
    assert observed(told) == (520, 500, "timings")


def test_r104_prefill_speed_counts_uncached_tokens_only(stories: NewStory) -> None:
    """100 tokens in half a second are 200 a second: what a loss costs is reckoned by that."""
    story = stories("ollama")
    said = {"role": "assistant", "content": "ok"}
    half = {"prompt_eval_duration": 500_000_000}
    story.say(ASK, path=OLLAMA, tokens=(1000, 0), prompt_eval_duration=5_000_000_000)
    longer = {"messages": [*ASK["messages"], said, {"role": "user", "content": "go on"}]}
    told = story.say(longer, path=OLLAMA, tokens=(1100, 1000), **half)
    assert told.codes == []
    more = {"messages": [*longer["messages"], said, {"role": "user", "content": "and on"}]}
    told = story.say(more, path=OLLAMA, tokens=(1200, 600), prompt_eval_duration=3_000_000_000)
    assert told.explain["lost_tokens"] == 500
    assert told.explain["lost_ms"] == pytest.approx(2500, rel=0.01)


def test_anthropic_counts_are_summed_to_a_total(stories: NewStory) -> None:
    story = stories("unknown")
    usage = {
        "input_tokens": 20,
        "cache_read_input_tokens": 500,
        "cache_creation_input_tokens": 30,
        "output_tokens": 3,
    }
    answer = as_json(
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}], "usage": usage}
    )
    assert observed(story.say(ASK, path=MESSAGES, answer=answer)) == (550, 500, "anthropic")


def test_r30_a_stream_that_the_server_cuts_is_logged_as_reset(stories: NewStory) -> None:
    """The client sees the cut as it came; the load of another model stands next to it in the log."""
    story = stories("lmstudio")
    piece = {"choices": [{"index": 0, "delta": {"content": "half an ans"}}]}
    cut = sse([piece], end="reset")
    story.backend.queue(cut)
    body = {"model": story.model, **ASK, "stream": True}
    request_id = None
    with story.proxy.client() as client:
        import json

        client.send(
            "POST", "/v1/chat/completions", json.dumps(body).encode(), [("Content-Type", "application/json")]
        )
        answer = client.answer()
        request_id = answer.ours["request-id"]
    assert answer.broken
    assert b"half an ans" in answer.body
    rows = story.proxy.wait_rows(1, lambda row: row["id"] == request_id)
    assert rows[0]["status"] == "upstream_reset"
    assert story.proxy.request("POST", "/api/v1/models/load", b'{"model":"m2"}').status == 200
