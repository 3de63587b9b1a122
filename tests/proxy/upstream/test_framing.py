"""Answers in every framing a server may use come out as the bytes of their body (R43, R46, R61)."""

import asyncio
from collections.abc import Awaitable

import pytest

from services.proxy.upstream.base import UpstreamError
from tests.proxy.upstream.conftest import Caller, arriving
from tests.support.backend import Backend, Reply, body, sse

PIECES = [(0.0, b"one "), (0.0, b"two "), (0.0, b"three")]


@pytest.mark.parametrize("framing", ["length", "chunked", "close", "http1.0"])
async def test_a_body_is_the_same_in_every_framing(backend: Backend, caller: Caller, framing) -> None:
    backend.answer(Reply(framing=framing, writes=PIECES))
    response, data = await caller.fetch()
    assert (response.status, data, response.complete) == (200, b"one two three", True)


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body_end_with_their_head(backend: Backend, caller: Caller, status) -> None:
    backend.answer(Reply(status=status, framing="none", headers=[("ETag", '"x"')]))
    for _ in range(2):
        response, data = await caller.fetch(method="GET")
        assert (response.status, data, response.headers) == (status, b"", [(b"ETag", b'"x"')])
    assert backend.connections_made == 1


async def test_head_keeps_its_length_and_has_no_body(backend: Backend, caller: Caller) -> None:
    backend.answer(Reply(writes=[(0.0, b"Ollama is running")]))
    for _ in range(2):
        response, data = await caller.fetch(method="HEAD", target="/")
        assert (response.headers, data) == ([(b"Content-Length", b"17")], b"")
    assert backend.connections_made == 1


async def test_an_empty_chunked_body_ends(backend: Backend, caller: Caller) -> None:
    backend.answer(Reply(framing="chunked"))
    assert (await caller.fetch())[1] == b""


async def test_interim_answers_are_skipped(backend: Backend, caller: Caller) -> None:
    raw = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    )
    backend.answer(Reply(framing="raw", writes=[(0.0, raw)]))
    response, data = await caller.fetch()
    assert (response.status, response.headers, data) == (200, [(b"Content-Length", b"2")], b"ok")


async def test_header_bytes_order_and_repetition_are_kept(backend: Backend, caller: Caller) -> None:
    raw = (
        b"HTTP/1.1 200 OK\r\nX-B: 1\r\nset-cookie: a=1\r\nX-A: caf\xe9\r\n"
        b"Set-Cookie: b=2\r\nContent-Length: 0\r\n\r\n"
    )
    backend.answer(Reply(framing="raw", writes=[(0.0, raw)]))
    response, _ = await caller.fetch()
    assert response.headers == [
        (b"X-B", b"1"),
        (b"set-cookie", b"a=1"),
        (b"X-A", b"caf\xe9"),
        (b"Set-Cookie", b"b=2"),
        (b"Content-Length", b"0"),
    ]


async def test_chunked_decides_where_a_length_stands_beside_it(backend: Backend, caller: Caller) -> None:
    backend.answer(Reply(framing="chunked", headers=[("Content-Length", "3")], writes=PIECES))
    assert (await caller.fetch())[1] == b"one two three"


async def test_trailers_and_chunk_extensions_are_not_body(backend: Backend, caller: Caller) -> None:
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"
    backend.answer(Reply(framing="raw", writes=[(0.0, raw)]))
    response, data = await caller.fetch()
    assert (data, response.headers) == (b"abc", [(b"Transfer-Encoding", b"chunked")])


async def test_an_answer_cut_between_any_two_bytes_is_the_same(backend: Backend, caller: Caller) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    raw = head + b'9\r\n"\xe6\x97\xa5\xf0\x9f\x8c\x8d"\r\n0\r\n\r\n'
    backend.answer(Reply(framing="raw", writes=[(0.001, raw[i : i + 1]) for i in range(len(raw))]))
    assert (await caller.fetch())[1].decode() == '"日🌍"'


async def test_encoded_bodies_stay_encoded(backend: Backend, caller: Caller) -> None:
    packed = bytes(range(256)) * 3
    backend.answer(body(packed, headers=[("Content-Encoding", "gzip")]))
    assert (await caller.fetch())[1] == packed


async def test_chunks_come_as_they_arrive(backend: Backend, caller: Caller) -> None:
    events = ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"]
    backend.answer(sse(events, gap=0.05))
    response = await caller.open()
    assert [chunk async for chunk in arriving(response)] == [event.encode() for event in events]


async def test_what_has_arrived_unread_is_one_chunk(backend: Backend, caller: Caller) -> None:
    backend.answer(sse(["a", "b", "c"]))
    response = await caller.open()
    await backend.until(lambda: response.complete)
    assert response.available() == b"abc"
    assert [chunk async for chunk in arriving(response)] == []


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * (300 << 10),
    ],
    ids=["another protocol", "no number", "unasked switch", "endless head"],
)
async def test_what_is_no_answer_is_a_protocol_error(backend: Backend, caller: Caller, raw) -> None:
    backend.answer(Reply(framing="raw", writes=[(0.0, raw)], end="hang"))
    with pytest.raises(UpstreamError) as caught:
        await caller.open()
    assert caught.value.code == "protocol"
    await backend.until(lambda: backend.open_connections == 0)


async def test_a_broken_chunk_size_breaks_the_body(backend: Backend, caller: Caller) -> None:
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"
    backend.answer(Reply(framing="raw", writes=[(0.0, raw)], end="hang"))
    response = await caller.open()
    seen = []
    with pytest.raises(UpstreamError) as caught:
        seen += [chunk async for chunk in arriving(response)]
    assert caught.value.code == "protocol"


async def test_a_stream_is_poured_as_it_arrives(backend: Backend, caller: Caller) -> None:
    """Each event is handed over by itself, although nobody is woken for it."""
    events = [b"data: %d\n\n" % number for number in range(20)]
    backend.answer(Reply(writes=[(0.005, event) for event in events]))
    response, seen = await caller.open(), list[bytes]()
    await response.pour(seen.append)
    assert b"".join(seen) == b"".join(events)
    assert len(seen) > 1
    assert response.complete


async def test_who_must_be_waited_for_is_given_nothing_meanwhile(backend: Backend, caller: Caller) -> None:
    """A taker that is full holds the stream up, and nothing is lost or comes out of order."""
    events = [b"data: %d\n\n" % number for number in range(50)]
    backend.answer(Reply(writes=[(0.001, event) for event in events]))
    response, seen, full = await caller.open(), list[bytes](), False

    async def emptied() -> None:
        nonlocal full
        await asyncio.sleep(0.01)
        full = False

    def take(data: bytes) -> Awaitable[None] | None:
        nonlocal full
        assert not full
        seen.append(data)
        full = len(seen) % 3 == 0
        return emptied() if full else None

    await response.pour(take)
    assert b"".join(seen) == b"".join(events)


async def test_a_fault_of_the_taker_comes_out_where_it_pours(backend: Backend, caller: Caller) -> None:
    """The socket's callback is no place for an error: the connection is closed and the error raised."""
    backend.answer(Reply(writes=[(0.005, b"data: x\n\n")] * 20))
    response, seen = await caller.open(), list[bytes]()

    def take(data: bytes) -> None:
        seen.append(data)
        if len(seen) == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await response.pour(take)
    assert len(seen) == 3
