"""Bodies keep their bytes and have one framing, in both directions; abrupt ends stay abrupt."""

import gzip
import hashlib
import json
import zlib

import pytest

from tests.support.backend import SILENT_CLOSE, SILENT_RESET, Reply, as_json, body, ndjson, sse
from tests.support.proxy import Wire

pytestmark = pytest.mark.process

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
DELTAS = [{"choices": [{"index": 0, "delta": {"content": c}}]} for c in "ab"]
PATHS = ["/v1/chat/completions", "/api/pull"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (body("seventeen letters"), b"seventeen letters"),
        (body("chunked", framing="chunked"), b"chunked"),
        (body("until close", framing="close"), b"until close"),
        (body("old protocol", framing="http1.0"), b"old protocol"),
        (Reply(status=204, framing="none"), b""),
        (Reply(status=304, framing="none", headers=[("ETag", '"a"')]), b""),
        (body("both", framing="chunked", headers=[("Content-Length", "4")]), b"both"),
        (body(""), b""),
    ],
    ids=["length", "chunked", "close", "http1.0", "204", "304", "both", "empty"],
)
def test_r61_every_framing_of_the_backend_becomes_one_of_ours(
    wire: Wire, path: str, reply: Reply, expected: bytes
) -> None:
    """Whatever ends the backend's body, the client reads the same body and finds one framing."""
    wire.answer(reply)

    with wire.proxy.client() as client:
        first = client.request("POST", path, json.dumps(CHAT).encode())
        again = client.request("POST", path, json.dumps(CHAT).encode())

    for answer in (first, again):
        assert (answer.status, answer.body, answer.broken) == (reply.status, expected, False)
        framings = answer.all("content-length") + answer.all("transfer-encoding")
        assert len(framings) == (0 if reply.status in {204, 304} else 1)
        names = [name.lower() for name, _ in answer.headers]
        assert len(names) == len(set(names))


def test_r61_head_keeps_its_length_and_has_no_body(wire: Wire) -> None:
    """HEAD with Content-Length 17 answers 17 and nothing more; the connection goes on."""
    wire.answer(body("seventeen letters"))

    with wire.proxy.client() as client:
        head = client.request("HEAD", "/")
        after = client.request("GET", "/")

    assert head.header("content-length") == "17"
    assert after.body == b"seventeen letters"
    assert [r.method for r in wire.received] == ["HEAD", "GET"]


def test_r61_hop_by_hop_headers_stay_on_their_hop(wire: Wire) -> None:
    """What belongs to one connection, and what Connection names, crosses in neither direction."""
    reply = body(
        "x", headers=[("Connection", "X-Private"), ("X-Private", "1"), ("Keep-Alive", "5"), ("X-Public", "2")]
    )
    wire.answer(reply)
    sent = [
        ("Connection", "keep-alive, X-Mine"),
        ("X-Mine", "1"),
        ("Keep-Alive", "1"),
        ("TE", "trailers"),
        ("X-Other", "3"),
    ]

    answer = wire.proxy.request("GET", "/x", headers=[*sent, ("Proxy-Connection", "keep-alive")])

    received = wire.received[0]
    for name in ("x-mine", "keep-alive", "te", "proxy-connection", "connection"):
        assert received.header(name) is None, name
    assert received.header("x-other") == "3"
    assert answer.header("x-private") is None
    assert answer.header("keep-alive") is None
    assert answer.header("x-public") == "2"


@pytest.mark.parametrize("path", PATHS)
def test_r62_a_chunked_upload_arrives_whole(wire: Wire, path: str) -> None:
    """Three chunks, one cut inside a character, are the same bytes; analysed routes send their length."""
    text = json.dumps({**CHAT, "note": "日本語"}, ensure_ascii=False).encode()
    cut = text.index("日".encode()) + 1
    pieces = [text[:5], text[5:cut], text[cut:]]
    raw = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"

    answer = wire.proxy.request("POST", path, raw, [("Transfer-Encoding", "chunked")])

    received = wire.received[0]
    assert answer.status == 200
    assert received.body == text
    if path in PATHS[:1]:
        assert received.header("content-length") == str(len(text))
        assert received.header("transfer-encoding") is None
    else:
        assert received.header("content-length") is None


