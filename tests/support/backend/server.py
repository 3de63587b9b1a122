"""A scripted HTTP backend on a raw socket, in a thread and event loop of its own.

It owns what it was told to answer and the list of what it received. Being a thread of its own, it also serves
tests that block in a synchronous client.
"""

import asyncio
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import cast

from tests.support.backend.script import Answering, Received, Reply

# What a proxy asks a model server at its start and while requests come; no queued answer is meant for it.
PROBES = frozenset({
    "/api/v0/models", "/api/v1/models", "/api/version", "/api/tags", "/health", "/props", "/v1/models",
    "/version",
})  # fmt: skip


class Backend:
    """Listens on a free port of loopback from `start` to `stop`."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.host = host
        self.port = port
        self.requests: list[Received] = []
        self.peak_active = 0
        self.connections_made = 0
        self._tls = tls
        self._active: set[int] = set()
        self._open: set[_Connection] = set()
        self._default: Answering = Reply()
        self._routes: dict[str, Answering] = {}
        self._queue: deque[Answering] = deque()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted-backend", daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The address to configure."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    @property
    def open_connections(self) -> int:
        """Connections open now."""
        return len(self._open)

    @property
    def active(self) -> int:
        """Requests being answered now."""
        return len(self._active)

    def answer(self, answering: Answering, path: str | None = None) -> None:
        """Answer every request so, or every request to one path (without query)."""
        if path is None:
            self._default = answering
        else:
            self._routes[path] = answering

    def queue(self, *answerings: Answering) -> None:
        """Answer the next requests so, in order, before anything else applies, probes apart."""
        self._queue.extend(answerings)

    def reset(self) -> None:
        """Forget what was scripted and received."""
        self._queue.clear()
        self._routes.clear()
        self._default = Reply()
        self.requests.clear()
        self.peak_active = 0

    def start(self) -> "Backend":
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def stop(self) -> None:
        """Close everything."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def drop_idle(self) -> None:
        """Close connections that wait for a request, as a server's idle limit does."""
        self._on_loop(lambda: [c.close() for c in list(self._open) if not c.busy])

    def unlisten(self) -> None:
        """Stop listening and reset all connections: the server went down."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10)

    def relisten(self) -> None:
        """Listen again on the same port."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def wait(self, condition: Callable[[], bool], limit: float = 10.0) -> None:
        """Block until the condition holds; fails after `limit` seconds."""
        deadline = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < deadline, "the backend never saw what the test waits for"
            time.sleep(0.002)

    async def until(self, condition: Callable[[], bool], limit: float = 10.0) -> None:
        """Wait until the condition holds; fails after `limit` seconds."""
        deadline = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < deadline, "the backend never saw what the test waits for"
            await asyncio.sleep(0.002)

    def _on_loop(self, action: Callable[[], object]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (action(), done.set()))
        done.wait(10)

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(
            lambda: _Connection(self), self.host, self.port, ssl=self._tls, backlog=2048
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        """Stop listening and reset everything, including connections that are just being accepted."""
        if self._server is not None:
            await asyncio.sleep(0.005)  # asyncio leaks a connection that it accepts for a closed server
            self._server.close()
            self._server = None
        quiet = 0
        while quiet < 3:
            for connection in list(self._open):
                connection.reset()
            await asyncio.sleep(0.002)
            quiet = 0 if self._open or len(asyncio.all_tasks()) > 1 else quiet + 1

    def _scripted(self, received: Received) -> Answering:
        if self._queue and not (received.method == "GET" and received.path in PROBES):
            return self._queue.popleft()
        return self._routes.get(received.path, self._default)


class _Connection(asyncio.Protocol):
    """One client: reads a request, answers it as scripted, then the next."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._buffer = bytearray()
        self._more = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False
        self._current: Received | None = None

    @property
    def busy(self) -> bool:
        return self._current is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._backend.connections_made += 1
        self._number = self._backend.connections_made
        self._backend._open.add(self)
        self._task = asyncio.ensure_future(self._serve())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._more.set()
        if len(self._buffer) > 1 << 20:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        self._gone()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        self._backend._open.discard(self)
        self._writable.set()
        self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def close(self) -> None:
        self._transport.close()

    def reset(self) -> None:
        sock = self._transport.get_extra_info("socket")
        if sock is not None and not self._transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _gone(self) -> None:
        self._ended = True
        self._more.set()
        if self._current is not None and self._current.gone_at is None:
            self._current.gone_at = time.monotonic()
            self._backend._active.discard(id(self._current))

    async def _serve(self) -> None:
        while not self._ended:
            received = await self._head()
            if received is None:
                break
            backend = self._backend
            self._current = received
            backend._active.add(id(received))
            backend.peak_active = max(backend.peak_active, len(backend._active))
            try:
                await self._exchange(received)
            finally:
                backend._active.discard(id(received))
            self._current = None
        self._transport.close()

    async def _exchange(self, received: Received) -> None:
        self._backend.requests.append(received)
        scripted = self._backend._scripted(received)
        if isinstance(scripted, Reply) and scripted.early:
            await self._answer(received, scripted)
            if not self._ended:
                await self._body(received)
            return
        await self._body(received)
        await self._answer(received, scripted if isinstance(scripted, Reply) else scripted(received))

    async def _answer(self, received: Received, reply: Reply) -> None:
        if reply.head_delay:
            await asyncio.sleep(reply.head_delay)
        if reply.framing != "raw":
            self._transport.write(reply.head())
        received.answered_at = time.monotonic()
        if received.method != "HEAD" and reply.framing != "none":
            await self._writes(reply)
        await self._finish(reply)

    async def _writes(self, reply: Reply) -> None:
        for delay, data in reply.writes:
            if delay:
                await asyncio.sleep(delay)
            if reply.framing == "chunked":
                self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            else:
                self._transport.write(data)
            await self._writable.wait()

    async def _finish(self, reply: Reply) -> None:
        if reply.end == "hang":
            await asyncio.get_running_loop().create_future()
        if reply.end == "reset":
            await asyncio.sleep(0.02)  # what was written leaves before the RST overtakes it
            self.reset()
            return
        if reply.framing == "chunked" and reply.end == "keep":
            self._transport.write(b"0\r\n\r\n")
        if reply.end == "close" or reply.framing in {"close", "http1.0"}:
            self._transport.close()
            self._ended = True

    async def _head(self) -> Received | None:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not await self._read():
                return None
        head = bytes(self._buffer[: end + 4])
        del self._buffer[: end + 4]
        first, *lines = head[:end].decode("latin-1").split("\r\n")
        method, target, version = first.split(" ", 2)
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        return Received(head, method, target, version, headers, time.monotonic(), self._number)

    async def _body(self, received: Received) -> None:
        if "chunked" in (received.header("transfer-encoding") or "").lower():
            while size := int(await self._line(), 16):
                received.body += await self._exactly(size)
                await self._line()
            await self._line()
        else:
            received.body = await self._exactly(int(received.header("content-length") or 0))
        received.complete = True

    async def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            if not await self._read():
                raise asyncio.CancelledError
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if not await self._read():
                raise asyncio.CancelledError
        return (await self._exactly(end + 2))[:-2]

    async def _read(self) -> bool:
        self._more.clear()
        if self._ended:
            return False
        self._transport.resume_reading()
        await self._more.wait()
        return not self._ended
