"""Requests reach the backend as given: one head, one framing, every byte of the body (R62, R64, R75)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from services.proxy.upstream.base import UpstreamError
from tests.proxy.upstream.conftest import Caller, arriving
from tests.support.backend import Backend, Reply, body


async def pieces(*parts: bytes, pause: float = 0.0) -> AsyncIterator[bytes]:
    for part in parts:
        await asyncio.sleep(pause)
        yield part


async def test_the_head_arrives_byte_for_byte(backend: Backend, caller: Caller) -> None:
    headers = [(b"X-One", b"1"), (b"x-two", b"caf\xc3\xa9"), (b"X-One", b"again"), (b"Empty", b"")]
    await caller.fetch(method="DELETE", target="/api/x%2Fy?a=1&&b=%20", headers=headers)
    assert backend.requests[0].head == (
        b"DELETE /api/x%2Fy?a=1&&b=%20 HTTP/1.1\r\nhost: backend.test\r\nX-One: 1\r\nx-two: caf\xc3\xa9\r\n"
        b"X-One: again\r\nEmpty: \r\n\r\n"
    )


@pytest.mark.parametrize("size", [1, 8_000, 1_000_000, 20_000_000])
async def test_a_body_of_any_size_arrives_whole(backend: Backend, caller: Caller, size) -> None:
    sent = hashlib.sha256(str(size).encode()).digest() * (size // 32 + 1)
    await caller.fetch(sent[:size])
    assert hashlib.sha256(backend.requests[0].body).digest() == hashlib.sha256(sent[:size]).digest()


async def test_the_request_has_left_when_send_returns(backend: Backend, caller: Caller) -> None:
    """Work that blocks the loop afterwards does not hold the request back."""
    await caller.fetch(b"warm")
    exchange = await caller.send(b"x" * 100_000)
    backend.wait(lambda: len(backend.requests) == 2 and backend.requests[1].complete)
    assert (await exchange.response()).status == 200


async def test_a_streamed_body_keeps_its_length(backend: Backend, caller: Caller) -> None:
    await caller.fetch(pieces(b"ab", b"", b"cd"), headers=[(b"content-length", b"4")])
    seen = backend.requests[0]
    assert (seen.body, seen.all("content-length"), seen.all("transfer-encoding")) == (b"abcd", ["4"], [])


async def test_a_streamed_body_without_length_is_chunked(backend: Backend, caller: Caller) -> None:
    await caller.fetch(pieces(b"ab", b"", b"cd", pause=0.01))
    seen = backend.requests[0]
    assert (seen.body, seen.all("content-length"), seen.all("transfer-encoding")) == (
        b"abcd",
        [],
        ["chunked"],
    )


@pytest.mark.parametrize("length", [b"3", b"5"], ids=["too long", "too short"])
async def test_a_streamed_body_that_belies_its_length_ends_the_exchange(
    backend: Backend, caller: Caller, length
) -> None:
    with pytest.raises(UpstreamError) as caught:
        await caller.fetch(pieces(b"ab", b"cd"), headers=[(b"content-length", length)])
    assert caught.value.code == "protocol"
    await backend.until(lambda: backend.open_connections == 0)


async def test_what_a_streamed_body_raises_comes_out_of_the_answer(backend: Backend, caller: Caller) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"ab"
        raise LookupError("the client left")

    exchange = await caller.send(failing())
    with pytest.raises(LookupError):
        await exchange.response()
    await backend.until(lambda: backend.open_connections == 0)


async def test_a_streamed_body_waits_for_a_slow_backend(backend: Backend, caller: Caller) -> None:
    """No more is taken from the client than the sockets hold."""
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1 << 16
            yield bytes(1 << 16)

    backend.answer(Reply(early=True, framing="raw", end="hang"))
    exchange = await caller.send(endless())
    before = -1
    while before != taken:
        before = taken
        await asyncio.sleep(0.2)
    assert taken < 32 << 20
    await exchange.abort()


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_before_the_body_is_sent_is_an_answer(
    backend: Backend, caller: Caller, streamed
) -> None:
    backend.answer(body("too large", status=413, early=True))
    size = 30_000_000
    sent = pieces(*[bytes(100_000)] * 300) if streamed else bytes(size)
    response = await caller.open(sent, headers=[(b"content-length", b"%d" % size)] if streamed else None)
    data = b"".join([chunk async for chunk in arriving(response)])
    assert (response.status, response.complete, data) == (413, True, b"too large")
    await backend.until(lambda: backend.open_connections == 0)


@pytest.mark.parametrize(
    "request_parts",
    [
        {"headers": [(b"x", b"a\r\nevil: 1")]},
        {"headers": [(b"x\r\nevil", b"1")]},
        {"headers": [(b"x", b"a\nb")]},
        {"headers": [(b"x", b"a\0b")]},
        {"target": "/a\r\nevil: 1"},
        {"target": "/a HTTP/1.1"},
        {"method": "GET /evil"},
    ],
)
async def test_no_part_becomes_a_second_header_or_request(
    backend: Backend, caller: Caller, request_parts
) -> None:
    with pytest.raises(UpstreamError) as caught:
        await caller.send(b"", **request_parts)
    assert caught.value.code == "protocol"
    assert backend.connections_made == 0
