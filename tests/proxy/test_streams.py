"""Streams pass as they come: cut as the network cut them, untouched, and read only on the side."""

import itertools
import json
import time

import pytest

from tests.support.backend import Reply, as_json, ndjson, sse
from tests.support.proxy import Wire

pytestmark = pytest.mark.process

CHAT = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


def delta(text: str, finish: str | None = None) -> dict:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def stream_of(*pieces: bytes, gap: float = 0.03, content_type: str = "text/event-stream", **more) -> Reply:
    """A chunked answer of raw pieces."""
    writes = [(gap if i else 0.0, piece) for i, piece in enumerate(pieces)]
    return Reply(headers=[("Content-Type", content_type)], writes=writes, framing="chunked", **more)


def test_r43_a_line_cut_by_the_network_is_forwarded_as_cut_and_read_whole(wire: Wire) -> None:
    """An NDJSON line in two reads reaches the client in its bytes and the log as one line."""
    pieces = [
        b'{"message":{"content":"He',
        b'llo"},"done":false}\n{"mes',
        b'sage":{"content":""},"done":true,"done_reason":"stop","eval_count":2}\n',
    ]
    wire.answer(stream_of(*pieces, content_type="application/x-ndjson"))

    answer = wire.proxy.chat(CHAT, path="/api/chat")

    assert answer.body == b"".join(pieces)
    assert [piece for _, piece in answer.pieces] == pieces
    row = wire.proxy.row(answer)
    assert (row["status"], row["completion_tokens"], row["streamed_deltas"]) == ("completed", 2, 1)
    assert row.get("error") is None


@pytest.mark.parametrize("pause", [0.4, 1.3])
def test_waiting_for_the_first_byte_of_a_stream_is_not_the_proxys_time(wire: Wire, pause: float) -> None:
    """A server that sends its headers before it prefills (llama-server does) costs the proxy nothing."""
    wire.answer(sse([delta("a"), "data: [DONE]\n\n"], first=pause))
    row = wire.proxy.row(wire.proxy.chat(CHAT))
    assert row["overhead_ms"] < 0.5 * pause * 1e3 < row["total_ms"]


@pytest.mark.parametrize("media", ["text/event-stream", "application/x-ndjson", "text/plain"])
def test_r44_each_event_arrives_when_it_was_sent(wire: Wire, media: str) -> None:
    """Five events 200 ms apart arrive as five reads 200 ms apart, whatever the media type."""
    headers = [("X-Accel-Buffering", "no"), ("Cache-Control", "no-cache")]
    reply = stream_of(*[b"data: {}\n\n"] * 5, gap=0.2, content_type=media)
    reply.headers += headers
    wire.answer(reply)
    started = time.monotonic()

    answer = wire.proxy.chat(CHAT)

    arrivals = [at for at, _ in answer.pieces]
    assert len(arrivals) == 5
    assert arrivals[0] - started < 0.15
    assert all(later - earlier >= 0.15 for earlier, later in itertools.pairwise(arrivals))
    assert answer.header("x-accel-buffering") == "no"
    assert answer.header("cache-control") == "no-cache"


def test_r45_ndjson_keeps_its_type_and_gets_no_bytes_of_ours(wire: Wire) -> None:
    """The media type is left alone and nothing is inserted."""
    values = [{"message": {"content": c}, "done": False} for c in "abc"]
    wire.answer(ndjson(values, gap=0.1))

    answer = wire.proxy.chat(CHAT, path="/api/chat")

    assert answer.header("content-type") == "application/x-ndjson"
    assert answer.body == b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values)
    assert len(answer.pieces) == 3


def test_r46_a_character_cut_at_every_byte_comes_through_whole(wire: Wire) -> None:
    """An event sent one byte a write arrives in the same bytes, and is one delta in the row."""
    event = 'data: {"choices":[{"index":0,"delta":{"content":"日🌍"}}]}\n\n'.encode()
    end = b"data: [DONE]\n\n"
    reply = stream_of(*[event[i : i + 1] for i in range(len(event))], end, gap=0.001)
    whole = stream_of(event, end)
    wire.answer(reply, whole)

    cut, uncut = wire.proxy.chat(CHAT), wire.proxy.chat(CHAT)

    assert cut.body == uncut.body == event + end
    rows = [wire.proxy.row(cut), wire.proxy.row(uncut)]
    assert rows[0]["output_hash"] == rows[1]["output_hash"]
    assert [row["streamed_deltas"] for row in rows] == [1, 1]


def test_r46_half_a_surrogate_pair_in_each_event_breaks_nothing(wire: Wire) -> None:
    """A character written as two escapes in two events passes untouched, and the row is written."""
    halves = [
        rb'data: {"choices":[{"index":0,"delta":{"content":"' + half + rb'"}}]}' + b"\n\n"
        for half in (rb"\ud83c", rb"\udf0d")
    ]
    wire.answer(stream_of(*halves, b"data: [DONE]\n\n"))

    answer = wire.proxy.chat(CHAT)

    assert answer.body == b"".join([*halves, b"data: [DONE]\n\n"])
    assert wire.proxy.row(answer)["status"] == "completed"


