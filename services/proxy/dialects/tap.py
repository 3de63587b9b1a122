"""Listens to one answer, whatever its framing; owns the undecoded bytes of that answer and nothing longer.

Framing is told from the bytes, not from the media type, because gateways mislabel both ways. Until the first
generated token every read is looked at as it comes, for its time; after it reads are gathered, so that a busy
stream costs one pass over 32 KiB instead of one a token.
"""

from typing import Protocol

import msgspec

from services.proxy.dialects.base import Outcome, Reply, UnparsedError
from services.proxy.dialects.decoding import Decoding, UndecodedError
from services.proxy.dialects.ndjson import Lines
from services.proxy.dialects.reply import output_hash
from services.proxy.dialects.sse import Events
from services.proxy.dialects.usage_fields import tail_counters

MAX_WHOLE = 8 << 20  # an answer in one piece that is longer (embeddings) is read at its tail only
GATHER = 32 << 10  # about 150 deltas, 0.3 ms of reading
SNIFFED = 64  # bytes by which the framing is told; what shows none by then is one piece
TAIL = 64 << 10  # holds the counters of any answer too long to be kept

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")


class Reader(Protocol):
    """Understands one answer's events, or its one piece; fills `outcome`."""

    outcome: Outcome

    def event(self, name: bytes, data: bytes) -> bool:
        """Take one event; whether it carried generated text, reasoning or a call. May raise on bad JSON."""

    def whole(self, data: bytes) -> None:
        """Take an answer in one piece. May raise on bad JSON."""

    def reply(self) -> Reply | None:
        """What was said."""


class AnswerTap:
    """The `Tap` of every dialect; `lines` says that several JSON values are lines of a stream."""

    def __init__(self, reader: Reader, content_encoding: str, *, lines: bool) -> None:
        self.outcome = reader.outcome
        self._reader = reader
        self._lines = lines
        self._split: Events | Lines | None = None
        self._sniffed = False
        self._held: list[bytes] = []
        self._size = 0
        self._tail = b""
        self._gathering = False
        self._closed = False
        self._decoding: Decoding | None = None
        try:
            self._decoding = Decoding(content_encoding)
        except UndecodedError as error:
            self._give_up(str(error))

    def feed(self, data: bytes, now: float) -> None:
        """Take the next raw body bytes, received at `now`."""
        if self._gathering and self._size <= GATHER:
            self._held.append(data)
            self._size += len(data)
            return
        if self._decoding is None:
            return
        try:
            self._take(self._decoding.decode(data), now)
        except UndecodedError as error:
            self._give_up(str(error))
        except Exception as error:  # noqa: BLE001 a listener must never be the reason an answer stops
            self._give_up(f"tap_{type(error).__name__}")

    def close(self, now: float) -> Outcome:
        """The body ended, in whichever way."""
        if self._closed or self._decoding is None:
            return self.outcome
        self._closed = True
        try:
            self._finish(now)
        except Exception as error:  # noqa: BLE001 likewise
            self._give_up(f"tap_{type(error).__name__}")
        return self.outcome

    def _give_up(self, reason: str) -> None:
        self._decoding = None
        self._gathering = False
        self._held = []
        self.outcome.unparsed = reason

    def _take(self, data: bytes, now: float) -> None:
        if not data:
            return
        self._held.append(data)
        self._size += len(data)
        if not self._sniffed:
            self._sniff(b"".join(self._held) if len(self._held) > 1 else data)
        if self._split is not None:
            if self.outcome.first_token_at is None or self._size > GATHER:
                self._drain(now)
                plain = self._decoding is not None and self._decoding.plain
                self._gathering = plain and self.outcome.first_token_at is not None
        elif self._size > MAX_WHOLE:
            self._tail = (self._tail + b"".join(self._held))[-TAIL:]
            self._held = []

    def _sniff(self, data: bytes) -> None:
        """Decide the framing as soon as the first bytes show it; JSON in one piece needs no splitter."""
        start = data[:SNIFFED].removeprefix(b"\xef\xbb\xbf").lstrip()
        if start[:1] in (b"{", b"["):
            self._split = Lines() if self._lines else None
            self._sniffed = True
        elif start.startswith(_FIELDS):
            self._split = Events()
            self._sniffed = True
        elif len(data) >= SNIFFED:
            self._sniffed = True

    def _drain(self, now: float) -> None:
        assert self._split is not None
        data = b"".join(self._held)
        self._held = []
        self._size = 0
        self._read(self._split.feed(data), now)

    def _read(self, events: list[tuple[bytes, bytes]], now: float) -> None:
        outcome = self.outcome
        event = self._reader.event
        for name, data in events:
            try:
                spoke = event(name, data)
            except (msgspec.DecodeError, UnparsedError, RecursionError):
                continue
            if spoke:
                outcome.streamed_deltas += 1
                if outcome.first_token_at is None:
                    outcome.first_token_at = now

    def _finish(self, now: float) -> None:
        if self._split is not None:
            self._drain(now)
            self._read(self._split.close(), now)
        elif self._tail:
            self.outcome.unparsed = "too_large"
            self.outcome.reported |= tail_counters(self._tail + b"".join(self._held))
        elif self._held:
            self._whole(b"".join(self._held))
        self._held = []
        self.outcome.reply = self._reader.reply()
        if self.outcome.reply is not None:
            self.outcome.output_hash = output_hash(self.outcome.reply)

    def _whole(self, data: bytes) -> None:
        try:
            self._reader.whole(data)
        except (msgspec.DecodeError, UnparsedError, RecursionError):
            self.outcome.unparsed = "not_json"
