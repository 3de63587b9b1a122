"""An answer is stored when it is complete and only then, and comes back in the form that is asked for."""

import gzip
import json
import time
from typing import Any

import pytest

from tests.support.backend import Reply, as_json, body, ndjson, sse
from tests.support.backend.anthropic import Anthropic
from tests.support.backend.ollama import Ollama
from tests.support.backend.openai import OpenAI
from tests.support.caching import (
    CHAT,
    COMPLETIONS,
    GENERATE,
    MESSAGES,
    OLLAMA,
    RESPONSES,
    Caching,
    chat,
    chunk,
    data_of,
    said,
    streamed,
)

pytestmark = pytest.mark.process

USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}


def call(index: int, arguments: str, name: str | None = None) -> dict[str, Any]:
    """A delta of one tool call."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    head = {"id": f"call_{index}", "type": "function"} if name else {}
    return {"tool_calls": [{"index": index, **head, "function": function}]}


CALLING = [
    chunk({"role": "assistant", "content": None}),
    chunk(call(0, "", "read")),
    chunk(call(0, '{"pa')),
    chunk(call(0, 'th":"a"}')),
    chunk(call(1, '{"path"', "list")),
    chunk(call(1, ':"b"}')),
    chunk({}, "tool_calls"),
]
CALLED = [
    {"id": "call_0", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}},
    {"id": "call_1", "type": "function", "function": {"name": "list", "arguments": '{"path":"b"}'}},
]


def test_r80_a_stream_comes_back_with_the_same_bytes_in_the_same_pieces(caching: Caching) -> None:
    """Two calls with split arguments; whole, they are assembled; another route is another question."""
    caching.answer(sse([*CALLING, "data: [DONE]\n\n"], gap=0.01))
    first = caching.ask(chat(stream=True))
    again = caching.ask(chat(stream=True))
    assert (again.ours["cache"], again.body) == ("hit", first.body)
    assert again.header("content-type") == first.header("content-type")
    assert again.header("content-length") is None
    assert [data for _, data in again.pieces] == [data for _, data in first.pieces]
    assert len(again.pieces) > 1
    whole = caching.ask(chat(stream=False))
    choice = json.loads(whole.body)["choices"][0]
    assert (whole.ours["cache"], whole.header("content-type")) == ("hit", "application/json")
    assert choice["message"]["tool_calls"] == CALLED
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert json.loads(whole.body)["id"] == "chatcmpl-1"
    assert len(caching.calls) == 1
    assert caching.ask(chat(), OLLAMA).ours["cache"] == "miss"


def test_r80_a_whole_answer_is_told_as_a_stream(caching: Caching) -> None:
    """Its usage is told to a client that asks for it, and to no other."""
    message = {"role": "assistant", "content": "两个", "reasoning_content": "hm", "tool_calls": CALLED}
    caching.answer(as_json(said(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])))
    caching.ask(chat())
    plain = caching.ask(chat(stream=True))
    told = caching.ask(chat(stream=True, stream_options={"include_usage": True}))
    assert (plain.ours["cache"], told.ours["cache"]) == ("hit", "hit")
    assert plain.header("content-type") == "text/event-stream; charset=utf-8"
    assert plain.body.endswith(b"data: [DONE]\n\n")
    assert all(event["choices"] for event in data_of(plain))
    assert data_of(told)[-1]["usage"] == USAGE
    deltas = [event["choices"][0]["delta"] for event in data_of(plain)]
    assert "".join(delta.get("content") or "" for delta in deltas) == "两个"
    assert [item for delta in deltas for item in delta.get("tool_calls", [])] == [
        {"index": index, **made} for index, made in enumerate(CALLED)
    ]
    assert len(caching.calls) == 1


def test_r80_usage_follows_the_wish_of_each_stream(caching: Caching) -> None:
    """A stream stored with its usage is told without; one stored without is asked for anew."""
    usage = chunk(usage=USAGE)
    wish = {"stream": True, "stream_options": {"include_usage": True}}
    caching.answer(sse([chunk({"content": "hi"}), chunk({}, "stop"), usage, "data: [DONE]\n\n"]))
    caching.ask(chat(**wish))
    without = caching.ask(chat(stream=True))
    assert without.ours["cache"] == "hit"
    assert [bool(event["choices"]) for event in data_of(without)] == [True, True]
    assert json.loads(caching.ask(chat()).body)["usage"] == USAGE
    caching.answer(streamed("hi"))
    assert caching.verdicts(chat("other", stream=True), chat("other", **wish)) == ["miss", "miss"]


@pytest.mark.parametrize(
    ("path", "server", "question"),
    [
        (CHAT, OpenAI(), chat()),
        (COMPLETIONS, OpenAI(), {"prompt": "Capital of France?"}),
        (RESPONSES, OpenAI(), {"input": "Capital of France?"}),
        (MESSAGES, Anthropic(), {**chat(), "max_tokens": 50}),
        (OLLAMA, Ollama(), chat()),
        (GENERATE, Ollama(), {"prompt": "Capital of France?"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_r80_each_api_in_both_directions(
    caching: Caching, path: str, server: Any, question: dict[str, Any]
) -> None:
    """What was stored streamed is equal whole to what the backend says whole, and the other way round."""
    caching.backend.answer(server)
    caching.model = "qwen3:8b" if isinstance(server, Ollama) else caching.model
    wish = {"stream_options": {"include_usage": True}} if path in {CHAT, COMPLETIONS} else {}
    streaming, whole = {**question, "stream": True, **wish}, {**question, "stream": False}
    own_stream = caching.ask(streaming, path, "namespace=s")
    own_whole = caching.ask(whole, path, "namespace=w")
    made_whole = caching.ask(whole, path, "namespace=s")
    made_stream = caching.ask(streaming, path, "namespace=w")
    assert (made_whole.ours["cache"], made_stream.ours["cache"]) == ("hit", "hit")
    assert text_of(path, json.loads(made_whole.body)) == text_of(path, json.loads(own_whole.body))
    if path != COMPLETIONS:
        assert keys(json.loads(made_whole.body)) == keys(json.loads(own_whole.body))
    assert made_stream.header("content-type").partition(";")[0] == own_stream.header("content-type")
    again = caching.ask(streaming, path, "namespace=s")
    assert again.body == own_stream.body
    caching.backend.answer(made_reply(made_stream))
    assert caching.ask(streaming, path, "namespace=t").ours["cache"] == "miss"
    round_trip = json.loads(caching.ask(whole, path, "namespace=t").body)
    assert text_of(path, round_trip) == text_of(path, json.loads(own_whole.body))


def made_reply(answer: Any) -> Reply:
    """A backend that says what the cache has said."""
    kind = answer.header("content-type")
    return Reply(headers=[("Content-Type", kind)], writes=[(0.0, answer.body)], framing="chunked")


def text_of(path: str, whole: dict[str, Any]) -> Any:
    """What an answer says, and what it counts."""
    usage = whole.get("usage") or {name: whole.get(name) for name in ("prompt_eval_count", "eval_count")}
    if path in {MESSAGES, RESPONSES}:
        return whole.get("content") or whole.get("output"), usage
    if path in {OLLAMA, GENERATE}:
        return whole.get("response") or whole["message"]["content"], usage
    choice = whole["choices"][0]
    if path == COMPLETIONS:  # the scripted server streams no usage here
        return choice["text"], choice["finish_reason"]
    return choice["message"]["content"], usage, choice["finish_reason"]


def keys(value: Any) -> Any:
    """The shape of an object."""
    return {name: keys(inner) for name, inner in value.items()} if isinstance(value, dict) else None


@pytest.mark.parametrize(
    "reply",
    [
        streamed("hi", finish=None, done=False),
        streamed("hi", finish=None),
        streamed("hi", finish="length"),
        streamed("hi", finish="content_filter"),
        sse([chunk({"content": "hi"}), {"error": {"message": "out of memory"}}]),
        sse([chunk({"content": "hi"}), ("error", {"message": "x"}), chunk({}, "stop"), "data: [DONE]\n\n"]),
        sse([chunk({"content": "hi"}), chunk({}, "stop"), "data: {broken\n\n", "data: [DONE]\n\n"]),
        sse([*CALLING[:3], chunk({}, "tool_calls"), "data: [DONE]\n\n"]),
        streamed(finish="stop"),
        as_json(said(choices=[])),
        as_json(said(), status=500),
        as_json(said(), status=203),
        as_json({"error": {"message": "no"}}),
        as_json(said(choices=[{"index": 0, "message": {"content": "hi"}, "finish_reason": "length"}])),
        as_json(said(choices=[{"index": 0, "message": {"content": "hi"}, "finish_reason": None}])),
        body("<html>busy</html>", content_type="text/html"),
    ],
    ids=[
        "no finish", "done without finish", "length", "filtered", "error at the end", "error in between",
        "broken event", "cut arguments", "nothing said", "no choice", "500", "203", "error with 200",
        "whole length", "whole without finish", "page",
    ],
)  # fmt: skip
def test_r81_what_is_not_complete_is_not_stored(caching: Caching, reply: Reply) -> None:
    """The next one is asked of the backend again, and its complete answer is stored."""
    caching.answer(reply, streamed("fine") if "stream" in str(reply.headers) else as_json(said("fine")))
    question = chat(stream="stream" in str(reply.headers))
    assert caching.verdicts(question, question, question) == ["miss", "miss", "hit"]
    assert b"fine" in caching.ask(question).body


def test_r81_every_choice_has_to_be_complete(caching: Caching) -> None:
    """One of two was cut."""
    two = [
        {"index": i, "message": {"content": "x"}, "finish_reason": f}
        for i, f in enumerate(["stop", "length"])
    ]
    caching.answer(as_json(said(choices=two)))
    assert caching.verdicts(chat(n=2), chat(n=2)) == ["miss", "miss"]
    caching.answer(as_json(said()))
    assert caching.verdicts(chat(n=3), chat(n=3)) == ["miss", "miss"]


def test_r81_a_client_that_leaves_in_between_leaves_nothing(caching: Caching) -> None:
    """Half an answer is none."""
    words = [chunk({"content": "word "})] * 40
    caching.answer(sse([*words, chunk({}, "stop"), "data: [DONE]\n\n"], gap=0.02), streamed("fine"))
    raw = json.dumps({"model": caching.model, **chat(stream=True)}).encode()
    with caching.proxy.client() as client:
        client.send("POST", CHAT, raw)
        client.head()
    time.sleep(0.3)
    assert caching.ask(chat(stream=True)).ours["cache"] == "miss"


@pytest.mark.parametrize("stop", ["length", "load", None])
def test_r81_ollama_ends_by_itself_or_not_at_all(caching: Caching, stop: str | None) -> None:
    """Lines that stop for another reason, or never, are not stored."""
    last = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": stop}
    line = {"message": {"role": "assistant", "content": "hi"}, "done": False}
    caching.answer(ndjson([line, last] if stop else [line]))
    assert caching.verdicts(chat(), chat(), path=OLLAMA) == ["miss", "miss"]


@pytest.mark.parametrize("reason", ["max_tokens", "pause_turn", "refusal", None])
def test_r81_anthropic_ends_its_turn_or_not_at_all(caching: Caching, reason: str | None) -> None:
    """A paused or refused turn is none that an equal request should get."""
    made = {"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": reason}
    caching.answer(as_json(made))
    question = {**chat(), "max_tokens": 5}
    assert caching.verdicts(question, question, path=MESSAGES) == ["miss", "miss"]


def test_r81_responses_complete_as_a_whole(caching: Caching) -> None:
    """An incomplete response is none."""
    item = {"type": "message", "status": "completed", "content": [{"type": "output_text", "text": "hi"}]}
    for status in ("incomplete", "failed", "in_progress"):
        caching.answer(as_json({"object": "response", "status": status, "output": [item]}))
        assert caching.verdicts({"input": "q"}, {"input": "q"}, path=RESPONSES) == ["miss", "miss"]


def test_a_compressed_answer_is_kept_plain(caching: Caching) -> None:
    """The next client may not understand the encoding."""
    raw = json.dumps(said("zip " * 500)).encode()
    headers = [("Content-Encoding", "gzip")]
    caching.answer(body(gzip.compress(raw), content_type="application/json", headers=headers))
    first, second = caching.ask(chat()), caching.ask(chat())
    assert gzip.decompress(first.body) == raw
    assert (second.ours["cache"], second.header("content-encoding"), second.body) == ("hit", None, raw)


def test_an_answer_in_an_encoding_that_nobody_can_read_is_not_kept(caching: Caching) -> None:
    """It passes as ever."""
    headers = [("Content-Encoding", "br")]
    caching.answer(body(b"\x0b\x02", content_type="application/json", headers=headers))
    assert caching.verdicts(chat(), chat()) == ["miss", "miss"]


def test_a_character_cut_in_two_is_whole_again(caching: Caching) -> None:
    """Two deltas had half of it each."""
    caching.answer(
        sse(
            [
                'data: {"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}\n\n',
                'data: {"choices":[{"index":0,"delta":{"content":"\\ude00b"}}]}\n\n',
                chunk({}, "stop"),
                "data: [DONE]\n\n",
            ]
        )
    )
    caching.ask(chat(stream=True))
    assert json.loads(caching.ask(chat()).body)["choices"][0]["message"]["content"] == "a😀b"
