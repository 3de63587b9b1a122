"""Passing the answer on: as it came, as soon as it came, while a tap listens.

Owns what of one answer has left. Headers wait for what they should say, but never long: a stream's for its
first byte, a whole answer's for its end, both within a limit.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from services.proxy.answers.flights import Flight
from services.proxy.answers.recorder import Recorder
from services.proxy.dialects.base import Tap
from services.proxy.flow import Flow
from services.proxy.outbox.copies import Copy, Listening
from services.proxy.upstream.base import Response, UpstreamError
from services.proxy.wire.errors import BrokenAnswerError
from services.proxy.wire.headers import Headers, added_headers, relayed_headers, value_of

Send = Callable[[dict[str, Any]], Awaitable[None]]

# A stream's headers wait for the first body byte, since the first token's time and the verdict belong into
# them; but a client that limits the time to headers must not be the proxy's doing.
STREAM_HOLD_S = 1.0
# A whole answer's headers wait for its end, so that the engine's counters are in them.
WHOLE_HOLD_S = 0.05
WHOLE_HOLD_BYTES = 8 << 20
# What granian's `send` returns when it has taken the message already: there is nothing to wait for. It keeps
# the type to itself.
DONE = "PyEmptyAwaitable"


class Relay:
    """One answer on its way to the client. `settle` is called when it is whole, before its headers."""

    def __init__(self, flow: Flow, send: Send, settle: Callable[[], None]) -> None:
        self._flow, self._send, self._settle = flow, send, settle
        self._tap: Tap | None = None
        self._response: Response | None = None
        self._held = b""
        self.started = False
        self.copy: Copy | None = None
        self.flight: Flight | None = None

    async def replay(self, headers: Headers, pieces: list[bytes], *, whole: bool) -> None:
        """Send an answer of the response cache; one that is no stream as a whole."""
        self._flow.http_status = 200
        headers = [*headers, *added_headers(self._flow, complete=True)]
        if whole:
            headers.append((b"content-length", b"%d" % sum(map(len, pieces))))
        self.started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        self._flow.relayed_at = time.perf_counter()
        for piece in [b"".join(pieces)] if whole else pieces:
            await self._send({"type": "http.response.body", "body": piece, "more_body": not whole})
        if not whole:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def pass_on(self, response: Response, *, bodiless: bool) -> None:
        """Relay head and body. Raises `BrokenAnswerError` where the backend's answer breaks off."""
        flow, self._response = self._flow, response
        flow.answered_at, flow.http_status = time.perf_counter(), response.status
        if bodiless:
            await self._finish(b"")
            return
        self._tap = self._listen(response)
        try:
            await self._hold(response)
            if response.complete:
                await self._finish(self._held)
                return
            await self._start()
            if not self._held and await response.more():
                flow.first_byte_at = time.perf_counter()
            await response.pour(self._pass)
        except UpstreamError as error:
            if not self.started:
                await self._start()
            raise BrokenAnswerError(error.code) from error
        self.close()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def close(self) -> None:
        """The answer ended, in whichever way: what the tap heard becomes the flow's outcome."""
        tap, self._tap = self._tap, None
        if tap is not None:
            self._flow.outcome = tap.close(time.perf_counter())

    def _listen(self, response: Response) -> Tap | None:
        flow = self._flow
        if flow.dialect is None:
            return None
        lowered = [(name.lower(), value) for name, value in response.headers]
        kind = value_of(lowered, b"content-type") or b""
        encoding = value_of(lowered, b"content-encoding") or b""
        tap: Tap = flow.dialect.tap(flow.prompt, kind.decode("latin-1"), encoding.decode("latin-1"))
        flow.outcome = tap.outcome
        if self.copy is not None:
            self.copy.encoding = encoding.decode("latin-1")
            tap = Listening(tap, self.copy)
        if self.flight is not None:
            tap = self.flight.recorder = Recorder(tap, encoding.decode("latin-1"), lowered)
        return tap

    async def _hold(self, response: Response) -> None:
        """Take in what of the body may come before the headers leave."""
        prompt = self._flow.prompt
        self._take(response)
        if response.complete or prompt is None or (prompt.stream and self._held):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STREAM_HOLD_S if prompt.stream else WHOLE_HOLD_S):
                while await response.more():
                    self._take(response)
                    if response.complete or prompt.stream or len(self._held) > WHOLE_HOLD_BYTES:
                        return
        self._take(response)  # it may have come with the end of the time

    def _take(self, response: Response) -> None:
        """Take what has arrived, and let the tap hear it when it arrives."""
        data = response.available()
        if data:
            now = time.perf_counter()
            self._flow.first_byte_at = self._flow.first_byte_at or now
            if self._tap is not None:
                self._tap.feed(data, now)
            self._held = self._held + data if self._held else data

    async def _start(self) -> None:
        """Let the headers leave, with what there is of the body: granian holds a bare head back."""
        await self._send(self._head(complete=False))
        self._flow.relayed_at = time.perf_counter()
        self.started = True
        await self._more(self._held)

    async def _more(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    def _pass(self, data: bytes) -> Awaitable[None] | None:
        """Pass on what has arrived, then let the tap hear it; what is returned has to be waited for."""
        now = time.perf_counter()
        sent = self._send({"type": "http.response.body", "body": data, "more_body": True})
        if self._tap is not None:
            self._tap.feed(data, now)
        return None if type(sent).__name__ == DONE else sent

    async def _finish(self, data: bytes) -> None:
        """Send an answer that is whole before anything of it left."""
        self.close()
        self._settle()
        head = self._head(complete=True)
        await self._send(head)
        self.started = True
        self._flow.relayed_at = time.perf_counter()
        if value_of(head["headers"], b"content-length") is None:
            # As one message it would get a Content-Length that the backend did not send.
            await self._more(data)
            data = b""
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    def _head(self, *, complete: bool) -> dict[str, Any]:
        assert self._response is not None
        headers = relayed_headers(self._response.headers) + added_headers(self._flow, complete=complete)
        return {"type": "http.response.start", "status": self._response.status, "headers": headers}
