"""Reading bodies, and noticing disconnects: over a scripted `receive`, without sockets."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from services.proxy.wire import body as bodies
from services.proxy.wire.disconnect import DisconnectWatch
from services.proxy.wire.errors import RefusedError

LENGTH = [(b"content-length", b"6")]
CHUNKED = [(b"transfer-encoding", b"chunked")]


def script(*messages: dict[str, Any] | float) -> Callable[[], Any]:
    """A `receive` that gives these messages; a number is a wait before the next one."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if left and isinstance(left[0], float | int):
            await asyncio.sleep(left.pop(0))
        if not left:
            await asyncio.get_running_loop().create_future()
        return left.pop(0)

    return receive


def piece(data: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": more}


GONE = {"type": "http.disconnect"}


async def test_a_declared_body_is_done_with_its_last_byte() -> None:
    """The end need not be waited for when the length says that all is there."""
    assert await bodies.read(script(piece(b"abc"), piece(b"def")), LENGTH, 100, 5) == b"abcdef"


async def test_a_chunked_body_is_done_with_its_end() -> None:
    """Without a length the server says when it is over."""
    assert await bodies.read(script(piece(b"abc"), piece(b""), piece(b"", False)), CHUNKED, 100, 5) == b"abc"


async def test_no_body_is_not_waited_for() -> None:
    """A request without framing headers has none."""
    assert await bodies.read(script(), [(b"accept", b"*")], 100, 5) == b""


@pytest.mark.parametrize("headers", [LENGTH, CHUNKED])
async def test_over_the_limit(headers: list[tuple[bytes, bytes]]) -> None:
    """By its declaration or by its bytes; the rest is taken in first."""
    with pytest.raises(RefusedError) as refused:
        await bodies.read(script(piece(b"abcdef"), piece(b"", False)), headers, 5, 5)
    assert (refused.value.status, refused.value.code) == (413, "body_too_large")


async def test_an_upload_that_stands_still() -> None:
    """The limit is on the silence between two pieces, not on the whole."""
    assert await bodies.read(script(0.05, piece(b"abc"), 0.05, piece(b"def")), LENGTH, 100, 0.09) == b"abcdef"
    with pytest.raises(RefusedError) as refused:
        await bodies.read(script(piece(b"abc"), 5), LENGTH, 100, 0.05)
    assert refused.value.status == 408


async def test_a_client_that_leaves_in_its_upload() -> None:
    """Half a body is nobody's request."""
    with pytest.raises(bodies.ClientGoneError):
        await bodies.read(script(piece(b"abc"), GONE), LENGTH, 100, 5)


async def test_a_disconnect_is_told_once_and_not_after_the_end() -> None:
    """The end of the body is passed over; one after the answer is none."""
    left: list[int] = []
    disconnect = DisconnectWatch(script(piece(b"", False), GONE), lambda: left.append(1))
    disconnect.watch()
    await asyncio.sleep(0.02)
    assert left == [1]

    late = DisconnectWatch(script(0.02, GONE), lambda: left.append(2))
    late.watch()
    late.ended = True
    await asyncio.sleep(0.05)
    assert left == [1]
