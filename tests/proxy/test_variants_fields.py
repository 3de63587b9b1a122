"""Variants of every counter that people misread (R99 to R104, R33): what is not reported is unknown.

Written from the contract alone, by others than the readers' authors.
"""

from typing import Any

import pytest

from tests.support.backend.script import Reply, as_json, ndjson, sse
from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, Story, Told, streamed
from tests.support.talk import (
    AGAIN,
    ASK,
    MORE,
    RULES,
    SECOND,
    item,
    said,
    text,
    turn,
    user,
)

pytestmark = pytest.mark.process

LONG = "All the words of a long prompt. " * 120


def observed(told: Told) -> tuple[Any, Any, Any]:
    seen = told.explain["observed"]
    return seen["prompt_tokens"], seen["cached_tokens"], seen["source"]


def ollama(path: str, stream: bool, **counts: Any) -> Reply:
    made: dict[str, Any] = {"model": "m", "done": True, "done_reason": "stop", **counts}
    made |= (
        {"response": "ok"} if path == "/api/generate" else {"message": {"role": "assistant", "content": "ok"}}
    )
    return ndjson([{**made, "done": False} if False else made]) if stream else as_json(made)


VERSIONS: list[tuple[str, dict[str, int], tuple[Any, Any, Any]]] = [
    ("0.1.30", {"prompt_eval_count": 26}, (26, None, None)),
    ("0.5.7", {"prompt_eval_count": 900}, (900, None, None)),
    ("0.30.0", {"prompt_eval_count": 12}, (12, None, None)),
    ("0.33.2", {"prompt_eval_count": 900}, (900, None, None)),
    ("0.33.3", {"prompt_eval_count": 900, "prompt_eval_cached_count": 870}, (900, 870, "ollama")),
    ("0.40.0-rc1", {"prompt_eval_count": 900}, (900, None, None)),
]


@pytest.mark.parametrize(("version", "counts", "expected"), VERSIONS)
@pytest.mark.parametrize(("path", "stream"), [(OLLAMA, True), ("/api/generate", False)])
def test_what_each_ollama_counts(
    stories: NewStory, *, version: str, counts: dict[str, int], expected: Any, path: str, stream: bool
) -> None:
    """All tokens, or newly processed ones only, by version; a hit's size only since 0.33.3."""
    story = stories("ollama", version=version)
    asked = {"prompt": LONG} if path == "/api/generate" else {"messages": [user(LONG)]}
    told = story.say(
        {**asked, "stream": stream}, path=path, answer=ollama(path, stream, eval_count=3, **counts)
    )
    assert observed(told) == expected
    old = version in ("0.1.30", "0.30.0")
    assert told.explain["observed"].get("counts_uncached_only", False) is old
    assert told.cause is None


@pytest.mark.parametrize("version", ["0.5.7", "0.33.2"])
def test_a_constant_zero_is_no_miss(stories: NewStory, version: str) -> None:
    """Ollama's Responses route sent `cached_tokens: 0` whatever was reused; a whole talk has no loss."""
    story = stories("ollama", version=version)
    usage = {"input_tokens": 900, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 0}}
    answer = as_json(
        {"object": "response", "status": "completed", "output": [item("assistant", "ok")], "usage": usage}
    )
    items = [item("user", LONG)]
    story.say({"input": items}, path=RESPONSES, answer=answer)
    told = story.say(
        {"input": [*items, item("assistant", "ok"), item("user", MORE)]}, path=RESPONSES, answer=answer
    )
    assert observed(told)[:2] == (900, None)
    assert (told.hit, told.cause, told.explain["lost_tokens"]) == ("prefix", None, None)


ANTHROPIC: list[tuple[dict[str, Any], tuple[Any, Any, Any]]] = [
    ({"input_tokens": 20, "cache_read_input_tokens": 880}, (900, 880, "anthropic")),
    (
        {"input_tokens": 20, "cache_creation_input_tokens": 880, "cache_read_input_tokens": 0},
        (900, 0, "anthropic"),
    ),
    ({"input_tokens": 900}, (900, None, None)),
    (
        {"input_tokens": 900, "cache_read_input_tokens": None, "cache_creation_input_tokens": None},
        (900, None, None),
    ),
    (
        {
            "input_tokens": 4,
            "cache_read_input_tokens": 500,
            "cache_creation_input_tokens": 396,
            "cache_creation": {"ephemeral_5m_input_tokens": 396, "ephemeral_1h_input_tokens": 0},
        },
        (900, 500, "anthropic"),
    ),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("usage", "expected"), ANTHROPIC)
def test_the_three_parts_of_anthropic_usage(
    stories: NewStory, usage: dict[str, Any], expected: Any, stream: bool
) -> None:
    """`input_tokens` is the uncached rest; the total is the sum of the parts that were reported."""
    story = stories("unknown")
    made = {"type": "message", "role": "assistant", "content": [], "usage": usage}
    events: list[Any] = [
        (
            "message_start",
            {"type": "message_start", "message": {**made, "usage": {**usage, "output_tokens": 1}}},
        ),
        ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": text("")}),
        (
            "content_block_delta",
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
        ),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        (
            "message_delta",
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        ),
        ("message_stop", {"type": "message_stop"}),
    ]
    whole = as_json({**made, "content": [text("ok")], "usage": {**usage, "output_tokens": 3}})
    asked = {"messages": [user(LONG)], "max_tokens": 9, "stream": stream}
    told = story.say(asked, path=MESSAGES, answer=sse(events) if stream else whole)
    assert observed(told) == expected


