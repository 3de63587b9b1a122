"""Cases R76 to R83 once more, with further inputs, and by the official clients."""

import base64
import json
from typing import Any

import anthropic
import ollama
import openai
import pytest

from tests.support.backend import Received, Reply, as_json, body, ndjson, sse
from tests.support.caching import (
    CHAT,
    GENERATE,
    MESSAGES,
    OLLAMA,
    RESPONSES,
    Caching,
    chat,
    chunk,
    said,
    streamed,
)
from tests.support.rows import wait_for

pytestmark = pytest.mark.process

DONE = "data: [DONE]\n\n"
USAGE = {"prompt_tokens": 31, "completion_tokens": 9, "total_tokens": 40,
         "prompt_tokens_details": {"cached_tokens": 16}}  # fmt: skip
ASKED: list[Any] = [{"role": "user", "content": "Lies die Datei. 读文件 📄"}]


def clients(caching: Caching, key: str = "sk-a") -> tuple[openai.OpenAI, anthropic.Anthropic]:
    """Both, with one credential."""
    url = caching.proxy.url
    return (
        openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0),
        anthropic.Anthropic(base_url=url, api_key=key, max_retries=0),
    )


def either(streamed_as: Reply, whole: Reply) -> Any:
    """A backend that answers in the form it is asked for."""

    def answer(received: Received) -> Reply:
        if received.method == "GET":
            return body("", status=404)
        return streamed_as if received.json().get("stream") else whole

    return answer


def deltas(*parts: dict[str, Any], finish: str) -> Reply:
    """A stream of chat completions with its usage."""
    return sse([*(chunk(part) for part in parts), chunk({}, finish), chunk(usage=USAGE), DONE])


def tool(index: int, arguments: str, name: str | None = None) -> dict[str, Any]:
    """A delta of a call."""
    head = {"id": f"call_{index}", "type": "function"} if name else {}
    named = {"name": name} if name else {}
    return {"tool_calls": [{"index": index, **head, "function": {**named, "arguments": arguments}}]}


def gathered(stream: Any) -> tuple[str, dict[int, str], Any]:
    """Text, arguments by index and usage of a stream as the client reads it."""
    text, calls, usage = "", {}, None
    for piece in stream:
        usage = piece.usage or usage
        for choice in piece.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                calls[call.index] = calls.get(call.index, "") + (call.function.arguments or "")
    return text, calls, usage


def test_r80_the_openai_client_reads_calls_and_usage_of_either_form(caching: Caching) -> None:
    """Calls that come interleaved, with text before them, and a cached count in the usage."""
    caching.answer(
        deltas({"role": "assistant", "content": "Ich "}, {"content": "lese 📄"}, tool(0, "", "read"),
               tool(1, '{"q":', "find"), tool(0, '{"path":"a\\u00e4"}'), tool(1, '"文"}'),
               finish="tool_calls")
    )  # fmt: skip
    client, other = clients(caching)
    asking: dict[str, Any] = {"model": caching.model, "messages": ASKED}
    wish = {"stream": True, "stream_options": {"include_usage": True}}
    first = gathered(client.chat.completions.create(**asking, **wish))
    again = gathered(client.chat.completions.create(**asking, **wish))
    whole = client.chat.completions.with_raw_response.create(**asking)
    assert whole.headers["x-metalanchor-cache"] == "hit"
    message = whole.parse().choices[0].message
    assert again == first
    assert (again[0], again[1]) == ("Ich lese 📄", {0: '{"path":"a\\u00e4"}', 1: '{"q":"文"}'})
    assert message.content == "Ich lese 📄"
    assert [call.function.name for call in message.tool_calls] == ["read", "find"]
    assert [json.loads(call.function.arguments) for call in message.tool_calls] == [
        {"path": "aä"},
        {"q": "文"},
    ]
    assert (
        whole.parse().usage.prompt_tokens_details.cached_tokens
        == again[2].prompt_tokens_details.cached_tokens
        == 16
    )
    assert len(caching.calls) == 1
    client.close()
    other.close()


BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Hm, 一下.", "signature": "c2lnbmVk"},
    {"type": "text", "text": "Ich lese."},
    {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "ä", "deep": {"n": [1, 2.5]}}},
    {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
]
MESSAGE: dict[str, Any] = {
    "id": "msg_7", "type": "message", "role": "assistant", "model": "claude-x", "content": BLOCKS,
    "stop_reason": "tool_use", "stop_sequence": None,
    "usage": {"input_tokens": 3, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 10,
              "output_tokens": 12},
}  # fmt: skip


def as_events(message: dict[str, Any]) -> Reply:
    """The stream that amounts to a message, each delta cut in two."""
    head = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": head}, {"type": "ping"}]
    for index, block in enumerate(message["content"]):
        kind = block["type"]
        start = {
            "thinking": {"thinking": "", "signature": ""},
            "text": {"text": ""},
            "tool_use": {"input": {}},
        }
        events.append({"type": "content_block_start", "index": index, "content_block": block | start[kind]})
        name, text = {"thinking": ("thinking", block.get("thinking")), "text": ("text", block.get("text")),
                      "tool_use": ("input_json", json.dumps(block.get("input"), ensure_ascii=False)),
                      }[kind]  # fmt: skip
        member = "partial_json" if name == "input_json" else name
        for part in (text[: len(text) // 2], text[len(text) // 2 :]) if block.get("input") != {} else ():
            delta = {"type": f"{name}_delta", member: part}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        if kind == "thinking":
            delta = {"type": "signature_delta", "signature": block["signature"]}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ends = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ends, "usage": {"output_tokens": 12}})
    return sse([(event["type"], event) for event in [*events, {"type": "message_stop"}]])


@pytest.mark.parametrize("first", ["stream", "whole"])
def test_r80_the_anthropic_client_reads_thinking_calls_and_usage_of_either_form(
    caching: Caching, first: str
) -> None:
    """Whichever form was stored, both add up to the message, signature and empty input included."""
    caching.backend.answer(either(as_events(MESSAGE), as_json(MESSAGE)))
    other, client = clients(caching)
    asking: dict[str, Any] = {"model": caching.model, "messages": ASKED, "max_tokens": 2048}

    def whole() -> Any:
        return client.messages.create(**asking)

    def stream() -> Any:
        with client.messages.stream(**asking) as events:
            return events.get_final_message()

    ways = [stream, whole] if first == "stream" else [whole, stream]
    messages = [way() for way in [*ways, *ways]]
    for message in messages:
        told = message.model_dump(exclude_none=True)
        assert [
            {name: block[name] for name in want} for block, want in zip(told["content"], BLOCKS, strict=True)
        ] == BLOCKS
        assert (message.stop_reason, message.id) == ("tool_use", "msg_7")
        assert {name: told["usage"][name] for name in MESSAGE["usage"]} == MESSAGE["usage"]
    assert len(caching.calls) == 1
    client.close()
    other.close()


@pytest.mark.parametrize("first", [True, False])
def test_r80_the_ollama_client_reads_thinking_calls_and_counters_of_either_form(
    caching: Caching, *, first: bool
) -> None:
    """Lines add up to the answer in one piece."""
    call = {"function": {"name": "read", "arguments": {"path": "ä"}}}
    counters = {
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 31,
        "eval_count": 9,
        "total_duration": 5,
    }
    base = {"model": caching.model, "created_at": "2026-01-01T00:00:00Z"}
    parts = [
        {"thinking": "Hm"},
        {"thinking": ", 一"},
        {"content": "Ich "},
        {"content": "lese"},
        {"tool_calls": [call]},
    ]
    lines = [
        {**base, "message": {"role": "assistant", "content": "", **part}, "done": False} for part in parts
    ]
    lines.append({**base, "message": {"role": "assistant", "content": ""}, **counters})
    message = {"role": "assistant", "content": "Ich lese", "thinking": "Hm, 一", "tool_calls": [call]}
    caching.backend.answer(either(ndjson(lines), as_json({**base, "message": message, **counters})))
    client = ollama.Client(host=caching.proxy.url)
    for streams in (first, not first, first):
        answer = client.chat(model=caching.model, messages=ASKED, stream=streams)
        pieces = list(answer) if streams else [answer]
        assert "".join(piece.message.content or "" for piece in pieces) == "Ich lese"
        assert "".join(piece.message.thinking or "" for piece in pieces) == "Hm, 一"
        calls = [one for piece in pieces for one in piece.message.tool_calls or []]
        assert [(one.function.name, one.function.arguments) for one in calls] == [("read", {"path": "ä"})]
        assert (pieces[-1].prompt_eval_count, pieces[-1].eval_count, pieces[-1].done_reason) == (
            31,
            9,
            "stop",
        )
    assert len(caching.calls) == 1
    client._client.close()


