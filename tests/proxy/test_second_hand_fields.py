"""Counters that people misread, told by answers of other shapes: streams, other providers' names, odd types.

Written from the contract and the cases alone, by others than the readers' authors.
"""

from typing import Any

import pytest

from tests.support.backend import Reply, as_json, ndjson, sse
from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, streamed
from tests.support.talk import ASK, MORE, SYSTEM, item, said, user

pytestmark = pytest.mark.process

DETAILS = "usage.prompt_tokens_details.cached_tokens"
ANTHROPIC, RESPONDED = "usage.cache_read_input_tokens", "usage.input_tokens_details.cached_tokens"
Expected = tuple[int | None, int | None, str | None, str | None]
UNKNOWN = (None, None, None, None)


def chat(**members: Any) -> Reply:
    """A whole chat answer."""
    message = {"role": "assistant", "content": "ok"}
    return as_json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **members})


def used(total: Any, **more: Any) -> Reply:
    """One with a usage."""
    return chat(usage={"prompt_tokens": total, "completion_tokens": 3, **more})


def chunks(*events: dict[str, Any]) -> Reply:
    """A streamed chat answer whose events have these members besides."""
    delta = [{"index": 0, "delta": {"content": "ok"}}]
    end = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    start = [{"choices": delta, **event} for event in events[:-1]]
    return sse([*start, {"choices": end, **events[-1]}, "data: [DONE]\n\n"])


def claude(started: dict[str, Any], ended: dict[str, Any]) -> Reply:
    """A streamed answer of the Messages API with a usage at both ends."""
    events = [
        {"type": "message_start", "message": {"role": "assistant", "usage": started}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": ended},
        {"type": "message_stop"},
    ]
    return sse([(event["type"], event) for event in events])


def responded(usage: dict[str, Any] | None) -> Reply:
    """A streamed answer of the Responses API."""
    done = {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": usage}}
    return sse(
        [
            ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "ok"}),
            (done["type"], done),
        ]
    )


def ollama(**last: Any) -> Reply:
    """A streamed answer of Ollama."""
    return ndjson(
        [{"message": {"content": "ok"}, "done": False}, {"message": {"content": ""}, "done": True, **last}]
    )


HALF = {"prompt_tokens": 900, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 128}}
TIMED = {"cache_n": 500, "prompt_n": 20, "predicted_n": 7, "prompt_ms": 12.5}

