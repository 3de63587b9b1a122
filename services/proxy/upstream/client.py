"""The pool of connections to one backend, and the exchanges that use them.

Owns the idle connections (newest used first) and the set of all open ones, so that closing leaves none.
Nothing here limits how long an answer may take: prefill of a long prompt is silent for minutes.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

from services.proxy.upstream.answer import Answer
from services.proxy.upstream.base import RequestHead, UpstreamError
from services.proxy.upstream.connection import Connection
from services.proxy.upstream.dial import Dialler
from services.proxy.upstream.encode import Framer, declared_length, encode

# Under the 5 s after which uvicorn, Node and cpp-httplib (llama-server) close an idle connection themselves.
IDLE_S = 4.0
# More agents than one machine runs at once; further connections are opened and closed as needed.
MAX_IDLE = 64


class Client:
    """Implements `upstream.base.Upstream` for one backend address."""

    def __init__(self, url: str) -> None:
        self._dialler = Dialler(url)
        self._idle: deque[tuple[float, Connection]] = deque()
        self._open: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, head: RequestHead, body: bytes | AsyncIterator[bytes]) -> "Exchange":
        """Write a request; see `upstream.base.Upstream.send`."""
        if not isinstance(body, bytes):
            return await self._stream(head, body)
        encoded = encode(head)
        kept = self._take()
        exchange = Exchange(self, encoded, body, bodiless=head.method == b"HEAD")
        exchange.begin(kept or await self.dial(), reused=kept is not None)
        return exchange

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self._idle.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)

    async def dial(self) -> Connection:
        """Open a connection that no exchange has used."""
        if self._closed:
            raise UpstreamError("unreachable", "the proxy is closing")
        connection = await self._dialler.connect(self._release, self._open.discard)
        self._open.add(connection)
        return connection

    async def _stream(self, head: RequestHead, body: AsyncIterator[bytes]) -> "Exchange":
        framer = Framer(declared_length(head))
        encoded = encode(head, chunked=framer.chunked)
        exchange = Exchange(self, encoded, b"", bodiless=head.method == b"HEAD")
        # A body that can be read once goes on a fresh connection: a stale one could swallow its beginning.
        connection = await self.dial()
        answer = exchange.begin(connection, reused=False)
        connection.upload(asyncio.create_task(_upload(connection, answer, body, framer)))
        return exchange

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()[1]
            if connection.open:
                return connection
        return None

    def _release(self, connection: Connection) -> None:
        if self._closed or len(self._idle) >= MAX_IDLE:
            connection.drop()
            return
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), connection))
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        loop = asyncio.get_running_loop()
        while self._idle and self._idle[0][0] <= loop.time() - IDLE_S:
            self._idle.popleft()[1].drop()
        if self._idle:
            self._sweeper = loop.call_at(self._idle[0][0] + IDLE_S, self._sweep)


class Exchange:
    """Implements `upstream.base.Exchange`."""

    __slots__ = ("_aborted", "_answer", "_bodiless", "_body", "_client", "_head", "_reused")

    def __init__(self, client: Client, head: bytes, body: bytes, *, bodiless: bool) -> None:
        self._client = client
        self._head = head
        self._body = body
        self._bodiless = bodiless
        self._reused = False
        self._aborted = False
        self._answer: Answer | None = None

    def begin(self, connection: Connection, *, reused: bool) -> Answer:
        """Write the request to that connection."""
        self._reused = reused
        self._answer = connection.begin(bodiless=self._bodiless)
        connection.send(self._head, self._body)
        return self._answer

    async def response(self) -> Answer:
        """The answer's head; what a streamed body itself raised comes out here as it is."""
        answer = self._answer
        assert answer is not None
        try:
            await answer.head()
        except UpstreamError:
            if answer.started or not self._reused or self._aborted:
                raise
            answer = await self._again()
            await answer.head()
        return answer

    async def abort(self) -> None:
        """Close the connection now."""
        self._aborted = True
        if self._answer is not None:
            self._answer.stop()

    async def _again(self) -> Answer:
        connection = await self._client.dial()
        if self._aborted:
            connection.drop()
            raise UpstreamError("reset", "closed by the proxy")
        return self.begin(connection, reused=False)


async def _upload(connection: Connection, answer: Answer, body: AsyncIterator[bytes], framer: Framer) -> None:
    try:
        async for piece in body:
            connection.write(framer.piece(piece))
            await connection.drain()
        connection.write(framer.end())
    except Exception as error:  # noqa: BLE001 the caller's iterator may raise anything; `response` raises it again
        answer.fail(error)
    finally:
        if isinstance(body, AsyncGenerator):
            await body.aclose()


def make_upstream(backend_url: str) -> Client:
    """A pool for a backend address (http or https). The address's path is not added to targets."""
    return Client(backend_url)
