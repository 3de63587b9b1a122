"""Copies of bodies on their way to the history, for users who want them kept (METALANCHOR_STORE_BODIES).

Owns the copies that wait, bounded in bytes. A copy is worth less than a row in everything: it is never
spooled, it waits while the queue is busy, and the oldest give way and are counted, before any row does.
What is heavy about it (decoding, masking, compressing) happens in the outbox's thread.
"""

import threading
import zlib
from collections import deque

import msgspec

from services.bodies import Bodies
from services.proxy.dialects.base import Outcome, Tap
from services.proxy.dialects.decoding import Decoding, UndecodedError
from services.proxy.flow import Flow
from services.proxy.outbox.redaction import credentials, redacted

# Of each body the head is kept: three hundred kilobytes are an agent's long conversation.
KEPT = 512 << 10
# Some twenty long turns.
WAITING_BYTES = 16 << 20
BATCH_BYTES = 256 << 10
# A kilobyte of JSON text comes down to a fifth already at the least effort.
LEVEL = 1


class Copy:
    """The bodies of one request, as far as they are kept; `hear` takes the answer's bytes as they pass."""

    __slots__ = (
        "_answer",
        "answer_bytes",
        "encoding",
        "id",
        "received_at",
        "request",
        "request_bytes",
        "secrets",
    )

    def __init__(self, request_id: str, received_at: int, request: bytes, secrets: tuple[bytes, ...]) -> None:
        self.id, self.received_at = request_id, received_at
        self.request, self.request_bytes = request[:KEPT], len(request)
        self.secrets = secrets
        self.encoding = ""
        self._answer: list[bytes] = []
        self.answer_bytes = 0

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self.request) + min(self.answer_bytes, KEPT)

    def hear(self, data: bytes) -> None:
        """The next bytes of the answer."""
        left = KEPT - self.answer_bytes
        if left > 0:
            self._answer.append(data[:left])
        self.answer_bytes += len(data)

    def packed(self) -> Bodies:
        """Masked and compressed, as the worker gets it."""
        answer, whole = _plain(b"".join(self._answer), self.encoding)
        return Bodies(
            id=self.id,
            received_at=self.received_at,
            request=zlib.compress(redacted(self.request, self.secrets), LEVEL),
            request_bytes=self.request_bytes,
            request_cut=self.request_bytes > KEPT,
            answer=zlib.compress(redacted(answer, self.secrets), LEVEL) if self.answer_bytes else None,
            answer_bytes=self.answer_bytes,
            answer_cut=self.answer_bytes > KEPT or not whole,
        )


class Listening:
    """A tap that also fills a copy."""

    def __init__(self, tap: Tap, copy: Copy) -> None:
        self._tap, self._copy = tap, copy
        self.outcome = tap.outcome

    def feed(self, data: bytes, now: float) -> None:
        """Take the next raw body bytes."""
        self._copy.hear(data)
        self._tap.feed(data, now)

    def close(self, now: float) -> Outcome:
        """The body ended."""
        return self._tap.close(now)


class Copies:
    """Copies in order of arrival; `dropped` counts those that gave way or could not be queued."""

    def __init__(self, max_bytes: int = WAITING_BYTES) -> None:
        self._max = max_bytes
        self._waiting: deque[Copy] = deque()
        self._lock = threading.Lock()
        self._bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, copy: Copy) -> None:
        """Add one; the oldest give way."""
        with self._lock:
            self._waiting.append(copy)
            self._bytes += copy.size
            while self._bytes > self._max:
                self._pop()
                self.dropped += 1

    def take(self) -> list[bytes]:
        """The next batch, encoded; empty when nothing waits."""
        batch: list[bytes] = []
        size = 0
        while size < BATCH_BYTES and (copy := self._next()) is not None:
            batch.append(msgspec.json.encode(copy.packed()))
            size += len(batch[-1])
        return batch

    def _next(self) -> Copy | None:
        with self._lock:
            return self._pop() if self._waiting else None

    def _pop(self) -> Copy:
        copy = self._waiting.popleft()
        self._bytes -= copy.size
        return copy


def copy_of(flow: Flow, request: bytes, query: bytes) -> Copy:
    """The copy of a request whose body is complete."""
    return Copy(flow.id, flow.received_at, request, credentials(flow.headers, query))


def _plain(answer: bytes, encoding: str) -> tuple[bytes, bool]:
    """An answer as text would be, bounded; and whether that is all of it."""
    try:
        plain = Decoding(encoding).decode(answer)
    except UndecodedError:
        return b"", False
    return plain[:KEPT], len(plain) <= KEPT
