"""Connections are kept, replaced when stale, and never shared by two exchanges."""

import asyncio

import pytest

from services.proxy.upstream import client as clients
from services.proxy.upstream.base import UpstreamError
from tests.proxy.upstream.conftest import Caller, arriving
from tests.support.backend import SILENT_CLOSE, SILENT_RESET, Backend, Reply, body, sse


async def test_one_connection_serves_requests_in_turn(backend: Backend, caller: Caller) -> None:
    backend.answer(sse(["a", "b"]))
    for _ in range(5):
        await caller.fetch(b"x")
    assert backend.connections_made == 1


async def test_requests_at_once_have_a_connection_each(backend: Backend, caller: Caller) -> None:
    backend.answer(body("ok", head_delay=0.1))
    answers = await asyncio.gather(*[caller.fetch(b"%d" % i) for i in range(20)])
    assert [data for _, data in answers] == [b"ok"] * 20
    assert backend.peak_active == 20
    await caller.fetch(b"x")
    assert backend.connections_made == 20


@pytest.mark.parametrize("reply", [Reply(framing="close"), Reply(headers=[("Connection", "close")])])
async def test_a_connection_that_the_backend_ends_is_not_kept(
    backend: Backend, caller: Caller, reply
) -> None:
    backend.answer(reply)
    await caller.fetch()
    await caller.fetch()
    assert backend.connections_made == 2


async def test_a_connection_that_went_stale_is_replaced(backend: Backend, caller: Caller) -> None:
    await caller.fetch(b"one")
    backend.drop_idle()
    assert (await caller.fetch(b"two"))[0].status == 200
    assert [request.body for request in backend.requests] == [b"one", b"two"]


@pytest.mark.parametrize("ending", [SILENT_CLOSE, SILENT_RESET], ids=["closed", "reset"])
async def test_a_kept_connection_closed_before_any_answer_sends_once_more(
    backend: Backend, caller: Caller, ending
) -> None:
    await caller.fetch(b"one")
    backend.queue(ending)
    assert (await caller.fetch(b"two"))[0].status == 200
    assert [request.body for request in backend.requests] == [b"one", b"two", b"two"]


async def test_it_sends_no_third_time(backend: Backend, caller: Caller) -> None:
    await caller.fetch(b"one")
    backend.queue(SILENT_CLOSE, SILENT_CLOSE)
    with pytest.raises(UpstreamError) as caught:
        await caller.fetch(b"two")
    assert caught.value.code == "reset"
    assert len(backend.requests) == 3


async def test_a_fresh_connection_closed_without_answer_is_not_repeated(
    backend: Backend, caller: Caller
) -> None:
    backend.queue(SILENT_CLOSE)
    with pytest.raises(UpstreamError) as caught:
        await caller.fetch(b"one")
    assert caught.value.code == "reset"
    assert len(backend.requests) == 1


async def test_a_kept_connection_that_ends_within_its_answer_is_not_repeated(
    backend: Backend, caller: Caller
) -> None:
    await caller.fetch(b"one")
    backend.queue(Reply(framing="raw", writes=[(0.0, b"HTTP/1.1 200 OK\r\nContent-")], end="close"))
    with pytest.raises(UpstreamError) as caught:
        await caller.fetch(b"two")
    assert caught.value.code == "reset"
    assert len(backend.requests) == 2


async def test_a_streamed_body_never_meets_a_stale_connection(backend: Backend, caller: Caller) -> None:
    async def once():
        yield b"only once"

    await caller.fetch(b"one")
    await caller.fetch(once())
    assert [request.connection for request in backend.requests] == [1, 2]


async def test_bytes_nobody_asked_for_end_the_connection(backend: Backend, caller: Caller) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    backend.queue(Reply(framing="raw", writes=[(0.0, raw)], end="hang"))
    assert (await caller.fetch(b"one"))[1] == b"ok"
    assert (await caller.fetch(b"two"))[1] == b""
    assert [request.connection for request in backend.requests] == [1, 2]


async def test_idle_connections_are_closed_in_time(backend: Backend, caller: Caller, monkeypatch) -> None:
    monkeypatch.setattr(clients, "IDLE_S", 0.1)
    await caller.fetch(b"one")
    await backend.until(lambda: backend.open_connections == 0)


async def test_a_closed_client_leaves_no_connection(backend: Backend, caller: Caller) -> None:
    backend.queue(body("ok"), sse(["a", "b"], gap=60.0))
    await caller.fetch(b"one")
    streaming = await caller.open(b"two")
    await caller.fetch(b"three")
    await caller.client.close()
    await backend.until(lambda: backend.open_connections == 0)
    with pytest.raises(UpstreamError):
        _ = [chunk async for chunk in arriving(streaming)]
    with pytest.raises(UpstreamError):
        await caller.send(b"four")
