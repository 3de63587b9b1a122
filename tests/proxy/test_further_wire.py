"""Cases from the field once more, with further inputs: streams, pings, options, preflights."""

import itertools
import json
import time
from typing import Any

import pytest

from tests.support.backend import Backend, Received, Reply, as_json, body, sse
from tests.support.http import Answer
from tests.support.proxy import StartProxy, Wire

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
JSON = [("Content-Type", "application/json")]
NDJSON = [("Content-Type", "application/x-ndjson")]
SSE = [("Content-Type", "text/event-stream; charset=utf-8")]
SAID = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
DONE = "data: [DONE]\n\n"


def asked(**more: Any) -> bytes:
    """A request with a text of its own, so that no test meets another's conversation."""
    text = f"further {time.monotonic_ns()}"
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], **more}).encode()


def post(wire: Wire, path: str, sent: bytes, headers: list[tuple[str, str]] | None = None) -> Answer:
    """Send a body as JSON."""
    return wire.proxy.request("POST", path, sent, [*JSON, *(headers or [])])


def cut(data: bytes, cuts: list[int], headers: list[tuple[str, str]], gap: float = 0.0) -> Reply:
    """`data` in one chunked answer, cut at `cuts`, `gap` seconds apart."""
    pieces = [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)]) if a < b]
    writes = [(gap if i else 0.0, piece) for i, piece in enumerate(pieces)]
    return Reply(headers=headers, writes=writes, framing="chunked")


LAST = {
    "message": {"content": ""},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 31,
    "eval_count": 7,
}
COUNTS = {"prompt_eval_count": 31, "eval_count": 7}
LINES = b"\n".join(
    [
        b'{"message":{"role":"assistant","content":"Gr\xc3\xbc\xc3\x9fe, \\"Welt\\"\\n"},"done":false}\r\n',
        b'{"model":"m","message":{"role":"assistant","content":"\\u65e5{}]"},"done":false}',
        json.dumps({"message": {}, "done": True, "done_reason": "stop", **COUNTS}).encode(),
    ]
)


def test_lines_cut_anywhere_are_relayed_and_read(wire: Wire) -> None:
    """R43: CRLF and empty lines, a last line without its end, and cuts inside characters and escapes."""
    hashes = set()
    for step in (1, 2, 3, 7, 61, 100_000):
        wire.answer(cut(LINES, list(range(step, len(LINES), step)), NDJSON))
        answer = post(wire, "/api/chat", asked())
        assert (answer.body, answer.broken) == (LINES, False)
        row = wire.proxy.row(answer)
        assert (row["status"], row["completion_tokens"], row["prompt_tokens"]) == ("completed", 7, 31)
        assert (row["streamed_deltas"], row["finish_reason"]) == (2, "stop")
        hashes.add(row["output_hash"])
    assert len(hashes) == 1


EVENTS = [
    b'data: {"choices":[{"delta":{"content":"a"},"index":0}]}',
    b'data: {"choices":[{"delta":{},"finish_reason":"stop","index":0}],"usage":{"completion_tokens":5}}',
    b"data: [DONE]",
    b"",
]
LOADED = b'{"response":"a","done":false}\n{"response":"","done":true,"eval_count":5}\n'