def test_r79_credentials_are_apart_in_every_client_and_one_is_one(caching: Caching) -> None:
    """A second key asks for itself; the first one's answer does not depend on the header that carried it."""
    caching.answer(as_json(said()))
    for key, calls in (("sk-a", 1), ("sk-b", 2), ("sk-a", 2), ("sk-A", 3)):
        client, other = clients(caching, key)
        client.chat.completions.create(model=caching.model, messages=ASKED)
        assert len(caching.calls) == calls
        client.close()
        other.close()
    tenant = {"messages": ASKED}
    for header, verdict in (("X-Tenant", "miss"), ("Cookie", "miss"), ("X-MetalAnchor-Namespace", "miss")):
        assert caching.ask(tenant, headers=[(header, "t1")]).ours["cache"] in {verdict, "hit"}
    mine = [("X-Api-Key", "sk-a")]
    assert caching.ask(tenant, headers=mine).ours["cache"] == "hit"


def test_only_if_cached_is_an_error_that_clients_raise(caching: Caching) -> None:
    """504, in the shape of each family; the backend is not asked. Once it is there, it is given."""
    client, other = clients(caching)
    only = {"X-MetalAnchor-Cache-Control": "only-if-cached"}
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model=caching.model, messages=ASKED, extra_headers=only)
    assert (caught.value.status_code, caching.calls) == (504, [])
    with pytest.raises(anthropic.InternalServerError):
        other.messages.create(model=caching.model, messages=ASKED, max_tokens=9, extra_headers=only)
    client.chat.completions.create(model=caching.model, messages=ASKED)
    client.chat.completions.create(model=caching.model, messages=ASKED, extra_headers=only)
    assert len(caching.calls) == 1
    client.close()
    other.close()