@pytest.mark.parametrize("megabytes", [12, 60])
@pytest.mark.parametrize("path", PATHS)
def test_r64_large_bodies_pass_within_bounded_memory(wire: Wire, path: str, megabytes: int) -> None:
    """A body with images of many megabytes arrives unchanged, and the proxy holds few copies of it."""
    image = "A" * (megabytes << 20)
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
    raw = json.dumps({"model": "big", "messages": [{"role": "user", "content": [part]}]}).encode()
    before = wire.proxy.memory()

    answer = wire.proxy.request("POST", path, raw, timeout=60)

    assert answer.status == 200
    assert hashlib.sha256(wire.received[0].body).digest() == hashlib.sha256(raw).digest()
    assert wire.proxy.memory() - before < 4 * len(raw)


@pytest.mark.parametrize("chunked", [False, True])
def test_r64_one_byte_over_the_limit_is_refused_without_a_call(wire: Wire, chunked: bool) -> None:
    """The answer names the limit and its setting, however the body is framed."""
    limit = 80 << 20
    raw = b" " * (limit + 1)
    framed = b"%x\r\n%s\r\n0\r\n\r\n" % (len(raw), raw) if chunked else raw
    headers = [("Transfer-Encoding", "chunked")] if chunked else []

    refused = wire.proxy.request("POST", "/v1/chat/completions", framed, headers, timeout=60)

    assert refused.status == 413
    message = json.loads(refused.body)["error"]["message"]
    assert str(limit) in message
    assert "METALANCHOR_MAX_BODY" in message
    assert not wire.received
    assert wire.proxy.row(refused)["status"] == "rejected"


def test_r75_a_body_is_forwarded_to_the_byte(wire: Wire) -> None:
    """Odd spaces, number forms, big integers, escapes, duplicates and unknown fields arrive as sent."""
    raw = (
        '{"model":"m",  "temperature":1.0,"seed":12345678901234567890,\n "x_unknown":{"b":1,"a":2},"seed":1,'
        '"messages":[{"role":"user","content":"\\u00e9é"}] }'
    ).encode()

    wire.proxy.request("POST", "/v1/chat/completions", raw)

    assert wire.received[0].body == raw


@pytest.mark.parametrize("options", [None, {"include_usage": False}, {"include_usage": True}])
@pytest.mark.parametrize("stream", [True, False])
def test_r49_r51_stream_and_its_options_are_left_alone(
    wire: Wire, options: dict | None, stream: bool
) -> None:
    """Usage is never asked for on the client's behalf, and streaming is never switched."""
    request = {**CHAT, "stream": stream, **({"stream_options": options} if options else {})}
    raw = json.dumps(request).encode()

    wire.proxy.request("POST", "/v1/chat/completions", raw)

    assert wire.received[0].body == raw


@pytest.mark.parametrize(
    "raw", [b"not json", b"[1,2]", b"{", b"\xff\xfe", b'"text"', b"{}", b"\x28\xb5\x2f\xfd"]
)
def test_a_body_that_is_not_understood_is_forwarded_all_the_same(wire: Wire, raw: bytes) -> None:
    """What is no JSON, or not the JSON of the route, passes and has its row."""
    answer = wire.proxy.request("POST", "/v1/chat/completions", raw)

    assert answer.status == 200
    assert wire.received[0].body == raw
    row = wire.proxy.row(answer)
    assert row["request_bytes"] == len(raw)
    assert row.get("hit") in {None, "none"}


