"""A stream and a whole answer say the same: each is made from the other without loss."""

import json
from typing import Any

import pytest

from services.proxy.answers.forms import FORMS, Event
from services.proxy.answers.replay import events_of, replay
from tests.proxy.answers.conftest import make_answer

CALLS = [
    {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"z":1,"a":[2.50]}'}},
    {"id": "b", "type": "function", "function": {"name": "list", "arguments": "{}"}},
]
WHOLE: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "id": "c1", "created": 5, "model": "m", "system_fingerprint": "f", "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Ünï😀", "reasoning_content": "hm",
                                     "tool_calls": CALLS}, "finish_reason": "tool_calls"},
            {"index": 1, "message": {"role": "assistant", "content": "two"}, "finish_reason": "stop",
             "logprobs": {"content": [{"token": "two", "logprob": -0.5}]}},
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4}, "timings": {"cache_n": 2},
    },
    "openai_completions": {
        "id": "t1", "object": "text_completion", "created": 5, "model": "m",
        "choices": [{"index": 0, "text": "hello", "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    },
    "openai_responses": {
        "id": "r1", "object": "response", "status": "completed", "error": None,
        "output": [
            {"id": "rs", "type": "reasoning", "summary": [{"type": "summary_text", "text": "think"}]},
            {"id": "ms", "type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "hello", "annotations": []}]},
            {"id": "fc", "type": "function_call", "status": "completed", "call_id": "c", "name": "read",
             "arguments": '{"a":1}'},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    },
    "anthropic": {
        "id": "msg", "type": "message", "role": "assistant", "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "xx"},
            {"type": "text", "text": "Ünï", "citations": [{"type": "char_location", "cited_text": "x"}]},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"z": 1, "a": [2.5]}},
            {"type": "tool_use", "id": "u", "name": "list", "input": {}},
        ],
        "stop_reason": "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 4, "service_tier": "standard"},
    },
    "ollama_chat": {
        "model": "m", "created_at": "t", "done": True, "done_reason": "stop", "eval_count": 4,
        "message": {"role": "assistant", "content": "hello", "thinking": "hm",
                    "tool_calls": [{"function": {"name": "read", "arguments": {"z": 1, "a": 2}}}]},
    },
    "ollama_generate": {
        "model": "m", "created_at": "t", "done": True, "done_reason": "stop", "response": "hello",
        "context": [1, 2], "eval_count": 4,
    },
}  # fmt: skip


@pytest.mark.parametrize("dialect", WHOLE)
def test_a_whole_answer_survives_the_way_through_a_stream(dialect: str) -> None:
    """Texts, reasoning, calls, signatures, counters; the order of keys in arguments too."""
    form, whole = FORMS[dialect], WHOLE[dialect]
    events = form.split(json.loads(json.dumps(whole)))
    assert form.complete(whole, {})
    assert form.join(events) == whole
    assert len(events) > 1


@pytest.mark.parametrize("dialect", WHOLE)
def test_the_stream_that_is_made_is_one_that_can_be_read(dialect: str) -> None:
    """Framed as its API frames it, ended as its API ends it."""
    stored = make_answer(json.dumps(WHOLE[dialect]), dialect=dialect)
    made = replay(stored, stream=True, usage=True)
    assert made is not None
    shape = FORMS[dialect].framing
    body = b"".join(made.pieces)
    assert FORMS[dialect].join(events_of(shape, body)) == WHOLE[dialect]
    assert body.endswith(b"data: [DONE]\n\n") == (dialect in {"openai_chat", "openai_completions"})
    assert (b"event: " in body) == (dialect in {"anthropic", "openai_responses"})


@pytest.mark.parametrize("dialect", WHOLE)
def test_no_shorter_part_of_a_stream_amounts_to_a_complete_answer(dialect: str) -> None:
    """Wherever it breaks off, it is not taken for whole; but for the usage that OpenAI's end with."""
    form = FORMS[dialect]
    events = form.split(WHOLE[dialect])
    for length in range(len(events)):
        joined = form.join(events[:length])
        left = events[length:]
        if joined is not None and not all(form.only_usage(event) for event in left):
            assert not form.complete(joined, {"n": len(WHOLE[dialect].get("choices", []))})


def chat(*choices: dict[str, Any]) -> dict[str, Any] | None:
    """What a stream of chat chunks amounts to."""
    return FORMS["openai_chat"].join([Event("", {"choices": [choice]}) for choice in choices])


def call(name: str | None, arguments: str, index: int | None = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": 0, "delta": {"tool_calls": [{"index": index, "id": "", "function": function}]}}


def test_a_name_that_is_repeated_with_each_delta_stands_once() -> None:
    """Some servers do that; others cut a name in two."""
    repeated = chat(call("read", "{"), call("read", "}"))
    cut = chat(call("re", "{"), call("ad", "}"))
    for whole in (repeated, cut):
        assert whole is not None
        assert whole["choices"][0]["message"]["tool_calls"][0]["function"] == {
            "name": "read",
            "arguments": "{}",
        }


def test_calls_keep_to_their_index_whatever_order_they_come_in() -> None:
    """Two that are written at the same time."""
    whole = chat(call("b", '{"x"', 1), call("a", '{"y"', 0), call(None, ":1}", 1), call(None, ":2}", 0))
    assert whole is not None
    made = [item["function"] for item in whole["choices"][0]["message"]["tool_calls"]]
    assert made == [{"name": "a", "arguments": '{"y":2}'}, {"name": "b", "arguments": '{"x":1}'}]


def test_the_role_and_the_finish_of_each_delta_are_not_added_up() -> None:
    """A server may send the role with every delta."""
    delta = {"role": "assistant", "content": "x"}
    whole = chat({"index": 0, "delta": delta}, {"index": 0, "delta": delta, "finish_reason": "stop"})
    assert whole is not None
    choice = whole["choices"][0]
    assert (choice["message"], choice["finish_reason"]) == ({"role": "assistant", "content": "xx"}, "stop")


def test_usage_of_anthropic_is_the_last_of_each_count() -> None:
    """The start has the input, the end the output; words are not put together."""
    begun = {"input_tokens": 5, "output_tokens": 1, "service_tier": "standard"}
    ended = {"output_tokens": 9, "service_tier": "standard"}
    events = [
        Event("", {"type": "message_start", "message": {"content": [], "usage": begun}}),
        Event("", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": ended}),
        Event("", {"type": "message_stop"}),
    ]
    whole = FORMS["anthropic"].join(events)
    assert whole is not None
    assert whole["usage"] == {"input_tokens": 5, "output_tokens": 9, "service_tier": "standard"}


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
def test_an_answer_that_ends_in_calls_and_has_none_is_not_complete(dialect: str) -> None:
    """They were lost on the way, whatever text stands beside them."""
    whole = json.loads(json.dumps(WHOLE[dialect]))
    assert FORMS[dialect].complete(whole, {})
    if dialect == "anthropic":
        whole |= {"stop_reason": "tool_use", "content": [{"type": "text", "text": "Let me look."}]}
    else:
        message = {"role": "assistant", "content": "Let me look."}
        whole["choices"] = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    assert not FORMS[dialect].complete(whole, {})