def test_r78_media_are_part_of_the_question(caching: Caching) -> None:
    """One byte of an image makes another one; the same image hits."""

    def seen(last: int, detail: str = "low") -> dict[str, Any]:
        url = "data:image/png;base64," + base64.b64encode(bytes(60) + bytes([last])).decode()
        image = {"type": "image_url", "image_url": {"url": url, "detail": detail}}
        return {"messages": [{"role": "user", "content": [{"type": "text", "text": "What?"}, image]}]}

    bodies = [seen(1), seen(2), seen(1, "high"), seen(1)]
    assert caching.verdicts(*bodies) == ["miss", "miss", "miss", "hit"]
    pictures = [
        {**chat("What?"), "messages": [{"role": "user", "content": "What?", "images": [one]}]}
        for one in ("aa==", "ab==")
    ]
    caching.answer(as_json({"message": {"content": "x"}, "done": True, "done_reason": "stop"}))
    assert caching.verdicts(*(one | {"stream": False} for one in [*pictures, pictures[0]]), path=OLLAMA) == [
        "miss",
        "miss",
        "hit",
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":{"c":[1,2],"d":null}}', '{ "b" : {"d":null, "c":[1, 2]}, "a":1}', True),
        ('{"a":"\\u00e4\\/"}', '{"a":"ä/"}', True),
        ('{"a":1.50}', '{"a":1.5}', True),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":1}', '{"a":1.0}', False),
        ('{"a":18446744073709551617}', '{"a":18446744073709551618}', False),
        ('{"a":"\\ud83d"}', '{"a":"\\ud83e"}', False),
        ('{"a":"\\\\ud83d"}', '{"a":"\\ud83d"}', False),
        ('{"a":"é"}', '{"a":"e\u0301"}', False),
        ('{"a":null}', "{}", False),
    ],
)  # fmt: skip
def test_r82_what_is_equal_is_equal_however_it_is_spelt(
    caching: Caching, one: str, other: str, *, same: bool
) -> None:
    """White space, escapes and the order of members are no difference; everything else is."""
    frame = '{"model":"%s","messages":[{"role":"user","content":"x"}],"options":%s}'
    asked = [(frame % (caching.model, each)).encode() for each in (one, other)]
    answers = [caching.proxy.request("POST", CHAT, each) for each in (asked[0], asked[0], asked[1])]
    assert [answer.ours["cache"] for answer in answers] == ["miss", "hit", "hit" if same else "miss"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
def test_r82_numbers_that_are_none_are_never_taken_for_each_other(caching: Caching, number: str) -> None:
    """They go to the backend as they came."""
    asked = b'{"model":"%b","messages":[],"prompt":"x","temperature":%b}' % (
        caching.model.encode(),
        number.encode(),
    )
    for _ in range(2):
        answer = caching.proxy.request("POST", "/v1/completions", asked)
        assert answer.ours["cache"] == "bypass:unparsed"
    assert [call.body for call in caching.calls] == [asked, asked]


def ended(reason: str | None, **more: Any) -> Reply:
    """A message of Anthropic's that ended so."""
    return as_json({**MESSAGE, "content": [{"type": "text", "text": "x"}], "stop_reason": reason} | more)


HALF_CALL = [chunk(tool(0, '{"path": "a', "read")), chunk({}, "tool_calls"), DONE]
TWO = [
    {"index": n, "message": {"role": "assistant", "content": "x"}, "finish_reason": f}
    for n, f in enumerate(("stop", "length"))
]


@pytest.mark.parametrize(
    ("path", "more", "reply"),
    [
        (MESSAGES, {}, ended("max_tokens")),
        (MESSAGES, {}, ended("refusal")),
        (MESSAGES, {}, ended("pause_turn")),
        (MESSAGES, {}, ended(None)),
        (MESSAGES, {}, ended("end_turn", content=[])),
        (MESSAGES, {"stream": True}, sse([
            ("message_start", {"type": "message_start", "message": {**MESSAGE, "content": []}}),
            ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})])),
        (CHAT, {"stream": True}, sse(HALF_CALL)),
        (CHAT, {"stream": True}, streamed("a", finish="content_filter")),
        (CHAT, {"stream": True}, streamed("a", finish=None)),
        (CHAT, {"stream": True},
         sse([chunk({"content": "a"}), {"error": {"message": "cuda"}}, chunk({}, "stop"), DONE])),
        (CHAT, {"n": 2}, as_json(said(choices=TWO))),
        (CHAT, {"n": 2}, as_json(said())),
        (CHAT, {}, as_json(said(""))),
        (CHAT, {}, as_json(said(), status=201)),
        (CHAT, {}, as_json({"error": {"message": "context"}})),
        (OLLAMA, {}, ndjson([{"message": {"content": "a"}, "done": True, "done_reason": "length"}])),
        (OLLAMA, {}, ndjson([{"message": {"content": "a"}, "done": False}])),
        (OLLAMA, {}, ndjson([{"message": {"content": "a"}, "done": False}, {"error": "runner stopped"}])),
        (GENERATE, {"prompt": "x"}, ndjson([{"response": "", "done": True, "done_reason": "load"}])),
        (RESPONSES, {"input": "x"}, as_json({"id": "r", "object": "response", "status": "incomplete"})),
    ],
)  # fmt: skip
def test_r81_what_is_not_whole_is_not_stored(
    caching: Caching, path: str, more: dict[str, Any], reply: Reply
) -> None:
    """The same request goes to the backend again."""
    caching.answer(reply)
    question = more if "prompt" in more or "input" in more else {**chat(), **more}
    assert caching.verdicts(question, question, path=path) == ["miss", "miss"]
    assert len(caching.calls) == 2


def dropped(caching: Caching, *, dry_run: bool, **selector: Any) -> int:
    """How many answers the API drops, or would."""
    sent = json.dumps({**selector, "dry_run": dry_run}).encode()
    headers = [("Content-Type", "application/json")]
    answer = caching.proxy.request("POST", "/metalanchor/api/cache/invalidate", sent, headers)
    assert answer.status == 200, answer.body
    return int(json.loads(answer.body)["count"])


