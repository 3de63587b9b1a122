"""The chunk strip: a prompt as a row of blocks as wide as their tokens, in numbers for the template. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.proxy.admin.pages import meanings
from services.proxy.admin.pages.language import Speech
from services.proxy.admin.pages.words import count, measured_reuse
from services.proxy.admin.strips import Block

WIDTH = 1_000  # the drawing's own units; it scales to the page
# Blocks narrower than this run together: neighbours in the same state are drawn as one.
NARROW = 2.0


class Part(msgspec.Struct, kw_only=True):
    """One rectangle: `x` and `width` in the drawing's units, `title` for the pointer and for readers."""

    x: float
    width: float
    state: str
    title: str


class Line(msgspec.Struct, kw_only=True):
    """One chunk in the list below the drawing."""

    name: str
    state: str
    tokens: str


class Drawing(msgspec.Struct, kw_only=True):
    """`measured` is where the engine's own count of reused tokens ends; None is unknown.

    `exact` says that widths are by size; else every block is alike. `counts` are chunks by state.
    """

    parts: list[Part]
    lines: list[Line]
    measured: float | None
    exact: bool
    counts: dict[str, int]


def draw(blocks: Sequence[Block], row: Mapping[str, Any], *, exact: bool, say: Speech) -> Drawing:
    """The drawing of a request's chunks."""
    parts: list[Part] = []
    lines: list[Line] = []
    counts: dict[str, int] = {}
    at, reusable = 0.0, (row.get("predicted_reuse") or 0.0) * WIDTH if exact else 0.0
    for block in blocks:
        name, end = _name(block, say), at + block.share * WIDTH
        counts[block.state] = counts.get(block.state, 0) + 1
        lines.append(Line(name=name, state=block.state, tokens=count(block.tokens)))
        if block.state == "changed" and at < reusable < end:
            # The head of the chunk that differs is reusable up to the byte.
            _add(parts, at, reusable, "reused", _title(block, name, "reused", say))
            at = reusable
        _add(parts, at, end, block.state, _title(block, name, block.state, say))
        at = end
    share = measured_reuse(dict(row))
    return Drawing(
        parts=parts,
        lines=lines,
        measured=None if share is None or not blocks else round(share * WIDTH, 1),
        exact=exact,
        counts=counts,
    )


def _add(parts: list[Part], start: float, end: float, state: str, title: str) -> None:
    last = parts[-1] if parts else None
    if last and min(end - start, last.width) < NARROW and last.state == state:
        last.width = round(end - last.x, 2)
    else:
        parts.append(Part(x=round(start, 2), width=round(end - start, 2), state=state, title=title))


def _name(block: Block, say: Speech) -> str:
    kind, role = say(meanings.CHUNKS.get(block.kind, "message")), meanings.ROLES.get(block.role, "")
    return f"{block.index + 1}. {kind}" + (f" · {say(role)}" if role and block.kind == "m" else "")


def _title(block: Block, name: str, state: str, say: Speech) -> str:
    tokens = "" if block.tokens is None else " · " + say("about {n} tokens", n=count(block.tokens))
    return f"{name} · {say(meanings.CHUNK_STATES[state])}{tokens}"
