"""Keeps one answer's bytes while they pass, to be stored once it is complete; owns them for so long.

It stands where the tap does and hands on what it hears, so the relay knows one listener. The copy is decoded
and bounded; what cannot be kept is let go of, and the answer passes all the same.
"""

import json
from collections.abc import Mapping
from typing import Any

from services.proxy.answers.base import Shape
from services.proxy.answers.forms import FORMS
from services.proxy.answers.forms.base import Form
from services.proxy.answers.replay import events_of
from services.proxy.dialects.base import Outcome, Tap
from services.proxy.dialects.decoding import Decoding, UndecodedError

# The longest answer that is kept, decoded: a hundred times that of a long agent turn (40 KB as a stream).
MOST = 4 << 20
# What stands in the last event of a stream, by which a repeat of the request is known to come after it.
_ENDS = (b"[DONE]", b'"message_stop"', b"response.completed", b'"done":true', b'"done": true')


class Recorder:
    """A `Tap` around another one; `headers` are the answer's, names in lower case."""

    def __init__(self, tap: Tap, encoding: str, headers: list[tuple[bytes, bytes]]) -> None:
        self._tap = tap
        self.headers = headers
        self.outcome = tap.outcome
        self._size = 0
        self._closed = False
        self.pieces: list[bytes] | None = []
        try:
            self._decoding = Decoding(encoding)
        except UndecodedError:
            self.pieces = None

    def feed(self, data: bytes, now: float) -> None:
        """Take the next raw body bytes."""
        self._tap.feed(data, now)
        if self.pieces is None:
            return
        try:
            plain = self._decoding.decode(data)
        except UndecodedError:
            self.pieces = None
            return
        self._size += len(plain)
        if self._size > MOST:
            self.pieces = None
        elif plain:
            self.pieces.append(plain)

    def close(self, now: float) -> Outcome:
        """The body ended, in whichever way."""
        self._closed = True
        return self._tap.close(now)

    @property
    def ending(self) -> bool:
        """Whether the body ended, or its last event has come."""
        last = b"".join(self.pieces[-2:]) if self.pieces else b""
        return self._closed or any(mark in last for mark in _ENDS)


def shape_of(form: Form, pieces: list[bytes], *, stream: bool) -> Shape | None:
    """How an answer is framed, told from its bytes; None where that is not what was asked for."""
    if not stream:
        return "json" if b"".join(pieces).lstrip().startswith(b"{") else None
    return form.framing


def is_complete(dialect: str, shape: Shape, body: bytes, asked: Mapping[str, Any]) -> bool:
    """Whether an answer ended as the model wanted it to, for every choice, without an error on the way."""
    form = FORMS[dialect]
    try:
        whole = json.loads(body) if shape == "json" else form.join(events_of(shape, body))
        return isinstance(whole, dict) and form.complete(whole, asked)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
