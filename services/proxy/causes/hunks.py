"""What differs between two texts, as short pairs of places: the basis on which the recognisers decide.

Pure and linear: words are aligned greedily, looking ahead a bounded way after each difference, so that a
text of any size costs no more than its differing part, and that only up to a stated bound.
"""

import re
from typing import NamedTuple

MAX_CHARS = 32_768  # of the differing part that is aligned; what comes after it does not change the name
MAX_HUNKS = 200
LOOK_AHEAD = 96  # words searched for the place where both sides agree again
SYNC = 3  # equal words in a row that count as agreement: fewer would sync on "the" and commas
TOKEN = re.compile(r"\d+|[^\W\d_]+|\s+|[^\w\s]|_")


class Hunk(NamedTuple):
    """One difference: [old_start, old_end) of the old text became [new_start, new_end) of the new one."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class Edit(NamedTuple):
    """Two texts and their differences in order. `cut` says that the bound ended the search early."""

    old: str
    new: str
    hunks: tuple[Hunk, ...]
    cut: bool


def edit_of(old: bytes, new: bytes, offset: int = 0) -> Edit:
    """The differences of two UTF-8 texts known to be equal before byte `offset`."""
    before, after = old.decode("utf-8", "replace"), new.decode("utf-8", "replace")
    head = _common_head(before, after, len(old[:offset].decode("utf-8", "ignore")))
    tail = _common_tail(before, after, head)
    old_end, new_end = len(before) - tail, len(after) - tail
    cut = max(old_end, new_end) - head > MAX_CHARS
    old_end, new_end = min(old_end, head + MAX_CHARS), min(new_end, head + MAX_CHARS)
    hunks = _align(before[head:old_end], after[head:new_end])
    moved = tuple(_trim(before, after, Hunk(*(place + head for place in hunk))) for hunk in hunks)
    return Edit(
        before, after, tuple(h for h in moved if h.old_start < h.old_end or h.new_start < h.new_end), cut
    )


def _common_head(old: str, new: str, known: int) -> int:
    low = known if old[:known] == new[:known] else 0
    high = min(len(old), len(new))
    while low < high:  # halving keeps the comparison in C
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_tail(old: str, new: str, head: int) -> int:
    low, high = 0, min(len(old), len(new)) - head
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle : len(old) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _align(old: str, new: str) -> list[tuple[int, int, int, int]]:
    left, right = TOKEN.findall(old), TOKEN.findall(new)
    hunks: list[tuple[int, int, int, int]] = []
    i = j = at = to = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right) and left[i] == right[j]:
            at, to, i, j = at + len(left[i]), to + len(right[j]), i + 1, j + 1
            continue
        step = _resync(left, right, i, j) if len(hunks) < MAX_HUNKS else None
        di, dj = step or (len(left) - i, len(right) - j)
        end, stop = at + sum(map(len, left[i : i + di])), to + sum(map(len, right[j : j + dj]))
        hunks.append((at, end, to, stop))
        at, to, i, j = end, stop, i + di, j + dj
    return hunks


def _resync(left: list[str], right: list[str], i: int, j: int) -> tuple[int, int] | None:
    """How many words each side must skip until both agree for `SYNC` words; the fewest in sum."""
    places: dict[tuple[str, ...], int] = {}
    for dj in range(min(LOOK_AHEAD, len(right) - j) + 1):
        places.setdefault(tuple(right[j + dj : j + dj + SYNC]), dj)
    best: tuple[int, int] | None = None
    for di in range(min(LOOK_AHEAD, len(left) - i) + 1):
        found = places.get(tuple(left[i + di : i + di + SYNC]))
        if found is not None and di + found > 0 and (best is None or di + found < sum(best)):
            best = (di, found)
    return best


def _trim(old: str, new: str, hunk: Hunk) -> Hunk:
    """The hunk without the characters that its two sides share at their ends."""
    a, b, c, d = hunk
    head = _common_head(old[a:b], new[c:d], 0)
    tail = _common_tail(old[a:b], new[c:d], head)
    return Hunk(a + head, b - tail, c + head, d - tail)
