"""Recognisers for free text: what kind of thing changed inside a system prompt or an old message.

Each looks at one edit and says yes or no. They are tried in order, the narrow ones first; what none of them
knows is an ordinary edit. Pure.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from services.proxy.causes.blocks import enclosing, is_workspace
from services.proxy.causes.hunks import TOKEN, Edit, Hunk, edit_of
from services.proxy.causes.shapes import Shape, is_version, shape_at, skeleton

ATTRIBUTION = re.compile(
    r"^\s{0,8}x-[a-z0-9-]{0,40}(?:billing|attribution)[a-z0-9-]{0,40}:[^\n]{0,600}",
    re.IGNORECASE | re.MULTILINE,
)
ATTRIBUTION_REACH = 2_048  # the block stands at the head of the prompt, before any instruction
BLANK = re.compile(r"\s*\Z")


class Change(NamedTuple):
    """One edited text. `older` are texts of the same section from before the older side, newest first."""

    edit: Edit
    shapes: tuple[Shape | None, ...]
    older: Sequence[bytes]


Recogniser = Callable[[Change], bool]


def change_of(old: bytes, new: bytes, offset: int, older: Sequence[bytes] = ()) -> Change:
    """The change from `old` to `new`, with the shape of each of its differences."""
    edit = edit_of(old, new, offset)
    return Change(edit, tuple(_shape(edit, hunk) for hunk in edit.hunks), older)


def is_attribution(change: Change) -> bool:
    """A token that a client writes into its prompt to account for the call."""
    blocks = [_attribution(change.edit.old), _attribution(change.edit.new)]
    if None in blocks or not change.edit.hunks:
        return False
    first = change.edit.hunks[0]
    (a, b), (c, d) = blocks  # type: ignore[misc]
    return a <= first.old_start and first.old_end <= b and c <= first.new_start and first.new_end <= d


def is_timestamp(change: Change) -> bool:
    """A clock: both sides are time-shaped, to the minute (which 10 AM names) or finer; others may follow."""
    if not change.shapes or change.shapes[0] not in ("time", "date") or _all_in_workspace(change):
        return False
    return "time" in change.shapes


def is_date(change: Change) -> bool:
    """A calendar: both sides are dates without a time of day."""
    return bool(change.shapes) and change.shapes[0] == "date" and not _all_in_workspace(change)


def is_counter(change: Change) -> bool:
    """Only numbers, percentages or ratios differ."""
    edit = change.edit
    if edit.cut or not edit.hunks:
        return False
    return all(
        shape in ("number", "time", "date") or _levels(edit, hunk)
        for shape, hunk in zip(change.shapes, edit.hunks, strict=True)
    )


def is_workspace_snapshot(change: Change) -> bool:
    """A block about version control or the work tree."""
    return bool(change.edit.hunks) and _in_workspace(change.edit, change.edit.hunks[0])


def is_dynamic_block(change: Change) -> bool:
    """A tagged or titled block that changed last time too, and nothing outside it did now."""
    edit = change.edit
    if not edit.hunks or not change.older:
        return False
    block = enclosing(edit.old, edit.hunks[0].old_start)
    if not block.title or any(
        not block.start <= hunk.old_start <= hunk.old_end <= block.end for hunk in edit.hunks
    ):
        return False
    now = edit.old[block.start : block.end]
    for text in change.older:
        before = edit_of(text, edit.old.encode("utf-8", "replace"))
        if not before.hunks:
            continue
        return any(_inside(hunk, block.start, block.end) for hunk in before.hunks) and now not in before.old
    return False


def is_blank(old: bytes, new: bytes, offset: int) -> bool:
    """Whether only white space differs."""
    edit = edit_of(old, new, offset)
    return bool(edit.hunks) and all(
        BLANK.match(edit.old, h.old_start, h.old_end) and BLANK.match(edit.new, h.new_start, h.new_end)
        for h in edit.hunks
    )


RECOGNISERS: tuple[tuple[str, Recogniser], ...] = (
    ("client_attribution_token", is_attribution),
    ("timestamp", is_timestamp),
    ("date_rollover", is_date),
    ("workspace_snapshot", is_workspace_snapshot),
    ("counter", is_counter),
    ("dynamic_block", is_dynamic_block),
)


def recognise(change: Change) -> str | None:
    """The code of the first recogniser that knows the change, or None."""
    return next((code for code, knows in RECOGNISERS if knows(change)), None)


def _shape(edit: Edit, hunk: Hunk) -> Shape | None:
    old = shape_at(edit.old, hunk.old_start, hunk.old_end)
    new = shape_at(edit.new, hunk.new_start, hunk.new_end)
    if None in (old, new):
        return _first_shape(edit, hunk)
    if old == new == "number":  # a clock and a count side by side are one difference of digits and commas
        return _first_shape(edit, hunk) or old
    if old == new:
        return old
    return None if "number" in (old, new) else "time"


def _first_shape(edit: Edit, hunk: Hunk) -> Shape | None:
    """A clock or date that the difference begins with, where more than it changed."""
    old, new = TOKEN.match(edit.old, hunk.old_start), TOKEN.match(edit.new, hunk.new_start)
    if old is None or new is None or old.end() > hunk.old_end or new.end() > hunk.new_end:
        return None
    shapes = {shape_at(edit.old, *old.span()), shape_at(edit.new, *new.span())}
    return shapes.pop() if shapes in ({"time"}, {"date"}) else None


def _attribution(text: str) -> tuple[int, int] | None:
    found = ATTRIBUTION.search(text, 0, ATTRIBUTION_REACH)
    return found.span() if found else None


def _levels(edit: Edit, hunk: Hunk) -> bool:
    """Whether the lines of a difference are equal once their numbers and plurals are taken out."""
    old, new = _lines(edit.old, hunk.old_start, hunk.old_end), _lines(edit.new, hunk.new_start, hunk.new_end)
    if len(old) > 2_000 or len(new) > 2_000 or not re.search(r"\d", edit.old[hunk.old_start : hunk.old_end]):
        return False
    if is_version(edit.old, hunk.old_start, hunk.old_end) or is_version(
        edit.new, hunk.new_start, hunk.new_end
    ):
        return False
    return skeleton(old) == skeleton(new)


def _lines(text: str, start: int, end: int) -> str:
    low = max(text.rfind("\n", 0, start) + 1, start - 200)
    high = text.find("\n", end, end + 200)
    return text[low : high if high >= 0 else end + 200]


def _in_workspace(edit: Edit, hunk: Hunk) -> bool:
    return is_workspace(edit.old, hunk.old_start, hunk.old_end) or is_workspace(
        edit.new, hunk.new_start, hunk.new_end
    )


def _all_in_workspace(change: Change) -> bool:
    """Whether more than clocks changed, all of it in a work-tree block: then the block is the cause."""
    if all(shape in ("time", "date") for shape in change.shapes):
        return False
    return all(_in_workspace(change.edit, hunk) for hunk in change.edit.hunks[:8])


def _inside(hunk: Hunk, start: int, end: int) -> bool:
    return start <= hunk.new_start and hunk.new_end <= end