@pytest.mark.parametrize(
    ("path", "early", "token"),
    [
        (
            "/v1/chat/completions",
            [b":\n\n", b":\n\n"],
            b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
        ),
        (
            "/v1/messages",
            [b'event: ping\ndata: {"type":"ping"}\n\n'],
            b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"x"}}\n\n',
        ),
    ],
)
def test_r48_keep_alives_pass_at_once_and_are_no_token(
    wire: Wire, path: str, early: list[bytes], token: bytes
) -> None:
    """Comments and pings are forwarded when they come; the first token is the first generated text."""
    wire.answer(stream_of(*early, token, gap=0.25))
    started = time.monotonic()

    answer = wire.proxy.chat({**CHAT, "max_tokens": 9}, path=path)

    assert answer.pieces[0][0] - started < 0.2
    assert answer.body == b"".join([*early, token])
    assert "ttft-ms" not in answer.ours
    row = wire.proxy.row(answer)
    assert 0.25 * len(early) * 1e3 - 20 <= row["ttft_ms"] < 5_000


def test_r72_nothing_is_added_to_a_stream_without_an_end(wire: Wire) -> None:
    """Two deltas and a clean close stay two deltas; the row says incomplete."""
    reply = sse([delta("a"), delta("b")])
    wire.answer(reply)

    answer = wire.proxy.chat(CHAT)

    assert answer.body == b"".join(data for _, data in reply.writes)
    assert not answer.broken
    assert wire.proxy.row(answer)["status"] == "incomplete"


def test_r73_a_slow_reader_holds_the_backend_back(wire: Wire) -> None:
    """200 MB to a client that hardly reads stay at the backend, not in the proxy."""
    piece = b"data: " + b"x" * 65_000 + b"\n\n"
    flood = Reply(
        headers=[("Content-Type", "text/event-stream")], writes=[(0, piece)] * 3200, framing="chunked"
    )
    wire.proxy.chat(CHAT)
    wire.answer(flood)
    before = wire.proxy.memory()
    with wire.proxy.client(receive_buffer=4096) as client:
        client.send("POST", "/v1/chat/completions", json.dumps({**CHAT, "model": "flood"}).encode())
        client.head()
        for _ in range(15):
            time.sleep(0.1)
            client.socket.recv(256)
        growth = wire.proxy.memory() - before
        assert wire.backend.active == 1

    assert growth < 32 << 20
    (row,) = wire.proxy.wait_rows(1, lambda row: row.get("model") == "flood")
    assert row["status"] == "client_cancelled"


def test_a_stream_without_data_for_long_has_its_headers_within_a_second(wire: Wire) -> None:
    """Clients that limit the time to headers are not kept waiting: they leave after a second."""
    wire.answer(sse([delta("late", "stop")], first=2.0))
    with wire.proxy.client() as client:
        started = time.monotonic()
        client.send("POST", "/v1/chat/completions", json.dumps(CHAT).encode())
        answer = client.answer()

    assert 0.9 < answer.head_at - started < 1.6
    assert answer.pieces[0][0] - started >= 1.9


def test_an_unanalysed_answer_flows_from_its_first_byte(wire: Wire) -> None:
    """A long download on a route we do not read has its headers before its body begins."""
    wire.answer(
        Reply(headers=[("Content-Type", "application/json")], writes=[(0.5, b'{"a":1}')], framing="chunked")
    )
    with wire.proxy.client() as client:
        started = time.monotonic()
        client.send("POST", "/api/pull", b"{}")
        answer = client.answer()

    assert answer.head_at - started < 0.3
    assert answer.body == b'{"a":1}'


def test_a_whole_answer_is_held_for_its_counters_but_not_long(wire: Wire) -> None:
    """A body that ends within 50 ms brings its cached tokens in the header; one that does not is let go."""
    usage = {
        "usage": {"prompt_tokens": 30, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 20}}
    }
    value = {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}], **usage}
    text = json.dumps(value).encode()
    quick = as_json(value)
    slow = Reply(headers=[("Content-Type", "application/json")], writes=[(0, text[:20]), (0.6, text[20:])])
    wire.answer(quick, slow)

    request = {**CHAT, "stream": False}
    at_once = wire.proxy.chat(request)
    with wire.proxy.client() as client:
        started = time.monotonic()
        client.send("POST", "/v1/chat/completions", json.dumps(request).encode())
        held = client.answer()

    assert at_once.ours["cached-tokens"] == "20"
    assert "cached-tokens" not in held.ours
    assert held.head_at - started < 0.4
    assert held.body == text
    assert wire.proxy.row(held)["cached_tokens"] == 20
