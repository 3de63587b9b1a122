"""The headers that the proxy adds: which, when, and in which form. The contract in one place."""

import json
import re
from typing import Any

import pytest

from tests.support.backend import Reply, as_json, body, ndjson, sse
from tests.support.proxy import Wire

pytestmark = pytest.mark.process

ALWAYS = {"request-id", "hit", "reuse", "reused-chunks", "chunks", "session", "cache"}
UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
TOOLS = [
    {
        "type": "function",
        "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}},
    }
]
SYSTEM = {"role": "system", "content": "You are a careful assistant that answers briefly. " * 8}


def chat(
    model: str, *turns: str, stream: bool = True, tools: bool = True, system: bool = True
) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [SYSTEM] if system else []
    messages += [{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)]
    return {"model": model, "stream": stream, "messages": messages, **({"tools": TOOLS} if tools else {})}


def streamed(cached: int | None = None) -> Reply:
    usage: dict[str, Any] = {"prompt_tokens": 200, "completion_tokens": 1}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    token = {"choices": [{"index": 0, "delta": {"content": "ok"}}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    return sse([token, end, "data: [DONE]\n\n"], gap=0.05)


def whole(cached: int | None = None) -> Reply:
    usage: dict[str, Any] = {"prompt_tokens": 200, "completion_tokens": 1}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    return as_json({"choices": [choice], "usage": usage})


def test_the_verdicts_of_a_conversation_and_its_neighbours(wire: Wire) -> None:
    """First, next turn, repeat, another session with equal head, and one with equal tools alone."""
    wire.answer(streamed())
    turns = ("hello there, please read the file", "ok", "and now the other one")

    first = wire.proxy.chat(chat("verdicts", turns[0]))
    second = wire.proxy.chat(chat("verdicts", *turns))
    again = wire.proxy.chat(chat("verdicts", *turns))
    neighbour = wire.proxy.chat(chat("verdicts", "something else entirely"))
    alone = wire.proxy.chat(chat("verdicts", "a third beginning", system=False))

    assert [a.ours["hit"] for a in (first, second, again, neighbour, alone)] == [
        "none", "prefix", "exact", "system+tools", "tools_only",
    ]  # fmt: skip
    assert second.ours["session"] == first.ours["session"] != neighbour.ours["session"]
    assert (second.ours["reused-chunks"], second.ours["chunks"]) == ("3", "5")
    rows = [wire.proxy.row(a) for a in (first, second, again)]
    assert [row["relation"] for row in rows] == ["first", "append", "exact_repeat"]
    for answer, row in zip((first, second, again), rows, strict=True):
        assert answer.ours["hit"] == row["hit"]
        assert answer.ours["session"] == row["session"]
        assert float(answer.ours["reuse"]) == row["predicted_reuse"]


@pytest.mark.parametrize("stream", [True, False])
def test_each_added_header_has_its_form(wire: Wire, stream: bool) -> None:
    """Ids are UUIDv7, reuse has four decimals, counts are integers; these headers and no others are added."""
    wire.answer(streamed(20) if stream else whole(20))

    answer = wire.proxy.chat(chat(f"forms-{stream}", f"words of forms {stream}", stream=stream))

    ours = answer.ours
    assert UUID7.match(ours["request-id"])
    assert re.fullmatch(r"[01]\.\d{4}", ours["reuse"])
    assert ours["chunks"] == "3"
    assert ours["reused-chunks"] == "0"
    assert ours["cache"] == "bypass:off"
    extra = {"ttft-ms"} if stream else {"cached-tokens"}
    assert set(ours) == ALWAYS | extra
    if not stream:
        assert ours["cached-tokens"] == "20"
    sent = {name.lower() for name, _ in (streamed() if stream else whole()).headers}
    own = {f"x-metalanchor-{name}" for name in ours}
    # `date` and `server` are filled in by the HTTP layer where a backend sends none (docs/architecture.md).
    framing = {"transfer-encoding"} if stream else {"content-length"}
    assert {name.lower() for name, _ in answer.headers} == sent | own | framing | {"date", "server"}


def test_the_backends_date_and_server_are_kept(wire: Wire) -> None:
    """Where the backend sends them, they are the backend's."""
    wire.answer(body("x", headers=[("Date", "Mon, 01 Jan 2024 00:00:00 GMT"), ("Server", "llama.cpp")]))

    answer = wire.proxy.request("GET", "/x")

    assert answer.all("date") == ["Mon, 01 Jan 2024 00:00:00 GMT"]
    assert answer.all("server") == ["llama.cpp"]


def test_cached_tokens_zero_is_said_and_unknown_is_not(wire: Wire) -> None:
    """A reported zero is a figure; an unreported count has no header."""
    wire.answer(whole(0), whole(None))

    zero = wire.proxy.chat(chat("counts", "one", stream=False))
    unknown = wire.proxy.chat(chat("counts", "two", stream=False))

    assert zero.ours["cached-tokens"] == "0"
    assert "cached-tokens" not in unknown.ours


def test_a_break_is_named_in_the_header(wire: Wire) -> None:
    """A clock in the system prompt is the cause, in the header as in the row."""
    wire.answer(streamed())
    made = [chat("clock", "hello", "ok", "next"), chat("clock", "hello")]
    for value, clock in zip(made, ("10:01:02", "10:02:07"), strict=True):
        value["messages"][0] = {"role": "system", "content": f"Now: 2026-01-02 {clock}. " + SYSTEM["content"]}

    wire.proxy.chat(made[1], [("X-MetalAnchor-Session", "clock")])
    answer = wire.proxy.chat(made[0], [("X-MetalAnchor-Session", "clock")])

    row = wire.proxy.row(answer)
    assert answer.ours["cause"] == row["cause"] == "timestamp"
    assert row["diverged_at"] == "system"


def test_an_unstreamed_answer_says_ttft_where_the_backend_tells_it(wire: Wire) -> None:
    """Load and prefill times of an Ollama answer make its time to first token; others have none."""
    ends = {
        "done": True,
        "done_reason": "stop",
        "load_duration": 5_000_000,
        "prompt_eval_duration": 20_000_000,
    }
    value = {"model": "m", "message": {"role": "assistant", "content": "ok"}, **ends, "prompt_eval_count": 9}
    wire.answer(as_json(value))

    answer = wire.proxy.chat(chat("told", "hello", stream=False, tools=False), path="/api/chat")

    assert answer.ours["ttft-ms"] == "25"


def test_a_stream_that_begins_with_a_comment_has_no_ttft_yet(wire: Wire) -> None:
    """The header is there only when the first token came with or before the first byte."""
    token = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    wire.answer(sse([": waiting\n\n", token], gap=0.1))

    answer = wire.proxy.chat(chat("comment", "hello"))

    assert "ttft-ms" not in answer.ours
    assert wire.proxy.row(answer)["ttft_ms"] > 90


@pytest.mark.parametrize(
    "path", ["/api/chat", "/api/generate", "/v1/messages", "/v1/responses", "/v1/completions", "/completion"]
)
def test_every_generation_route_has_its_verdict(wire: Wire, path: str) -> None:
    """Each dialect's requests are placed, and an identical one is an exact hit."""
    value = chat(f"route{path}", "hello") | {"prompt": "hello there " * 9, "input": "hello", "max_tokens": 4}
    wire.answer(ndjson([{"done": True}]) if path.startswith("/api") else sse([{"x": 1}]))

    first, again = wire.proxy.chat(value, path=path), wire.proxy.chat(value, path=path)

    assert first.ours["hit"] == "none"
    assert again.ours["hit"] == "exact"
    assert again.ours["reuse"] == "1.0000"
    assert wire.proxy.row(again)["kind"] == "generation"


@pytest.mark.parametrize("path", ["/v1/embeddings", "/api/embed"])
def test_an_embedding_has_an_id_and_no_verdict(wire: Wire, path: str) -> None:
    """Embeddings are in the log and the timeline; there is no prefix to judge."""
    wire.answer(as_json({"data": [{"embedding": [0.1]}], "embeddings": [[0.1]]}))

    answer = wire.proxy.chat({"model": "e", "input": "text"}, path=path)

    assert "hit" not in answer.ours
    row = wire.proxy.row(answer)
    assert (row["kind"], row["status"]) == ("embedding", "completed")


def test_other_routes_carry_the_id_alone(wire: Wire) -> None:
    """Whatever is not analysed gets the one header by which its row is found."""
    answer = wire.proxy.request("GET", "/api/tags")

    assert set(answer.ours) == {"request-id"}
    row = wire.proxy.row(answer)
    assert (row["endpoint"], row["kind"]) == ("/api/tags", "management")


@pytest.mark.parametrize("session", ["user@example.org", "x" * 200, "a b", "日本", 'quo"te', "a\\b"])
def test_odd_session_names_become_their_hash(wire: Wire, session: str) -> None:
    """What goes into headers and rows is harmless, whatever the client calls its session."""
    wire.answer(streamed())
    raw = json.dumps(chat("odd", "hello")).encode()

    name = session.encode().decode("latin-1")
    answer = wire.proxy.request("POST", "/v1/chat/completions", raw, [("X-MetalAnchor-Session", name)])

    assert re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", answer.ours["session"])
    assert answer.ours["session"] not in session
    assert wire.proxy.row(answer)["session"] == answer.ours["session"]


def test_ids_rise_within_a_process(wire: Wire) -> None:
    """Lists order by id, so ids order by arrival."""
    ids = [wire.proxy.request("GET", "/x").ours["request-id"] for _ in range(20)]

    assert ids == sorted(ids)
    assert len(set(ids)) == 20