def test_a_keyword_in_chinese_drops_what_says_it_and_nothing_else(caching: Caching) -> None:
    """In question or answer, in half or full width, of one character or several, streamed or whole."""
    caching.backend.answer(either(streamed("长江", "大桥很长"), as_json(said("Blauwale 蓝鲸 leben im Meer"))))
    bridge, whale, other = chat("南京的桥", stream=True), chat("最大的动物"), chat("桥南的京")
    assert caching.verdicts(bridge, whale, other) == ["miss"] * 3
    assert caching.verdicts(bridge, whale, other) == ["hit"] * 3
    mine = {"model": caching.model}
    assert dropped(caching, dry_run=True, keyword="江大", **mine) == 1
    assert dropped(caching, dry_run=True, keyword="京南", **mine) == 0
    assert dropped(caching, dry_run=True, keyword="桥", **mine) == 2
    assert dropped(caching, dry_run=True, keyword="ＢＬＡＵＷＡＬＥ", **mine) == 2
    assert dropped(caching, dry_run=False, keyword="南京", **mine) == 1
    assert caching.verdicts(bridge, whale, other) == ["miss", "hit", "hit"]
    assert dropped(caching, dry_run=False, keyword="蓝鲸 动物", **mine) == 1
    assert caching.verdicts(whale, other) == ["miss", "hit"]


def test_tags_namespaces_and_lives_are_each_answers_own(caching: Caching) -> None:
    """A tag of one answer, a namespace of one variant, a second of life."""
    assert caching.verdicts(chat("1"), control="tag=docs, tag=v2") == ["miss"]
    assert caching.verdicts(chat("2"), control="tag=docs") == ["miss"]
    assert caching.verdicts(chat("1"), control="namespace=b") == ["miss"]
    assert dropped(caching, dry_run=False, tag="v2", model=caching.model) == 1
    assert caching.verdicts(chat("2")) == ["hit"]
    assert caching.verdicts(chat("1"), control="namespace=b") == ["hit"]
    assert caching.verdicts(chat("3"), chat("3"), control="ttl=0") == ["miss", "miss"]
    assert caching.verdicts(chat("4"), chat("4"), control="ttl=1.5") == ["miss", "hit"]
    assert wait_for(lambda: caching.ask(chat("4"), control="only-if-cached").status == 504)


def test_r76_an_agents_step_is_not_taken_for_the_one_before(caching: Caching) -> None:
    """Through the client, with a result that differs by a digit, and by the call it belongs to."""
    client, other = clients(caching)

    def step(result: str, call: str = "toolu_1") -> str:
        use = {"type": "tool_use", "id": call, "name": "count", "input": {}}
        back = {"type": "tool_result", "tool_use_id": call, "content": result}
        turns: list[Any] = [
            *ASKED,
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [back]},
        ]
        raw = other.messages.with_raw_response.create(model=caching.model, messages=turns, max_tokens=9)
        return str(raw.headers["x-metalanchor-cache"])

    caching.answer(
        as_json({**MESSAGE, "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"})
    )
    assert [step("5 files"), step("6 files"), step("5 files", "toolu_2"), step("5 files")] == ["miss"] * 3 + [
        "hit"
    ]
    client.close()
    other.close()


def test_r83_a_hit_is_a_row_of_its_own_that_names_the_original(caching: Caching) -> None:
    """With what it saved, in either form, and in the sums."""
    caching.answer(deltas({"content": "hi"}, finish="stop"))
    wish = {"stream": True, "stream_options": {"include_usage": True}}
    before = caching.proxy.json("/api/cache/stats")
    first = caching.ask(chat("r83", **wish))
    hits = [caching.ask(chat("r83", **wish)), caching.ask(chat("r83"))]
    for hit in hits:
        row = caching.row(hit)
        assert (row["status"], row["answered_by"]) == ("response_cache", first.ours["request-id"])
        assert row["saved_tokens"] == 40
    after = caching.proxy.json("/api/cache/stats")
    assert after["hits"] - before["hits"] == 2
    assert after["saved_tokens"] - before["saved_tokens"] == 80
