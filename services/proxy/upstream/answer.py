"""One answer as it arrives: owns the parser, the unread body bytes and the one waiter of an exchange.

A parser serves one answer only, because the body rule of HEAD cannot be told to it and because a broken
answer must not reach the next one.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol

import httptools

from services.proxy.upstream.base import Headers, Taker, UpstreamError

# An answer's head may fill this many bytes; hyper stops near 400 KB, Node at 16 KB, nginx at 8 KB.
MAX_HEAD = 256 << 10
# Reading stops above the first and starts again once all was taken. uvloop reads up to 256 KiB at a time, so
# a slow client holds at most about 320 KiB here.
HIGH_WATER = 64 << 10


class Link(Protocol):
    """The socket side of an answer."""

    def pause(self) -> None:
        """Stop reading."""

    def resume(self) -> None:
        """Read again."""

    def finished(self, *, reusable: bool) -> None:
        """The answer is complete; the connection serves no other purpose to it."""

    def drop(self) -> None:
        """Close at once."""


class Answer:
    """A response, from the first byte on; implements `upstream.base.Response` once `head` has returned."""

    __slots__ = (
        "_bodiless",
        "_error",
        "_fed",
        "_link",
        "_parser",
        "_paused",
        "_pieces",
        "_surplus",
        "_taker",
        "_unread",
        "_waiter",
        "_waits",
        "complete",
        "headed",
        "headers",
        "status",
    )

    def __init__(self, link: Link, *, bodiless: bool) -> None:
        self._link: Link | None = link
        self._bodiless = bodiless
        self._parser: Any = httptools.HttpResponseParser(self)
        # Some servers send a length beside chunked framing (ggml-org/llama.cpp#17734); RFC 9112 §6.3: chunked
        # decides.
        self._parser.set_dangerous_leniencies(lenient_chunked_length=True)
        self._fed = 0
        self._pieces: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._surplus = False
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._taker: Taker | None = None
        self._waits: Awaitable[None] | None = None
        self.headed = False
        self.complete = False
        self.status = 0
        self.headers: Headers = []

    @property
    def started(self) -> bool:
        """Whether any byte has arrived."""
        return self._fed > 0

    async def head(self) -> None:
        """Wait for the final answer's head. Raises what went wrong."""
        while not self.headed:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def more(self) -> bool:
        """Wait until body bytes are there to take; False at the end of the body. Raises what went wrong."""
        while not self._pieces:
            if self.complete:
                return False
            if self._error is not None:
                raise self._error
            await self._wait()
        return True

    async def pour(self, take: Taker) -> None:
        """Hand over the body as it arrives, until its end; see `upstream.base.Response.pour`."""
        while True:
            if self._pieces:
                waits = take(self.available())
            elif self.complete:
                return
            elif self._error is not None:
                raise self._error
            else:
                self._taker = take
                try:
                    await self._wait()
                finally:
                    self._taker = None
                waits, self._waits = self._waits, None
            if waits is not None:
                await waits

    def available(self) -> bytes:
        """Take the body bytes that have arrived."""
        pieces = self._pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._unread = 0
        if self._paused:
            self._paused = False
            if self._link is not None:
                self._link.resume()
        return data

    def stop(self) -> None:
        """Close the connection now unless the body is complete, when it has already been given back."""
        if self._link is not None:
            self.fail(UpstreamError("reset", "closed by the proxy"))

    def fail(self, error: BaseException) -> None:
        """End the answer with an error; what has arrived can still be read."""
        link, self._link = self._link, None
        if link is None:
            return
        self._error = error
        link.drop()
        self._wake()

    def feed(self, data: bytes) -> None:
        """Parse what the socket read."""
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._surplus = True
            if not self.complete:
                self.fail(UpstreamError("protocol", str(error)))
                return
        if self._taker is not None and self._pieces and self._passed_on(self._taker) and not self.complete:
            return
        if self.complete:
            self._end()
        elif self._unread > HIGH_WATER and not self._paused and self._link is not None:
            self._paused = True
            self._link.pause()
        elif not self.headed:
            if self._fed > MAX_HEAD:
                self.fail(UpstreamError("protocol", f"answer head over {MAX_HEAD} bytes"))
            return
        self._wake()

    def ended(self) -> None:
        """The peer sent all it will send: the end of a body without length, else an early end."""
        if self.complete or self._link is None:
            return
        if self.headed and self._until_close():
            self.complete = True
            self._surplus = True
            self._end()
            self._wake()
        else:
            self.fail(UpstreamError("reset", "connection ended before the answer did"))

    def on_message_begin(self) -> None:
        """Parser callback."""
        if self.complete:
            self._surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser callback; trailers are not kept."""
        if not self.headed:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Parser callback."""
        if self.complete:
            return
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self.headed = True
            if self._bodiless:
                self._surplus = not self._parser.should_keep_alive() and not self._until_close()
                self.complete = True

    def on_body(self, body: bytes) -> None:
        """Parser callback."""
        if not self.complete:
            self._pieces.append(body)
            self._unread += len(body)

    def on_message_complete(self) -> None:
        """Parser callback."""
        if self.headed and not self.complete:
            self.complete = True
            self._surplus = not self._parser.should_keep_alive()
        elif not self.headed:
            self.headers = []
            if self.status == 101:
                self.fail(UpstreamError("protocol", "the backend switched protocols unasked"))

    def _passed_on(self, take: Taker) -> bool:
        """Hand over what has arrived without waking who pours; whether more may be handed over at once."""
        try:
            self._waits = take(self.available())
        except Exception as error:  # noqa: BLE001 it belongs to who pours, and comes out there
            self.fail(error)
            return False
        if self._waits is not None:
            self._taker = None
        return self._waits is None

    def _end(self) -> None:
        link, self._link = self._link, None
        self._parser = None  # it holds this object: a reference cycle
        if link is not None:
            if self._paused:
                self._paused = False
                link.resume()
            link.finished(reusable=not self._surplus)

    def _until_close(self) -> bool:
        framed = (b"content-length", b"transfer-encoding")
        return not any(name.lower() in framed for name, _ in self.headers)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
