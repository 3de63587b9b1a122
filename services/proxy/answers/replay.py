"""A stored answer in the form that is asked for: its own pieces, or those of its other form. Pure."""

import json
from typing import Any, NamedTuple

import msgspec

from services.proxy.answers.base import Shape, Stored
from services.proxy.answers.forms import FORMS
from services.proxy.answers.forms.base import Event, Form, Object
from services.proxy.chunking.cut import UnparsedError
from services.proxy.dialects.ndjson import Lines
from services.proxy.dialects.sse import Events

CONTENT_TYPES: dict[Shape, bytes] = {
    "json": b"application/json",
    "sse": b"text/event-stream; charset=utf-8",
    "ndjson": b"application/x-ndjson",
}


class Replay(NamedTuple):
    """The answer as it goes out: its headers, and its body in pieces."""

    headers: list[tuple[bytes, bytes]]
    pieces: list[bytes]


def replay(stored: Stored, *, stream: bool, usage: bool) -> Replay | None:
    """The answer streamed or whole; None where it cannot be told so.

    `usage` is whether a stream is asked to report its usage: one that was stored without it cannot.
    """
    form = FORMS[stored.about.dialect]
    if not stream and stored.shape == "json":
        return Replay(stored.headers, stored.pieces)
    try:
        if not stream:
            whole = form.join(events_of(stored.shape, stored.body))
            return None if whole is None else _made(stored, "json", [_dump(whole)])
        if stored.shape == "json":
            events = form.split(json.loads(stored.body))
            kept = [event for event in events if usage or not form.only_usage(event)]
            return _made(stored, form.framing, _frames(form, kept))
        return _stream(form, stored, usage=usage)
    except (ValueError, KeyError, TypeError, AttributeError, UnparsedError, RecursionError):
        return None


def _stream(form: Form, stored: Stored, *, usage: bool) -> Replay | None:
    """The pieces as received; a usage event that only one of the two asked for makes a difference."""
    if usage == stored.usage:
        return Replay(stored.headers, stored.pieces)
    events = events_of(stored.shape, stored.body)
    kept = [event for event in events if not form.only_usage(event)]
    if len(kept) == len(events):
        whole = form.join(events) or {}
        silent = usage and form.end and whole.get("usage") is None
        return None if silent else Replay(stored.headers, stored.pieces)
    if usage:
        return Replay(stored.headers, stored.pieces)
    return _made(stored, stored.shape, _frames(form, kept))


def events_of(shape: Shape, body: bytes) -> list[Event]:
    """The events of a stream, without the mark at its end. Raises `ValueError` for what is no JSON."""
    split: Events | Lines = Events() if shape == "sse" else Lines()
    found = split.feed(body) + split.close()
    if split.dropped:
        raise ValueError("an event is too long")
    return [Event(name.decode("latin-1"), _load(data)) for name, data in found if data.strip() != b"[DONE]"]


def _load(data: bytes) -> Any:
    """JSON, at half the price where it is what the standard says."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # half a character, or a number that is none
        return json.loads(data)


def _frames(form: Form, events: list[Event]) -> list[bytes]:
    if form.framing == "ndjson":
        return [_dump(event.data) + b"\n" for event in events]
    frames = [
        (b"event: %b\n" % event.name.encode() if event.name else b"") + b"data: %b\n\n" % _dump(event.data)
        for event in events
    ]
    return [*frames, form.end] if form.end else frames


def _made(stored: Stored, shape: Shape, pieces: list[bytes]) -> Replay:
    kept = [header for header in stored.headers if header[0] != b"content-type"]
    return Replay([(b"content-type", CONTENT_TYPES[shape]), *kept], pieces)


def _dump(value: Object) -> bytes:
    """Compact JSON; text with half a character in it (two deltas had one each) is spelt in ASCII."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
