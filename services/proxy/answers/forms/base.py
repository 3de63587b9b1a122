"""The interface of a form, and the few rules of growing JSON from deltas that several share. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

Object = dict[str, Any]


class Event(NamedTuple):
    """One event of a stream: its name (often empty) and its JSON."""

    name: str
    data: Any


class Form(Protocol):
    """How one dialect says an answer in one piece and as a stream."""

    @property
    def framing(self) -> Literal["sse", "ndjson"]:
        """How its events are framed."""

    @property
    def end(self) -> bytes:
        """What follows the last event."""

    def join(self, events: list[Event]) -> Object | None:
        """The answer in one piece that a stream amounts to; None where it is broken, or not at its end."""

    def split(self, whole: Object) -> list[Event]:
        """A stream that amounts to an answer in one piece."""

    def complete(self, whole: Object, asked: Mapping[str, Any]) -> bool:
        """Whether the answer to the body `asked` ended as the model wanted it to, and says something."""

    def only_usage(self, event: Event) -> bool:
        """Whether an event is there only because its stream was asked for usage."""


class BrokenError(ValueError):
    """A stream that no whole answer can be made of."""


def grow(target: Object, delta: Mapping[str, Any]) -> None:
    """Add a delta's members: texts and lists are appended to, anything else takes the last place."""
    for name, value in delta.items():
        held = target.get(name)
        if value is None and held is not None:
            continue
        if isinstance(value, str) and isinstance(held, str):
            target[name] = held + value
        elif isinstance(value, list) and isinstance(held, list):
            target[name] = [*held, *value]
        elif isinstance(held, dict) and isinstance(value, dict):
            grow(held, value)
        else:
            target[name] = dict(value) if isinstance(value, dict) else value


def overlay(target: Object, newer: Mapping[str, Any]) -> None:
    """Put newer members in place of older ones, unless they are null."""
    for name, value in newer.items():
        if isinstance(target.get(name), dict) and isinstance(value, dict):
            overlay(target[name], value)
        elif value is not None or name not in target:
            target[name] = value


def is_json(text: object) -> bool:
    """Whether a call's arguments are whole JSON; none at all count as whole."""
    if not isinstance(text, str):
        return isinstance(text, dict)
    try:
        json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return True


def objects(value: object) -> list[Object]:
    """The objects of a list; empty where it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
