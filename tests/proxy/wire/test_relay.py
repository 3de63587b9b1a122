"""Passing answers on, to the turn of the loop: what comes together with the end of a wait is relayed."""

import asyncio
from typing import Any

import pytest

from services.proxy.backends.backend import Backend
from services.proxy.dialects import for_route
from services.proxy.flow import Flow
from services.proxy.upstream.answer import Answer
from services.proxy.wire.relay import Relay

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
FIRST = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


class Wireless:
    """A link without a socket."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def finished(self, *, reusable: bool) -> None: ...

    def drop(self) -> None: ...


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("turns", range(8))
async def test_an_end_that_overtakes_the_wait_for_the_beginning(stream: bool, turns: int) -> None:
    """The rest of an answer may arrive any number of turns after its first piece woke the waiting relay."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    dialect = for_route("POST", "/v1/chat/completions")
    assert dialect is not None
    flow = Flow(
        backend=Backend(name="b", url="http://b"), method="POST", path="/v1/chat/completions", headers=[]
    )
    body = b'{"model":"m","stream":%b,"messages":[]}' % (b"true" if stream else b"false")
    flow.dialect, flow.prompt = dialect, dialect.read(body, "b")
    answer = Answer(Wireless(), bodiless=False)
    answer.feed(HEAD)
    relay = Relay(flow, send, lambda: None)
    passing = asyncio.create_task(relay.pass_on(answer, bodiless=False))
    for _ in range(4):
        await asyncio.sleep(0)
    answer.feed(chunk(FIRST))
    for _ in range(turns):
        await asyncio.sleep(0)
    answer.feed(chunk(LAST) + b"0\r\n\r\n")
    await passing

    assert b"".join(message.get("body", b"") for message in sent) == FIRST + LAST
    assert flow.outcome is not None
    assert flow.outcome.terminal
