"""Answers as backends write them, cut as networks cut them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from services.proxy.dialects.base import Dialect, Outcome
from services.proxy.prompt import Prompt


def sse(*events: Any, end: bytes = b"\n") -> bytes:
    """Data-only events; a text is taken as it is."""
    return b"".join(b"data: " + _data(event) + end + end for event in events)


def named(*events: dict[str, Any], end: bytes = b"\n") -> bytes:
    """Events named by their type, as the Anthropic and Responses APIs send them."""
    return b"".join(
        b"event: " + event["type"].encode() + end + b"data: " + _data(event) + end + end for event in events
    )


def ndjson(*lines: Any) -> bytes:
    """One JSON value a line."""
    return b"".join(_data(line) + b"\n" for line in lines)


def _data(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The same bytes in reads of `size`."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


def heard(
    dialect: Dialect, reads: Iterable[bytes], *, prompt: Prompt | None = None, encoding: str = ""
) -> Outcome:
    """What a tap makes of reads that arrive one a second, the first at 1.0."""
    tap = dialect.tap(prompt, "", encoding)
    now = 0.0
    for now, data in enumerate(reads, 1):
        tap.feed(data, float(now))
    return tap.close(float(now))


def said(outcome: Outcome) -> list[tuple[str, str, str]]:
    """The reply's sections as (path, kind, text)."""
    if outcome.reply is None:
        return []
    return [(part.path, part.kind, part.text.decode()) for part in outcome.reply.sections]
