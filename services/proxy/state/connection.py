"""One connection to Redis: owns its socket, and who waits for which reply.

redis-py opens it, which knows addresses, TLS, passwords and databases; then this protocol takes the place of
its streams. Commands leave as they come and replies are matched by their order, so a request that was
cancelled cuts no conversation short, and no reply can reach the wrong reader. A script call costs some 20 µs
this way; through the client's pool, locks, time limits and retries it cost 250.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Self, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as LostError

Word = bytes | str | int | float
# Its own types allow for a single word only.
_pack = cast("Callable[[tuple[Word, ...]], bytes]", hiredis.pack_command)

# A connection that is silent for so long is closed: nobody waits for it by then.
SILENT_S = 1.0
# Commands that nobody waits for are put together and leave after this time, while no other process is there
# to read what they write: being woken for their replies alone took a twelfth of a request's time.
GATHER_S = 0.005
GATHER_MOST = 64


class Connection(asyncio.Protocol):
    """A connection; `lost` is told once, when it is of no more use, and `reason` then says why.

    `hurried` is for who is not alone: nothing is gathered.

    `scripts` by name are what Redis is given where it does not know the one of an ``EVALSHA``.
    """

    def __init__(self, scripts: Mapping[str, bytes], lost: Callable[["Connection"], None]) -> None:
        self._scripts, self._lost = scripts, lost
        self._loop = asyncio.get_running_loop()
        self._replies = hiredis.Reader()
        self._waiting: deque[tuple[asyncio.Future[Any] | None, tuple[Word, ...]]] = deque()
        self._written: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._watch: asyncio.TimerHandle | None = None
        self._heard = False
        self._told: list[Callable[[], tuple[Word, ...]]] = []
        self._flush: asyncio.Handle | None = None
        self.hurried = False
        self._fd = -1
        self._transport: asyncio.Transport
        self._aborting: asyncio.TimerHandle | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.reason: str | None = None

    @classmethod
    async def open(
        cls,
        connection: AbstractConnection,
        scripts: Mapping[str, bytes],
        lost: Callable[["Connection"], None],
    ) -> Self:
        """Connect. Raises redis-py's errors and `OSError`."""
        made = cls(scripts, lost)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        made._take(connection)
        return made

    @property
    def gone(self) -> bool:
        """Whether its socket is closed."""
        return self._closed.done()

    def ask(self, *words: Word) -> asyncio.Future[Any]:
        """The reply to a command, which leaves at once; None after an error or a lost connection."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self.reason is not None:
            answer.set_result(None)
            return answer
        self._put(words, answer)
        self._write(_pack(words))
        return answer

    def tell(self, words: Callable[[], tuple[Word, ...]]) -> None:
        """Send a command whose reply nobody waits for; it may be overtaken, and is made when it leaves."""
        if self.reason is not None:
            return
        self._told.append(words)
        if len(self._told) >= GATHER_MOST:
            self._say()
        elif self._flush is None:
            later = self._loop.call_later
            self._flush = self._loop.call_soon(self._say) if self.hurried else later(GATHER_S, self._say)

    async def written(self, timeout_s: float) -> None:
        """Wait until every command so far has its reply, or for so long."""
        self._say()
        if self._waiting and self.reason is None:
            self._written = self._written or self._loop.create_future()
            await asyncio.wait((self._written,), timeout=timeout_s)

    def end(self, reason: str) -> None:
        """Close; what was written still leaves, and whoever waits goes on without a reply."""
        if self.reason is not None:
            return
        self._say()
        self.reason = reason
        if self._watch is not None:
            self._watch.cancel()
        self._transport.close()
        self._aborting = self._loop.call_later(SILENT_S, self._transport.abort)
        waiting = list(self._waiting)
        self._waiting.clear()
        for answer, _ in waiting:
            if answer is not None and not answer.done():
                answer.set_result(None)
        self._settle()
        self._lost(self)

    async def close(self) -> None:
        """Close at once."""
        self.end("closed")
        self._transport.abort()
        await self._closed

    def data_received(self, data: bytes) -> None:
        """Asyncio callback."""
        self._heard = True
        replies, waiting = self._replies, self._waiting
        try:
            replies.feed(data)
            while self.reason is None and (reply := replies.gets()) is not False:
                if not waiting:
                    self.end("protocol")
                    return
                answer, words = waiting.popleft()
                if isinstance(reply, hiredis.ReplyError):
                    self._refused(reply, answer, words)
                elif answer is not None and not answer.done():
                    answer.set_result(reply)
        except hiredis.ProtocolError:
            self.end("protocol")
        if not waiting:
            self._settle()

    def eof_received(self) -> None:
        """Asyncio callback; returning nothing closes the transport."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio callback."""
        del exc  # its text may hold an address
        self.end("connection lost")
        if self._aborting is not None:
            self._aborting.cancel()
        self._writer = None
        if not self._closed.done():
            self._closed.set_result(None)

    def _take(self, connection: AbstractConnection) -> None:
        """Stand in for the client's streams. Its writer is kept: letting go of it would close the socket."""
        writer = connection._writer  # noqa: SLF001 the client offers no other way to its transport
        if writer is None:
            raise LostError("closed")
        connection._writer = connection._reader = None  # noqa: SLF001 so that it warns of nothing left open
        self._writer = writer
        self._transport = cast("asyncio.Transport", writer.transport)
        self._transport.set_protocol(self)
        sock = self._transport.get_extra_info("socket")
        encrypted = self._transport.get_extra_info("sslcontext") is not None
        self._fd = -1 if encrypted or sock is None else sock.fileno()

    def _say(self) -> None:
        """Write what nobody waits for."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        told, self._told = self._told, []
        if not told or self.reason is not None:
            return
        commands = [words() for words in told]
        for command in commands:
            self._put(command, None)
        self._write(b"".join([_pack(command) for command in commands]))

    def _write(self, data: bytes) -> None:
        """Write past the transport, which would wait for the loop to turn."""
        if self._fd >= 0 and not self._transport.is_closing() and not self._transport.get_write_buffer_size():
            with contextlib.suppress(OSError):  # full: the transport waits; broken: it reports the same
                data = data[os.write(self._fd, data) :]
        if data:
            self._transport.write(data)

    def _put(self, words: tuple[Word, ...], answer: asyncio.Future[Any] | None) -> None:
        self._waiting.append((answer, words))
        if self._watch is None:
            self._heard = False
            self._watch = self._loop.call_later(SILENT_S, self._look)

    def _look(self) -> None:
        """Whether anything was heard since the last look, while something was waited for."""
        self._watch = None
        if not self._waiting:
            return
        if not self._heard:
            self.end("silent")
            return
        self._heard = False
        self._watch = self._loop.call_later(SILENT_S, self._look)

    def _refused(
        self, error: hiredis.ReplyError, answer: asyncio.Future[Any] | None, words: tuple[Word, ...]
    ) -> None:
        code = str(error).partition(" ")[0]
        if code == "NOSCRIPT" and words[0] == b"EVALSHA":
            again = (b"EVAL", self._scripts[str(words[1])], *words[2:])
            self._put(again, answer)
            self._write(_pack(again))
            return
        if answer is not None and not answer.done():
            answer.set_result(None)
        self.end(code[:20])

    def _settle(self) -> None:
        if self._written is not None:
            if not self._written.done():
                self._written.set_result(None)
            self._written = None
