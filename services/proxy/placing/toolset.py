"""Two tool lists compared: as a multiset first, then each tool that both have. Pure.

A list in another order, with more or fewer tools, and with edited tools can all be true at once, and each has
its own cure, so each is its own breaker.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from services.proxy.flow import Breaker
from services.proxy.placing.blocks import edited, merged, whole
from services.proxy.placing.pieces import Piece, same

TELLING = 64  # bytes of description and parameters that two different tools hardly share

_TOOL = re.compile(r"tools\[(\d+)\]")
_NESTED = re.compile(r"tools\[\d+\]\.(?=tools\[)")


class Tool(NamedTuple):
    """One tool of a list; `name` is made unique when a list holds the same name twice.

    `nested` are the pieces of the tools inside it, with paths as if they were a list of their own.
    """

    name: str
    place: int
    pieces: list[Piece]
    nested: list[Piece]

    @property
    def size(self) -> int:
        """Bytes of its sections."""
        return sum(piece.size for piece in self.pieces) + sum(piece.size for piece in self.nested)

    def below(self, piece: Piece) -> str:
        """A section's path without the tool's position, so that moved tools can be compared."""
        return _TOOL.sub("", piece.path, count=1)


def tools_of(pieces: Sequence[Piece]) -> list[Tool]:
    """The tools of a list, by position."""
    tools: list[Tool] = []
    seen: Counter[str] = Counter()
    groups: dict[int, list[Piece]] = {}
    for piece in pieces:
        found = _TOOL.match(piece.path)
        groups.setdefault(int(found[1]) if found else 0, []).append(piece)
    for index in sorted(groups):
        label = next((piece.label for piece in groups[index] if piece.label), "")
        seen[label] += 1
        name = label if label and seen[label] == 1 else f"{label}#{seen[label]}"
        tools.append(Tool(name, index, *_parted(groups[index])))
    return tools


def _parted(pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    """A tool's own pieces, and those of the tools inside it."""
    if not any(".tools[" in piece.path for piece in pieces):
        return pieces, []
    own = [piece for piece in pieces if not _NESTED.match(piece.path)]
    nested = [p._replace(path=_NESTED.sub("", p.path, count=1)) for p in pieces if _NESTED.match(p.path)]
    return own, nested


def compare_tools(old: Sequence[Piece], new: Sequence[Piece], after: int) -> list[Breaker]:
    """All breakers between two tool lists; `after` is the bytes behind the list that are equal."""
    before, now = tools_of(old), tools_of(new)
    renamed = _renamed(before, now)
    then = {renamed.get(tool.name, tool.name): tool for tool in before}
    here = {tool.name: tool for tool in now}
    kept = [tool for tool in now if tool.name in then]
    edits = {tool.name: _edits(then[tool.name], tool) for tool in kept}
    behind = _Behind(now, {tool.name for tool in kept if not edits[tool.name]}, after)
    breakers = [b for tool in kept for b in _finished(edits[tool.name], tool, behind)]
    added = [tool for tool in now if tool.name not in then]
    removed = [tool for name, tool in then.items() if name not in here]
    if added:
        breakers.append(_listed("added", added[0].place, added, behind))
    if removed:
        breakers.append(_listed("removed", removed[0].place, removed, behind))
    order = [renamed.get(t.name, t.name) for t in before if renamed.get(t.name, t.name) in here]
    moved = _moved(order, [tool.name for tool in kept])
    if moved:
        first = next(tool for tool, name in zip(kept, order, strict=True) if tool.name != name)
        breakers.append(_listed("reorder", first.place, [here[name] for name in moved], behind))
    return sorted(breakers, key=lambda breaker: int(_TOOL.match(breaker.path)[1]))  # type: ignore[index]


class _Behind:
    """Bytes that stay equal behind a position of the newer list, were that position's change not there."""

    def __init__(self, tools: Sequence[Tool], unchanged: set[str], after: int) -> None:
        self._sizes = [(tool.place, tool.size) for tool in tools if tool.name in unchanged]
        self._after = after

    def __call__(self, index: int) -> int:
        return self._after + sum(size for at, size in self._sizes if at >= index)


def _edits(old: Tool, new: Tool) -> list[Breaker]:
    """Section by section, then what it holds; `equal_after` only counts the tool's own bytes so far."""
    if old.nested or new.nested:
        return [*_own_edits(old, new), *_nested_edits(old, new)]
    return _own_edits(old, new)


def _nested_edits(old: Tool, new: Tool) -> list[Breaker]:
    """The lists of tools inside two tools compared like the lists they stand in."""
    found = compare_tools(old.nested, new.nested, 0)
    for breaker in found:
        breaker.path = f"tools[{new.place}].{breaker.path}"
    return found


def _own_edits(old: Tool, new: Tool) -> list[Breaker]:
    then = {old.below(piece): piece for piece in old.pieces}
    here = {new.below(piece): piece for piece in new.pieces}
    equal = {path for path, piece in here.items() if path in then and same(then[path], piece)}
    if len(equal) == len(here) == len(then):
        return []
    found: list[Breaker] = []
    rest = 0
    for path in reversed(merged(list(here), list(then))):
        if path in equal:
            rest += here[path].size
        elif path in here and path in then:
            found.append(edited("tools", here[path].path, then[path], here[path], rest))
        else:
            where = f"tools[{new.place}]{path}"
            found.append(whole("tools", where, then.get(path), here.get(path), rest))
            found[-1].change = found[-1].change if path else "edit"  # the rest of a tool is no tool
    for breaker in found:
        breaker.names = (new.name,)
    return found[::-1]


def _finished(edits: list[Breaker], tool: Tool, behind: _Behind) -> list[Breaker]:
    for breaker in edits:
        breaker.equal_after += behind(tool.place + 1)
    return edits


def _listed(change: str, index: int, tools: Sequence[Tool], behind: _Behind) -> Breaker:
    size = sum(tool.size for tool in tools)
    return Breaker(
        section="tools", path=f"tools[{index}]", change=change, kind="json",
        inserted=size if change == "added" else 0, deleted=size if change == "removed" else 0,
        equal_after=behind(index), names=tuple(tool.name for tool in tools), count=len(tools),
    )  # fmt: skip


def _renamed(before: Sequence[Tool], now: Sequence[Tool]) -> dict[str, str]:
    """Old name → new name of tools that kept position and content: an edit of the name, not a swap."""
    old_names, new_names = {tool.name for tool in before}, {tool.name for tool in now}
    return {
        old.name: new.name
        for old, new in zip(before, now, strict=False)
        if old.name not in new_names and new.name not in old_names and _same_but_name(old, new)
    }


def _same_but_name(old: Tool, new: Tool) -> bool:
    then = {old.below(p): p for p in [*old.pieces, *old.nested] if p.kind != "name"}
    here = {new.below(p): p for p in [*new.pieces, *new.nested] if p.kind != "name"}
    if then.keys() != here.keys() or sum(piece.size for piece in here.values()) < TELLING:
        return False
    return all(same(then[path], here[path]) for path in here)


def _moved(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Names whose moving turns one order into the other: the shorter of moving some forward or some back."""
    if list(old) == list(new):
        return []
    forward, back = _skipped(old, new), _skipped(new, old)
    return forward if len(forward) <= len(back) else back


def _skipped(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Names of `new` that come before their turn, going through `old` in order."""
    early: dict[str, None] = {}
    waiting = iter(old)
    expected = next(waiting, None)
    for name in new:
        while expected in early:
            expected = next(waiting, None)
        if name == expected:
            expected = next(waiting, None)
        else:
            early[name] = None
    return list(early)
