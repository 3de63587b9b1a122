"""The client under test, on the loop the proxy runs on and on asyncio's own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvloop

from services.proxy.upstream import make_upstream
from services.proxy.upstream.base import Headers, RequestHead, Response
from services.proxy.upstream.client import Client, Exchange
from tests.support.backend import Backend


def pytest_asyncio_loop_factories(
    config: Any, item: Any
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


async def arriving(response: Response) -> AsyncIterator[bytes]:
    """The body as whoever takes one piece after the other sees it."""
    while await response.more():
        yield response.available()


class Caller:
    """Sends requests the way `forward` does."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def send(
        self,
        body: bytes | AsyncIterator[bytes] = b"",
        *,
        method: str = "POST",
        target: str = "/v1/chat/completions",
        headers: Headers | None = None,
    ) -> Exchange:
        """Start a request; a body in one piece gets its Content-Length."""
        sent = [(b"host", b"backend.test"), *(headers or [])]
        if isinstance(body, bytes) and body:
            sent.append((b"content-length", b"%d" % len(body)))
        return await self.client.send(RequestHead(method.encode(), target.encode(), sent), body)

    async def open(self, body: bytes | AsyncIterator[bytes] = b"", **more: Any) -> Response:
        """A request up to its answer's head."""
        return await (await self.send(body, **more)).response()

    async def fetch(self, body: bytes | AsyncIterator[bytes] = b"", **more: Any) -> tuple[Response, bytes]:
        """A request up to its answer's end."""
        response = await self.open(body, **more)
        data = b"".join([chunk async for chunk in arriving(response)])
        return response, data


@pytest.fixture
async def caller(backend: Backend) -> AsyncIterator[Caller]:
    """A caller of the scripted backend; its connections are closed afterwards."""
    client = make_upstream(backend.url)
    yield Caller(client)
    await client.close()