def test_the_estimate_at_the_start_of_a_messages_stream_is_corrected(stories: NewStory) -> None:
    """Ollama: `message_start` guesses, `message_delta` counts."""
    story = stories("ollama", version="0.33.3")
    events: list[Any] = [
        (
            "message_start",
            {"type": "message_start", "message": {"usage": {"input_tokens": 2000, "output_tokens": 0}}},
        ),
        (
            "content_block_delta",
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
        ),
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"input_tokens": 900, "output_tokens": 3},
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    ]
    told = story.say(
        {"messages": [user(LONG)], "max_tokens": 9, "stream": True}, path=MESSAGES, answer=sse(events)
    )
    assert observed(told)[0] == 900


RESPONSE_USAGE: list[tuple[Any, tuple[Any, Any, Any]]] = [
    ({"cached_tokens": 880}, (900, 880, "responses")),
    ({"cached_tokens": 0}, (900, 0, "responses")),
    ({"cached_tokens": 880, "cache_write_tokens": 20}, (900, 880, "responses")),
    (None, (900, None, None)),
    ({}, (900, None, None)),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("details", "expected"), RESPONSE_USAGE)
def test_usage_of_the_responses_api(stories: NewStory, details: Any, expected: Any, stream: bool) -> None:
    story = stories("unknown")
    usage = {"input_tokens": 900, "input_tokens_details": details, "output_tokens": 3}
    done = {"object": "response", "status": "completed", "output": [item("assistant", "ok")], "usage": usage}
    events: list[Any] = [
        (
            "response.created",
            {"type": "response.created", "response": {"status": "in_progress", "usage": None}},
        ),
        ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "ok"}),
        ("response.completed", {"type": "response.completed", "response": done}),
    ]
    asked = {"input": [item("user", LONG)], "stream": stream}
    told = story.say(asked, path=RESPONSES, answer=sse(events) if stream else as_json(done))
    assert observed(told) == expected


CHAT_USAGE: list[tuple[dict[str, Any], tuple[Any, Any, Any]]] = [
    (
        {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 880, "cache_write_tokens": 20}},
        (900, 880, "usage"),
    ),
    ({"prompt_tokens": 900, "prompt_tokens_details": {"audio_tokens": 0}}, (900, None, None)),
    ({"prompt_tokens": 900, "cached_tokens": 512}, (900, 512, "usage")),
    (
        {"prompt_tokens": 900, "prompt_cache_hit_tokens": 640, "prompt_cache_miss_tokens": 260},
        (900, 640, "usage"),
    ),
    ({"prompt_tokens": 900}, (900, None, None)),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("usage", "expected"), CHAT_USAGE)
def test_usage_of_the_chat_api_by_its_many_names(
    stories: NewStory, usage: dict[str, Any], expected: Any, stream: bool
) -> None:
    """Details of vLLM, ds4, mlx_lm and OpenAI, oMLX's and DeepSeek's names beside the totals."""
    story = stories("unknown")
    full = {**usage, "completion_tokens": 3}
    choice: dict[str, Any] = {"index": 0, "message": said(), "finish_reason": "stop"}
    events = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}], "usage": None},
        {"choices": [], "usage": full},
        "data: [DONE]\n\n",
    ]
    answer = sse(events) if stream else as_json({"choices": [choice], "usage": full})
    told = story.say({"messages": [user(LONG)], "stream": stream}, answer=answer)
    assert observed(told) == expected
    assert told.answer.ours.get("cached-tokens") == (
        None if stream or expected[1] is None else str(expected[1])
    )


TIMED: list[tuple[str, dict[str, Any], tuple[Any, Any, Any]]] = [
    (
        "usage says less",
        {
            "timings": {"cache_n": 880, "prompt_n": 20, "predicted_n": 3},
            "usage": {"prompt_tokens": 900, "completion_tokens": 3},
        },
        (900, 880, "timings"),
    ),
    (
        "both say it",
        {
            "timings": {"cache_n": 880, "prompt_n": 20},
            "usage": {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 870}},
        },
        (900, 880, "timings"),
    ),
    ("nothing reused", {"timings": {"cache_n": 0, "prompt_n": 900}}, (900, 0, "timings")),
    (
        "an old server",
        {"timings": {"prompt_n": 20, "predicted_n": 3}, "usage": {"prompt_tokens": 900}},
        (900, None, None),
    ),
]


@pytest.mark.parametrize(("name", "members", "expected"), TIMED, ids=[t[0] for t in TIMED])
def test_timings_come_first(stories: NewStory, name: str, members: dict[str, Any], expected: Any) -> None:
    story = stories()
    choice = {"index": 0, "message": said(), "finish_reason": "stop"}
    told = story.say({"messages": [user(LONG)]}, answer=as_json({"choices": [choice], **members}))
    assert observed(told) == expected, name


