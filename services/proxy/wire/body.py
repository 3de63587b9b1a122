"""Reading a request's body: whole and bounded where it is analysed, piece by piece everywhere else.

Owns no state. A body is held once; what is over the limit, or stalls, ends the request here.
"""

import asyncio
from collections.abc import AsyncIterator

from services.proxy.wire import errors
from services.proxy.wire.disconnect import Receive
from services.proxy.wire.headers import Headers, value_of

# How long a refused upload is still taken in, so that the client reads the answer and not a reset connection:
# loopback moves over a gigabyte in that time.
DRAIN_S = 2.0


class ClientGoneError(Exception):
    """The client left before its body was complete."""


def declared(headers: Headers) -> int | None:
    """The Content-Length; 0 where there is no body, None where its end shows only when it comes."""
    if value_of(headers, b"transfer-encoding") is not None:
        return None
    length = value_of(headers, b"content-length")
    return int(length) if length is not None and length.isdigit() else 0


async def read(receive: Receive, headers: Headers, limit: int, idle_s: float) -> bytes:
    """The whole body. Raises `RefusedError` (413, 408) or `ClientGoneError`."""
    expected = declared(headers)
    if expected == 0:
        return b""
    if expected is not None and expected > limit:
        await drain(receive, headers)
        raise errors.too_large(limit)
    pieces: list[bytes] = []
    size, more = 0, True
    while more and size != expected:
        piece, more = await _next(receive, idle_s)
        size += len(piece)
        if size > limit:
            pieces.clear()
            await drain(receive, headers)
            raise errors.too_large(limit)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def stream(receive: Receive, expected: int | None, idle_s: float) -> AsyncIterator[bytes]:
    """The body's pieces as they arrive. Ends with the last of `expected` bytes."""
    size, more = 0, True
    while more and size != expected:
        piece, more = await _next(receive, idle_s)
        if piece:
            size += len(piece)
            yield piece


async def _next(receive: Receive, idle_s: float) -> tuple[bytes, bool]:
    """The next piece and whether more follows. Raises `RefusedError` (408) or `ClientGoneError`."""
    try:
        async with asyncio.timeout(idle_s):
            message = await receive()
    except TimeoutError:
        raise errors.stalled(idle_s) from None
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message.get("body", b""), message.get("more_body", False)


async def drain(receive: Receive, headers: Headers) -> None:
    """Take in what a refused client still sends, for a while; one that waits for leave sends nothing."""
    if value_of(headers, b"expect") is not None:
        return
    try:
        async with asyncio.timeout(DRAIN_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
    except TimeoutError:
        return
