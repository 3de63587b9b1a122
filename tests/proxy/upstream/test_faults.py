"""What goes wrong at the backend: refusals, resets, silence, and clients that leave (R52, R54, R60)."""

import asyncio
import socket
import time

import pytest

from services.proxy.upstream import make_upstream
from services.proxy.upstream.base import Response, UpstreamError
from tests.proxy.upstream.conftest import Caller, arriving
from tests.support.backend import NEVER, Backend, Reply, sse


async def drained(response: Response) -> tuple[bytes, UpstreamError]:
    """What could be read of a body that breaks off, and the error that ended it."""
    seen = b""
    try:
        async for chunk in arriving(response):
            seen += chunk
    except UpstreamError as error:
        return seen, error
    raise AssertionError("the body did not break off")


async def test_a_closed_port_is_unreachable_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        caller = Caller(make_upstream(f"http://127.0.0.1:{probe.getsockname()[1]}"))
        began = time.monotonic()
        with pytest.raises(UpstreamError) as caught:
            await caller.send(b"x")
    assert caught.value.code == "unreachable"
    assert time.monotonic() - began < 1.0


async def test_a_name_without_address_is_unreachable() -> None:
    with pytest.raises(UpstreamError) as caught:
        await Caller(make_upstream("http://nowhere.invalid:1")).send(b"x")
    assert caught.value.code == "unreachable"


async def test_a_backend_that_comes_back_is_reached_again(backend: Backend, caller: Caller) -> None:
    await caller.fetch(b"one")
    backend.unlisten()
    with pytest.raises(UpstreamError) as caught:
        await caller.fetch(b"two")
    assert caught.value.code == "unreachable"
    backend.relisten()
    assert (await caller.fetch(b"three"))[0].status == 200


@pytest.mark.parametrize("end", ["reset", "close"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_body_cut_short_is_a_reset_after_what_arrived(
    backend: Backend, caller: Caller, framing, end
) -> None:
    backend.answer(Reply(framing=framing, length=100, writes=[(0.0, b"one"), (0.05, b"two")], end=end))
    response = await caller.open()
    seen, error = await drained(response)
    assert (seen, error.code, response.complete) == (b"onetwo", "reset", False)


async def test_a_reset_ends_no_body_that_lasts_until_close(backend: Backend, caller: Caller) -> None:
    backend.answer(Reply(framing="close", writes=[(0.0, b"one")], end="reset"))
    response = await caller.open()
    with pytest.raises(UpstreamError) as caught:
        _ = [chunk async for chunk in arriving(response)]
    assert caught.value.code == "reset"


async def test_a_slow_reader_holds_the_backend_back(backend: Backend, caller: Caller) -> None:
    """Of 64 MB only what the sockets hold leaves the backend while nobody reads (R73)."""
    backend.answer(Reply(framing="chunked", writes=[(0.0, bytes(1 << 20))] * 64))
    response = await caller.open()
    await asyncio.sleep(0.5)
    unread = response.available()
    assert len(unread) < 1 << 20
    assert not response.complete
    rest = [len(chunk) async for chunk in arriving(response)]
    assert len(unread) + sum(rest) == 64 << 20


@pytest.mark.parametrize(
    "reply",
    [NEVER, sse(["a", "b"], gap=60.0), Reply(writes=[(0.0, b"ab")], length=10, end="hang")],
    ids=["before headers", "within a stream", "within a whole body"],
)
async def test_an_abort_frees_the_backend(backend: Backend, caller: Caller, reply) -> None:
    backend.answer(reply)
    exchange = await caller.send(b"x")
    await backend.until(lambda: backend.active == 1)
    waiting = asyncio.ensure_future(exchange.response())
    await asyncio.sleep(0.05)
    await exchange.abort()
    await exchange.abort()
    await backend.until(lambda: backend.active == 0 and backend.open_connections == 0)
    if reply is NEVER:
        with pytest.raises(UpstreamError):
            await waiting
    else:
        with pytest.raises(UpstreamError):
            _ = [chunk async for chunk in arriving(await waiting)]


async def test_an_abort_after_the_end_leaves_the_connection_to_others(
    backend: Backend, caller: Caller
) -> None:
    exchange = await caller.send(b"one")
    response = await exchange.response()
    await backend.until(lambda: response.complete)
    other = await caller.send(b"two")
    await exchange.abort()
    assert (await other.response()).status == 200
    assert backend.connections_made == 1


async def test_a_hundred_aborts_leave_nothing_behind(backend: Backend, caller: Caller) -> None:
    async def endless():
        while True:
            yield bytes(1000)
            await asyncio.sleep(0.001)

    backend.answer(sse(["a"] * 1000, first=0.005, gap=0.005))
    tasks = len(asyncio.all_tasks())
    for turn in range(100):
        exchange = await caller.send(endless() if turn % 4 == 3 else b"x")
        waiting = asyncio.ensure_future(exchange.response())
        await asyncio.sleep(0.003 * (turn % 3))
        if turn % 2:
            waiting.cancel()
        await exchange.abort()
        await asyncio.gather(waiting, return_exceptions=True)
    await backend.until(lambda: backend.open_connections == 0)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == tasks
    assert not caller.client._open


async def test_a_cancelled_connection_attempt_leaves_no_socket() -> None:
    """A listener with a full queue never answers the SYN."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        sending = asyncio.ensure_future(Caller(make_upstream(f"http://127.0.0.1:{address[1]}")).send(b"x"))
        await asyncio.sleep(0.1)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        for filler in fillers:
            filler.close()
    assert sending.cancelled()