def test_progress_tells_while_the_prompt_is_read(stories: NewStory) -> None:
    """A stream that ends early still told how much was cached, if the client asked for progress."""
    story = stories()
    events = [
        {"choices": [], "prompt_progress": {"total": 900, "cache": 512, "processed": 512, "time_ms": 1}},
        {"choices": [], "prompt_progress": {"total": 900, "cache": 512, "processed": 900, "time_ms": 90}},
        {"choices": [{"index": 0, "delta": {"content": "ok"}}]},
    ]
    asked = {"messages": [user(LONG)], "stream": True, "return_progress": True}
    told = story.say(asked, answer=sse(events))
    assert observed(told) == (900, 512, "timings")


def test_completion_prefers_timings_to_its_own_names(stories: NewStory) -> None:
    story = stories()
    done = {
        "content": "ok",
        "stop": True,
        "tokens_cached": 902,
        "tokens_evaluated": 900,
        "timings": {"cache_n": 880, "prompt_n": 20, "predicted_n": 3},
    }
    told = story.say({"prompt": LONG}, path="/completion", answer=as_json(done))
    assert observed(told) == (900, 880, "timings")


def grow(story: Story, firsts: list[float], totals: int = 17_000) -> list[Told]:
    """A talk of LM Studio, which reports no hit size: seconds to the first token, turn by turn."""
    messages, seen = [turn("system", RULES), user(ASK)], []
    for k, first in enumerate(firsts):
        answer = streamed("ok", (totals + 40 * k, None), first=first)
        seen.append(story.say({"messages": messages, "stream": True}, answer=answer))
        messages = [*messages, said(), user(f"{AGAIN} {k}")]
    return seen


def test_time_alone_tells_warm_cold_and_what_came_between(stories: NewStory) -> None:
    """Warm, warm, then cold after a title: inferred, with less than certainty, and never from the first."""
    story = stories("lmstudio")
    seen = grow(story, [0.9, 0.05, 0.06])
    story.say(
        {"messages": [user("Write a title for: x")], "max_tokens": 20}, answer=streamed("ok", (30, None))
    )
    assert observed(seen[0]) == (17_000, None, None)
    for told in seen[1:]:
        total, cached, source = observed(told)
        assert (source, cached > 0.8 * total, told.cause) == ("inferred_ttft", True, None)
        assert 0 < told.explain["observed"]["confidence"] < 1
    assert seen[1].answer.ours.get("cached-tokens") is None


def test_nothing_is_inferred_from_whole_answers_without_times(stories: NewStory) -> None:
    story = stories("lmstudio")
    choice = {"index": 0, "message": said(), "finish_reason": "stop"}
    answer = as_json({"choices": [choice], "usage": {"prompt_tokens": 900, "completion_tokens": 3}})
    messages = [user(LONG)]
    for _ in range(3):
        told = story.say({"messages": messages}, answer=answer)
        assert observed(told) == (900, None, None)
        messages = [*messages, said(), user(MORE)]


def test_load_time_is_no_prefill(stories: NewStory) -> None:
    """R104: the load is apart, and speed counts uncached tokens only: a loss of 500 at 200 a second."""
    story = stories("ollama")
    head = {"stream": False}
    story.say(
        {"messages": [user(LONG)], **head},
        path=OLLAMA,
        tokens=(1000, 0),
        prompt_eval_duration=5 * SECOND,
        load_duration=7 * SECOND,
    )
    longer = [user(LONG), said(), user(MORE)]
    told = story.say(
        {"messages": longer, **head}, path=OLLAMA, tokens=(1100, 1000), prompt_eval_duration=SECOND // 2
    )
    assert told.codes == []
    told = story.say(
        {"messages": [*longer, said(), user(AGAIN)], **head},
        path=OLLAMA,
        tokens=(1200, 600),
        prompt_eval_duration=3 * SECOND,
    )
    assert told.explain["lost_tokens"] == 500
    assert told.explain["lost_ms"] == pytest.approx(2500, rel=0.02)


@pytest.mark.parametrize(
    "counts",
    [
        {"prompt_eval_count": "many"},
        {"prompt_eval_count": -1},
        {"prompt_eval_count": True},
        {"prompt_eval_count": 1.5},
    ],
)
def test_counts_that_are_none_are_unknown(stories: NewStory, counts: dict[str, Any]) -> None:
    story = stories("ollama", version="0.33.3")
    told = story.say(
        {"messages": [user(LONG)], "stream": False}, path=OLLAMA, answer=ollama(OLLAMA, False, **counts)
    )
    assert observed(told) == (None, None, None)


def test_a_cached_count_over_the_total_is_no_reuse_over_one(stories: NewStory) -> None:
    story = stories("unknown")
    usage = {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 5000}}
    choice = {"index": 0, "message": said(), "finish_reason": "stop"}
    told = story.say(
        {"messages": [user(LONG)]}, path=CHAT, answer=as_json({"choices": [choice], "usage": usage})
    )
    reuse = told.explain["observed"]["reuse"]
    assert reuse is None or 0 <= reuse <= 1
