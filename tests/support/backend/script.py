"""What a scripted backend is told to answer, and what it remembers of each request."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Framing = Literal["length", "chunked", "close", "http1.0", "none", "raw"]
End = Literal["keep", "close", "reset", "hang"]


@dataclass
class Received:
    """One request as it came over the socket. Instants are `time.monotonic` seconds."""

    head: bytes
    method: str
    target: str
    version: str
    headers: list[tuple[str, str]]
    at: float
    connection: int
    body: bytes = b""
    complete: bool = False
    answered_at: float | None = None
    gone_at: float | None = None

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever its case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def all(self, name: str) -> list[str]:
        """All values of a header in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Reply:
    """One answer. `writes` are (seconds to wait before it, bytes) pairs, each one write to the socket.

    `framing`: ``length`` and ``chunked`` (a write is a chunk) keep the connection; ``close`` and ``http1.0``
    end the body with it; ``none`` sends the head alone; ``raw`` sends the writes and nothing else, head
    included. `end`: what happens after the last write; ``reset`` sends RST, ``hang`` leaves connection and
    body open and reads nothing more.
    `early` answers as soon as the head has arrived, without reading the body.
    """

    status: int = 200
    reason: str = "Scripted"
    headers: list[tuple[str, str]] = field(default_factory=list)
    writes: list[tuple[float, bytes]] = field(default_factory=list)
    framing: Framing = "length"
    head_delay: float = 0.0
    end: End = "keep"
    early: bool = False
    length: int | None = None

    def head(self) -> bytes:
        """The status line and headers as bytes."""
        version = "1.0" if self.framing == "http1.0" else "1.1"
        lines = [f"HTTP/{version} {self.status} {self.reason}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.framing == "length":
            total = sum(len(data) for _, data in self.writes) if self.length is None else self.length
            lines.append(f"Content-Length: {total}")
        elif self.framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
        elif self.framing == "close":
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


Answering = Reply | Callable[[Received], Reply]


def body(data: bytes | str, *, status: int = 200, content_type: str = "text/plain", **more: Any) -> Reply:
    """A whole body in one write."""
    raw = data.encode() if isinstance(data, str) else data
    headers = [("Content-Type", content_type), *more.pop("headers", [])]
    return Reply(status=status, headers=headers, writes=[(0.0, raw)] if raw else [], **more)


def as_json(value: Any, *, status: int = 200, **more: Any) -> Reply:
    """A JSON body."""
    return body(json.dumps(value, ensure_ascii=False), status=status, content_type="application/json", **more)


def ndjson(values: Iterable[Any], *, gap: float = 0.0, first: float = 0.0, **more: Any) -> Reply:
    """A chunked NDJSON stream: one line a write, `first` seconds before the first, `gap` between them."""
    lines = [json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values]
    return _stream(lines, "application/x-ndjson", gap, first, more)


def sse(events: Iterable[Any], *, gap: float = 0.0, first: float = 0.0, **more: Any) -> Reply:
    """A chunked event stream; an event is JSON data, a (name, data) pair, or text sent as it is."""
    return _stream([_event(event) for event in events], "text/event-stream", gap, first, more)


def _event(event: Any) -> bytes:
    if isinstance(event, str):
        return event.encode()
    name, data = event if isinstance(event, tuple) else (None, event)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _stream(pieces: list[bytes], content_type: str, gap: float, first: float, more: dict[str, Any]) -> Reply:
    headers = [("Content-Type", content_type), *more.pop("headers", [])]
    writes = [(gap if i else first, piece) for i, piece in enumerate(pieces)]
    return Reply(headers=headers, writes=writes, framing=more.pop("framing", "chunked"), **more)


NEVER = Reply(framing="raw", end="hang")
"""Reads the request and never answers."""
SILENT_CLOSE = Reply(framing="raw", end="close")
"""Reads the request and closes without an answer."""
SILENT_RESET = Reply(framing="raw", end="reset")
"""Reads the request and resets the connection."""