@pytest.mark.parametrize(
    ("path", "kind", "data", "tokens"),
    [
        ("/api/generate", "text/plain", LOADED, 5),
        ("/api/chat", "application/json; charset=utf-8", LINES, 7),
        (CHAT, "application/octet-stream", b"\r\r".join(EVENTS), 5),
        (CHAT, "application/x-ndjson", b"\n\n".join(EVENTS).replace(b"data: ", b"data:"), 5),
    ],
)
def test_the_media_type_does_not_decide_what_is_read(
    wire: Wire, path: str, kind: str, data: bytes, tokens: int
) -> None:
    """R45: content-type untouched, streamed as it comes, no byte inserted, counters read by framing."""
    wire.answer(cut(data, [len(data) // 2], [("Content-Type", kind)], gap=0.15))
    answer = post(wire, path, asked(stream=True))
    assert answer.all("content-type") == [kind]
    assert answer.body == data
    assert answer.pieces[-1][0] - answer.pieces[0][0] > 0.1
    row = wire.proxy.row(answer)
    assert (row["status"], row["completion_tokens"]) == ("completed", tokens)


def test_a_page_where_a_stream_was_due_is_relayed(wire: Wire) -> None:
    """R45: HTML under 200, as a captive portal answers; it is no complete generation."""
    page = b"<html><body>Sign in</body></html>"
    wire.answer(body(page, content_type="text/html"))
    answer = post(wire, CHAT, asked(stream=True))
    assert answer.body == page
    assert wire.proxy.row(answer)["status"] == "incomplete"


def test_comments_before_the_first_event_pass_at_once_and_are_no_token(wire: Wire) -> None:
    """R48: bare colons, named comments, `data:` of nothing, an id alone; the first token is the delta."""
    quiet = ":\n\n: processing 12%\r\n\r\ndata: \n\nid: 7\nretry: 100\n\n"
    role = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    reply = sse([quiet, role, SAID, ": late\n\n", DONE])
    reply.writes = [(gap, data) for gap, (_, data) in zip((0.05, 0.1, 0.25, 0, 0), reply.writes, strict=True)]
    wire.answer(reply)
    begun = time.monotonic()
    answer = post(wire, CHAT, asked(stream=True))
    assert answer.body == b"".join(data for _, data in reply.writes)
    assert answer.pieces[0][0] - begun < 0.35
    row = wire.proxy.row(answer)
    assert row["ttft_ms"] >= 380
    assert (row["status"], row["streamed_deltas"]) == ("completed", 1)
    assert "ttft-ms" not in answer.ours


def test_anthropic_pings_before_between_and_after_are_no_token(wire: Wire) -> None:
    """R48: pings on /v1/messages, with their data over several lines."""
    ping = 'event: ping\ndata: {\ndata: "type":"ping"}\n\n'
    usage = {"input_tokens": 9, "cache_read_input_tokens": 90, "output_tokens": 1}
    events: list[Any] = [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    reply = sse([ping, *[(event["type"], event) for event in events[:2]], ping, ping])
    rest = sse([*[(event["type"], event) for event in events[2:]], ping], first=0.4)
    reply.writes += rest.writes
    wire.answer(reply)
    answer = post(wire, "/v1/messages", asked(stream=True, max_tokens=9))
    assert answer.body == b"".join(data for _, data in reply.writes)
    row = wire.proxy.row(answer)
    assert row["ttft_ms"] >= 380
    assert (row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"]) == (99, 90, 4)


@pytest.mark.parametrize(
    "options",
    [
        b'"stream":true',
        b' "stream" :true , "stream_options":null',
        b'"stream":true,"stream_options":{"include_usage":false}',
        b'"stream_options":{"include_usage":true},"stream":true',
        b'"stream":false,"stream_options":{"include_usage":true}',
        b'"stream":"yes","stream_options":[1]',
    ],
)
def test_stream_options_are_the_clients(wire: Wire, options: bytes) -> None:
    """R49, R51: absent, null, false, true, contradicting and malformed, each forwarded as received."""
    usage = {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 1}}

    def choose(received: Received) -> Reply:
        request = received.json()
        if request["stream"] is not True:
            return as_json(usage)
        wanted = (request.get("stream_options") or {}).get("include_usage")
        return sse([SAID, usage, DONE] if wanted else [SAID, DONE])

    wire.backend.answer(choose, CHAT)
    sent = asked()[:-1] + b"," + options + b"}"
    answer = post(wire, CHAT, sent)
    assert [received.body for received in wire.received] == [sent]
    reported = b'"usage"' in answer.body
    assert reported == (not options.startswith(b'"stream":true') and b"null" not in options)
    row = wire.proxy.row(answer)
    assert row.get("prompt_tokens") == (2 if reported else None)


def test_headers_of_a_silent_stream_leave_before_its_first_byte(wire: Wire) -> None:
    """R54: a client that waits for headers gets them while the engine still prefills."""
    wire.answer(sse([SAID, DONE], first=1.8))
    with wire.proxy.client() as client:
        begun = time.monotonic()
        client.send("POST", CHAT, asked(stream=True), JSON)
        head = client.head()
        assert head.status == 200
        assert head.head_at - begun < 1.6


def test_a_client_that_gives_up_is_told_apart_and_frees_the_backend(wire: Wire) -> None:
    """R54: the proxy waits as long as the client does; the row says that it was the client who left."""
    wire.answer(Reply(writes=[(20.0, b"{}")], head_delay=20.0))
    sent = asked(stream=False, max_tokens=54)
    with wire.proxy.client() as client:
        client.send("POST", CHAT, sent, JSON)
        time.sleep(1.0)
    left = time.monotonic()
    wire.backend.wait(lambda: bool(wire.received) and wire.received[0].gone_at is not None, 2)
    gone_at = wire.received[0].gone_at
    assert gone_at is not None
    assert gone_at - left < 0.5
    size = len(sent)
    row = wire.proxy.wait_rows(1, lambda row: row["total_ms"] > 900 and row["request_bytes"] == size)[0]
    assert row["status"] == "client_cancelled"
    assert "http_status" not in row


def test_a_retry_after_leaving_names_what_it_retries(start_proxy: StartProxy, backend: Backend) -> None:
    """R55: same bytes 0.1 s after the first was left: one active at a time, `retry_of` in the causes."""
    proxy = start_proxy()
    for path in (CHAT, "/api/chat", "/v1/messages"):
        backend.answer(Reply(writes=[(9.0, b"{}")], head_delay=9.0), path)  # the proxy asks things too
        sent = asked(stream=False, max_tokens=5)
        with proxy.client() as client:
            client.send("POST", path, sent, JSON)
            backend.wait(lambda path=path: any(r.path == path and r.complete for r in backend.requests))
            time.sleep(0.3)
        backend.answer(as_json({"message": {"role": "assistant", "content": "x"}, "done": True}), path)
        time.sleep(0.1)
        assert proxy.request("POST", path, sent, JSON).status == 200
        first, second = proxy.wait_rows(2, lambda row, path=path: row["endpoint"] == path)
        assert first["status"] == "client_cancelled"
        assert (second["relation"], second["parent_id"]) == ("exact_repeat", first["id"])
        assert [cause["code"] for cause in second["causes"]].count("retry_of") == 1
        tried, retried = [r for r in backend.requests if r.path == path]
        assert tried.gone_at is not None
        assert tried.gone_at <= retried.at


def test_preflights_are_the_backends_to_answer(wire: Wire) -> None:
    """R66: OPTIONS with a foreign Origin reaches the backend; its CORS headers come back once and alone."""
    cors = [
        ("Access-Control-Allow-Origin", "https://ui.example"),
        ("Access-Control-Allow-Headers", "authorization,x-title"),
        ("Access-Control-Max-Age", "600"),
    ]
    varies = [("Vary", "Origin"), ("Vary", "Access-Control-Request-Headers")]
    wire.answer(Reply(status=204, headers=[*cors, *varies], framing="none"))
    asks = [
        ("Origin", "https://ui.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,x-title"),
    ]
    answer = wire.proxy.request("OPTIONS", CHAT, headers=asks)
    assert answer.status == 204
    assert [(name, answer.all(name)) for name, _ in cors] == [(name, [value]) for name, value in cors]
    assert answer.all("vary") == [value for _, value in varies]
    assert answer.header("access-control-expose-headers") is None
    assert [wire.received[0].header(name) for name, _ in asks] == [value for _, value in asks]
    exposed = [cors[0], ("Access-Control-Expose-Headers", "x-other")]
    wire.answer(sse([SAID, DONE], first=0.3, headers=exposed))
    answer = post(wire, CHAT, asked(stream=True), asks[:1])
    assert [(name, answer.all(name)) for name, _ in exposed] == [(name, [value]) for name, value in exposed]


def test_a_preflight_needs_no_token(start_proxy: StartProxy, backend: Backend) -> None:
    """R66: a browser sends no key with OPTIONS; the POST behind it still needs one."""
    backend.answer(Reply(status=200, headers=[("Access-Control-Allow-Origin", "*")]))
    proxy = start_proxy(token="second-hand-token")
    asks = [("Origin", "app://obsidian"), ("Access-Control-Request-Method", "POST")]
    allowed = proxy.request("OPTIONS", "/v1/messages", headers=asks)
    assert allowed.header("access-control-allow-origin") == "*"
    assert proxy.request("POST", "/v1/messages", asked(), asks[:1]).status == 401


TRUNCATED: dict[str, list[Any]] = {
    CHAT: [{"choices": [{"delta": {"content": "one"}}]}, {"choices": [{"delta": {}, "finish_reason": None}]}],
    "/api/chat": ['{"message":{"content":"one"},"done":false}\n{"message":{"content":""},"done":false}\n'],
    "/v1/messages": [{"type": "content_block_delta", "index": 0, "delta": {"text": "one"}}],
    "/v1/responses": [{"type": "response.output_text.delta", "delta": "one"}],
    "/completion": [{"content": "one", "stop": False}],
}


@pytest.mark.parametrize("path", TRUNCATED)
@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_a_stream_without_its_terminal_mark_is_incomplete(wire: Wire, path: str, framing: Any) -> None:
    """R72: nothing is added, and the row does not say completed."""
    reply = sse(TRUNCATED[path], framing=framing)
    wire.answer(reply)
    answer = post(wire, path, asked(stream=True, prompt="p", input="i"))
    assert (answer.body, answer.broken) == (b"".join(data for _, data in reply.writes), False)
    row = wire.proxy.row(answer)
    assert row["status"] == "incomplete"
    assert not {"finish_reason", "completion_tokens"} & set(row)
