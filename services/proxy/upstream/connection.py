"""One socket to the backend: owns the transport and who may write to it.

Requests leave through the socket itself, not the transport: uvloop gathers a transport's writes until the
loop turns, and the analysis that follows would hold the request back meanwhile.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from services.proxy.upstream.answer import Answer
from services.proxy.upstream.base import UpstreamError


class Connection(asyncio.Protocol):
    """A connection that serves one exchange at a time; `released` is told when it is free again."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        plain: bool,
        released: Callable[["Connection"], None],
        lost: Callable[["Connection"], None],
    ) -> None:
        self._socket = sock if plain else None
        self._released = released
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._writable: asyncio.Event | None = None
        self._upload: asyncio.Task[None] | None = None

    @property
    def open(self) -> bool:
        """Whether a request may be written."""
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, *, bodiless: bool) -> Answer:
        """Start an exchange: what is read from now on is its answer."""
        self._answer = Answer(self, bodiless=bodiless)
        return self._answer

    def send(self, head: bytes, body: bytes) -> None:
        """Write head and body at once, as far as the socket takes them; the transport writes the rest."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        sent = 0
        if self._socket is not None:
            try:
                sent = self._socket.sendmsg((head, body) if body else (head,))
            except OSError:
                sent = 0  # full: the transport waits; broken: the transport finds the same and reports it
        if sent < len(head):
            transport.write(head[sent:])
            sent = len(head)
        if sent - len(head) < len(body):
            transport.write(memoryview(body)[sent - len(head) :])

    def write(self, data: bytes) -> None:
        """Write a piece of a streamed body."""
        if self._transport is not None:
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the backend has taken enough of what was written."""
        if self._writable is not None:
            await self._writable.wait()

    def upload(self, task: asyncio.Task[None]) -> None:
        """Tie a streamed body to the exchange: it ends when the exchange does."""
        self._upload = task
        task.add_done_callback(self._uploaded)

    def _uploaded(self, task: asyncio.Task[None]) -> None:
        if self._upload is task:
            self._upload = None

    def pause(self) -> None:
        """Stop reading."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def finished(self, *, reusable: bool) -> None:
        """Take the connection back; one with a request half written is worth nothing."""
        transport = self._transport
        written = transport is not None and self._upload is None and transport.get_write_buffer_size() == 0
        if not (reusable and written):
            self.drop()
            return
        self._answer = None
        self._released(self)

    def close(self) -> None:
        """Close at once and end the exchange, if there is one, with an error."""
        if self._answer is not None:
            self._answer.stop()
        else:
            self.drop()

    def drop(self) -> None:
        """Close at once, in any phase; the exchange knows."""
        self._answer = None
        if self._upload is not None:
            self._upload.cancel()
            self._upload = None
        if self._writable is not None:
            self._writable.set()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio callback."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Asyncio callback; bytes nobody asked for end the connection."""
        if self._answer is None:
            self.drop()
        else:
            self._answer.feed(data)

    def eof_received(self) -> None:
        """Asyncio callback; returning nothing closes the transport."""
        if self._answer is not None:
            self._answer.ended()

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio callback."""
        if self._answer is not None:
            self._answer.fail(UpstreamError("reset", str(exc or "connection closed")))
        self.drop()
        self._lost(self)

    def pause_writing(self) -> None:
        """Asyncio callback."""
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        """Asyncio callback."""
        if self._writable is not None:
            self._writable.set()
            self._writable = None
