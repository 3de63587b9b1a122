"""More than anybody needs: heads, bodies, depth, numbers, compressed bombs. Nothing falls, nothing hangs."""

import gzip
import json
import time
import zlib

import pytest

from tests.support.backend import as_json, body
from tests.support.proxy import StartProxy, Wire

pytestmark = pytest.mark.process

ROUTES = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/api/chat",
    "/api/generate",
    "/v1/embeddings",
)
DEEP = 200_000
BODIES = {
    "deep arrays": b'{"model":"m","messages":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": b'{"model":"m","messages":[' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"]}",
    "deep tools": b'{"model":"m","tools":['
    + b'{"parameters":' * DEEP
    + b"1"
    + b"}" * DEEP
    + b'],"messages":[]}',
    "an unclosed depth": b'{"model":"m","messages":' + b"[" * DEEP,
    "a long number": b'{"model":"m","options":{"num_ctx":' + b"9" * DEEP + b'},"messages":[]}',
    "an endless exponent": b'{"model":"m","temperature":1e999999999,"options":{"num_ctx":1e999}}',
    "no numbers": b'{"model":"m","temperature":NaN,"num_ctx":-Infinity,"messages":[]}',
    "many keys": b'{"model":"m",'
    + b",".join(b'"k%d":%d' % (i, i) for i in range(50_000))
    + b',"messages":[]}',
    "one key, many times": b'{"model":"m",' + b'"messages":[],' * 50_000 + b'"x":1}',
    "many messages": b'{"model":"m","messages":[' + b'{"role":"user","content":"a"},' * 20_000 + b"1]}",
    "escapes": b'{"model":"m","prompt":"' + rb"\ud800" * 50_000 + b'","messages":[]}',
    "bytes of no encoding": b'{"model":"m","prompt":"' + bytes(range(128, 256)) * 500 + b'"}',
    "a long model name": b'{"model":"' + b"m" * DEEP + b'","messages":[]}',
    "a model name of control characters": rb'{"model":"m\r\nX-Evil: 1\u0000","messages":[]}',
}
# A worker thread on two busy cores; a body that made reading quadratic would take minutes.
LIMIT_S = 10.0


@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_any_shape_passes_byte_for_byte_in_time(wire: Wire, name: str) -> None:
    """On every analysed route the backend gets it, the client its answer, and the proxy stays well."""
    wire.answer(as_json({}))
    for path in ROUTES:
        started = time.monotonic()
        answer = wire.proxy.request("POST", path, BODIES[name], [("Content-Type", "application/json")])

        assert answer.status == 200
        assert wire.received[-1].body == BODIES[name]
        assert time.monotonic() - started < LIMIT_S
        assert answer.header("x-evil") is None
        assert wire.proxy.row(answer)["status"] in {"completed", "incomplete"}


def test_a_head_too_large_is_refused(wire: Wire) -> None:
    """Long values, many headers and long targets have limits; the next request is served."""
    big = [("X-Big", "a" * 1_000_000)]
    many = [(f"X-{number}", "a") for number in range(5_000)]
    with wire.proxy.client() as client:
        assert client.request("GET", "/x", headers=big).status == 431
    with wire.proxy.client() as client:
        assert client.request("GET", "/x", headers=many).status == 431
    with wire.proxy.client() as client:
        assert client.request("GET", "/" + "a" * 200_000).status == 414

    assert wire.received == []
    assert wire.proxy.request("GET", "/x").status == 200


def test_a_declared_terabyte_costs_nothing(wire: Wire) -> None:
    """A length over the limit is refused before its bytes come; no buffer is made for it."""
    memory = wire.proxy.memory()
    with wire.proxy.client() as client:
        client.send(
            "POST",
            "/v1/chat/completions",
            headers=[("Content-Length", str(1 << 40)), ("Expect", "100-continue")],
        )
        assert client.answer().status == 413

    assert wire.proxy.memory() < memory + (32 << 20)
    assert wire.received == []


BOMB = 200 << 20


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_bomb_as_an_answer_is_passed_on(start_proxy: StartProxy, backend, encoding: str) -> None:
    """200 MB in 200 KB: the client gets the 200 KB; only a bounded copy is looked into."""
    pack = zlib.compressobj(9, wbits=31 if encoding == "gzip" else 15)
    piece = b" " * (1 << 20)
    raw = b"".join(pack.compress(piece) for _ in range(BOMB >> 20)) + pack.flush()
    backend.answer(body(raw, content_type="application/json", headers=[("Content-Encoding", encoding)]))
    proxy = start_proxy()
    proxy.chat({"model": "m", "messages": []})
    memory = proxy.memory()

    for stream in (True, False, True):
        answer = proxy.chat({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "x"}]})
        assert answer.status == 200
        assert answer.body == raw

    assert proxy.memory() < memory + (48 << 20)


def test_a_compressed_bomb_as_a_request_is_not_opened_at_all(wire: Wire) -> None:
    """A body that is no plain JSON is forwarded unread, whatever its encoding says."""
    raw = gzip.compress(b'{"model":"m","messages":[' + b" " * (64 << 20) + b"]}")
    wire.answer(as_json({}))
    memory = wire.proxy.memory()
    answer = wire.proxy.request("POST", "/v1/chat/completions", raw, [("Content-Encoding", "gzip")])

    assert answer.status == 200
    assert wire.received[-1].body == raw
    assert wire.proxy.memory() < memory + (32 << 20)


def test_deep_answers_are_passed_on(wire: Wire) -> None:
    """An answer no reader can follow is the client's to judge; the row says that it was not understood."""
    deep = b'{"choices":' + b"[" * DEEP + b"]" * DEEP + b"}"
    for data in (
        deep,
        b"data: " + deep + b"\n\n",
        json.dumps({"usage": {"prompt_tokens": "9" * 5000}}).encode(),
    ):
        wire.answer(body(data, content_type="application/json"))
        answer = wire.proxy.chat({"model": "m", "stream": data[:4] == b"data", "messages": []})
        assert answer.body == data
        assert wire.proxy.row(answer).get("prompt_tokens") is None