def usage_of(cached: int) -> dict:
    return {"prompt_tokens": 30, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": cached}}


def test_r57_compressed_answers_pass_compressed_and_are_read_on_the_side(wire: Wire) -> None:
    """JSON in gzip, a gzip error, gzip events: bytes and header are kept, figures are read from a copy."""
    value = {
        "choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}],
        "usage": usage_of(20),
    }
    whole = gzip.compress(json.dumps(value).encode())
    failed = gzip.compress(b'{"error":{"type":"too_long"}}')
    packer = zlib.compressobj(wbits=31)
    events = [
        packer.compress(b"data: %s\n\n" % json.dumps(d).encode()) + packer.flush(zlib.Z_SYNC_FLUSH)
        for d in DELTAS
    ]
    events.append(
        packer.compress(
            b'data: {"choices":[],"usage":%s}\n\ndata: [DONE]\n\n' % json.dumps(usage_of(7)).encode()
        )
        + packer.flush()
    )
    coded = ("Content-Encoding", "gzip")
    wire.answer(
        body(whole, content_type="application/json", headers=[coded]),
        body(failed, status=400, content_type="application/json", headers=[coded]),
        Reply(
            headers=[("Content-Type", "text/event-stream"), coded],
            writes=[(0.02, e) for e in events],
            framing="chunked",
        ),
    )
    accepts = [("Accept-Encoding", "gzip, br")]

    answers = [wire.proxy.chat({**CHAT, "stream": i == 2}, accepts) for i in range(3)]

    assert [answer.body for answer in answers] == [whole, failed, b"".join(events)]
    assert [answer.header("content-encoding") for answer in answers] == ["gzip"] * 3
    assert wire.received[0].header("accept-encoding") == "gzip, br"
    rows = [wire.proxy.row(answer) for answer in answers]
    assert [row.get("cached_tokens") for row in rows] == [20, None, 7]
    assert [row["status"] for row in rows] == ["completed", "upstream_error", "completed"]


def test_r57_no_encoding_is_asked_for_and_an_unknown_one_passes(wire: Wire) -> None:
    """Without the client's Accept-Encoding there is none; brotli passes unread, its figures stay unknown."""
    wire.answer(
        body(b"\x0b\x02\x80brotli\x03", content_type="application/json", headers=[("Content-Encoding", "br")])
    )

    answer = wire.proxy.chat(CHAT)

    assert answer.body == b"\x0b\x02\x80brotli\x03"
    assert wire.received[0].header("accept-encoding") is None
    row = wire.proxy.row(answer)
    assert row["status"] == "completed"
    assert row.get("cached_tokens") is None


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [400, 404, 413, 429, 500, 503])
def test_r59_the_backends_errors_pass_as_they_are(wire: Wire, status: int, stream: bool) -> None:
    """Status, headers and body of an error are the backend's, also for a request that asked for a stream."""
    error = {
        "error": {"code": status, "message": "prompt longer than context", "type": "context_overflow_test"}
    }
    wire.answer(as_json(error, status=status, headers=[("Retry-After", "7")]))

    answer = wire.proxy.chat({**CHAT, "stream": stream})

    assert (answer.status, json.loads(answer.body)) == (status, error)
    assert answer.header("retry-after") == "7"
    assert answer.header("x-metalanchor-error") is None
    row = wire.proxy.row(answer)
    assert (row["status"], row["http_status"], row["error"]) == (
        "upstream_error",
        status,
        "context_overflow_test",
    )


def test_r60_an_error_inside_a_stream_passes_and_is_noted(wire: Wire) -> None:
    """Ollama's last line under a 200 reaches the client; the row says what it was, without its text."""
    values = [{"message": {"content": c}, "done": False} for c in "ab"]
    reply = ndjson([*values, {"error": "runner crashed"}])
    wire.answer(reply)

    answer = wire.proxy.chat({**CHAT, "stream": True}, path="/api/chat")

    assert answer.body == b"".join(data for _, data in reply.writes)
    assert not answer.broken
    row = wire.proxy.row(answer)
    assert row["status"] == "error_midstream"
    assert "runner crashed" not in json.dumps(row)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("end", ["reset", "close"])
@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_r60_an_abrupt_end_stays_abrupt(wire: Wire, path: str, end: str, framing: str) -> None:
    """A connection that breaks inside the body gives the client all that came, and a broken body."""
    more = {"length": 5_000} if framing == "length" else {}
    reply = sse(DELTAS, gap=0.05, end=end, framing=framing, **more)
    wire.answer(reply)

    answer = wire.proxy.chat({**CHAT, "stream": True}, path=path)

    assert answer.status == 200
    assert answer.body == b"".join(data for _, data in reply.writes)
    assert answer.broken
    row = wire.proxy.row(answer)
    assert (row["status"], row["http_status"]) == ("upstream_reset", 200)


def test_r60_a_held_answer_that_breaks_off_is_broken_too(wire: Wire) -> None:
    """An answer that was not streamed and ends early is not mended: its beginning comes, then the cut."""
    wire.answer(Reply(writes=[(0, b'{"choices":')], length=400, end="reset"))

    answer = wire.proxy.chat(CHAT)

    assert (answer.status, answer.body, answer.broken) == (200, b'{"choices":', True)


@pytest.mark.parametrize("reply", [SILENT_CLOSE, SILENT_RESET], ids=["close", "reset"])
def test_a_backend_that_hangs_up_before_answering_is_a_502(wire: Wire, reply: Reply) -> None:
    """Nothing came: the proxy says so itself, after one more try where a kept connection was stale."""
    wire.answer(reply)

    answer = wire.proxy.chat(CHAT)

    assert answer.status == 502
    assert answer.ours["error"] == "backend_reset"
    assert wire.proxy.row(answer)["status"] == "upstream_reset"