COUNTED: list[tuple[str, Reply, Expected]] = [
    (CHAT, used(900, prompt_tokens_details=None), (900, None, None, None)),
    (CHAT, used(900, prompt_tokens_details={"cached_tokens": None}), (900, None, None, None)),
    (CHAT, used(900, prompt_tokens_details=[1]), (900, None, None, None)),
    (CHAT, used(900, prompt_tokens_details={"cached_tokens": 0}), (900, 0, "usage", DETAILS)),
    (CHAT, used(900, prompt_cache_hit_tokens=640), (900, 640, "usage", "usage.prompt_cache_hit_tokens")),
    (CHAT, used(900, cached_tokens=640), (900, 640, "usage", "usage.cached_tokens")),
    (CHAT, used(True, prompt_tokens_details={"cached_tokens": False}), UNKNOWN),
    (CHAT, used("900", prompt_tokens_details={"cached_tokens": "12"}), UNKNOWN),
    (CHAT, used(10**30), UNKNOWN),
    (CHAT, chat(usage=None), UNKNOWN),
    (CHAT, chunks({"usage": HALF}, {"usage": HALF}), (900, 128, "usage", DETAILS)),
    (CHAT, chunks({"usage": None}, {"timings": TIMED}), (520, 500, "timings", "timings.cache_n")),
    (CHAT, chunks({"timings": TIMED, "usage": HALF}), (520, 500, "timings", "timings.cache_n")),
    (CHAT, chunks({"timings": {"prompt_n": 20, "prompt_ms": 1.0}}), UNKNOWN),
    (
        MESSAGES,
        claude(
            {"input_tokens": 4, "cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 96},
            {"output_tokens": 9},
        ),
        (1_100, 1_000, "anthropic", ANTHROPIC),
    ),
    (
        MESSAGES,
        claude({"input_tokens": 0}, {"input_tokens": 40, "cache_read_input_tokens": 60, "output_tokens": 9}),
        (100, 60, "anthropic", ANTHROPIC),
    ),
    (
        MESSAGES,
        claude({"input_tokens": 40, "cache_read_input_tokens": None}, {"output_tokens": 9}),
        (40, None, None, None),
    ),
    (
        RESPONSES,
        responded({"input_tokens": 800, "input_tokens_details": {"cached_tokens": 768}, "output_tokens": 4}),
        (800, 768, "responses", RESPONDED),
    ),
    (RESPONSES, responded({"input_tokens": 800, "input_tokens_details": None}), (800, None, None, None)),
    (RESPONSES, responded(None), UNKNOWN),
    (
        OLLAMA,
        ollama(prompt_eval_count=50, prompt_eval_cached_count=40),
        (50, 40, "ollama", "prompt_eval_cached_count"),
    ),
    (OLLAMA, ollama(prompt_eval_count=50), (50, None, None, None)),
    (OLLAMA, ollama(prompt_eval_count=None, prompt_eval_cached_count=None), UNKNOWN),
]


@pytest.mark.parametrize(("path", "answer", "expected"), COUNTED)
def test_a_count_is_what_was_reported_and_nothing_else(
    stories: NewStory, path: str, answer: Reply, expected: Expected
) -> None:
    """R99-R103: one figure in the explanation, the row and, for a whole answer, the header."""
    story = stories("ollama" if path == OLLAMA else "llama-server")
    asked = {"input": [item("user", ASK)]} if path == RESPONSES else {"messages": [user(ASK)]}
    flowing = answer.framing == "chunked"
    told = story.say({**asked, "stream": flowing}, path=path, answer=answer)
    observed, row = told.explain["observed"], story.proxy.row(told.answer)
    assert (observed["prompt_tokens"], observed["cached_tokens"], observed["source"]) == expected[:3]
    names = ("prompt_tokens", "cached_tokens", "cached_source", "cached_field")
    assert tuple(row.get(name) for name in names) == expected
    cached = None if flowing or expected[1] is None else str(expected[1])
    assert told.answer.ours.get("cached-tokens") == cached
    assert row["status"] == "completed"


def test_r103_progress_tells_what_a_cut_stream_could_not(stories: NewStory) -> None:
    progress = {"total": 700, "cache": 600, "processed": 700, "time_ms": 9}
    told = stories().say(
        {"messages": [user(ASK)], "stream": True}, answer=chunks({"prompt_progress": progress}, {})
    )
    observed = told.explain["observed"]
    assert (observed["prompt_tokens"], observed["cached_tokens"], observed["source"]) == (700, 600, "timings")


def test_r101_a_model_without_counters_is_judged_by_its_own_speed(stories: NewStory) -> None:
    """Cold, then warm: from the time to the first token, labelled, with a confidence below one."""
    story, long = stories("lmstudio"), "some ordinary words in a row " * 400
    for number in range(4):
        story.say(
            {"messages": [user(f"{number} {long}")], "stream": True},
            answer=streamed("ok", (2_900, None), 0.5),
        )
    turns = [SYSTEM, user(f"x {long}")]
    cold = story.say({"messages": turns, "stream": True}, answer=streamed("ok", (3_100, None), 0.55))
    again = {"messages": [*turns, said(), user(MORE)], "stream": True}
    warm = story.say(again, answer=streamed("ok", (3_120, None), 0.02))
    for told, low, high in ((cold, 0, 900), (warm, 2_000, 3_120)):
        observed = told.explain["observed"]
        assert observed["source"] == "inferred_ttft"
        assert low <= observed["cached_tokens"] <= high
        assert 0 < observed["confidence"] < 1
    assert warm.codes == []
