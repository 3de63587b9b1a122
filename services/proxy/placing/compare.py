"""Two requests compared: every place where the newer one breaks the older one's prefix, in order. Pure.

Equal chunks are told by their hashes and never looked into, so the work is linear in what differs. Where the
older text is gone, its block digests stand in and offsets are as precise as a block.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from services.proxy.flow import Breaker
from services.proxy.placing.blocks import SectionName, compare_blocks
from services.proxy.placing.history import compare_history
from services.proxy.placing.pieces import Piece, same, span
from services.proxy.placing.spans import common_prefix
from services.proxy.placing.toolset import compare_tools
from services.proxy.state.base import HASH_BYTES


class Side(NamedTuple):
    """One request as compared: a letter, a role and a size a chunk (as in `Node`), and its pieces on demand.

    `start` is the position of the first message (or prompt) chunk. `pieces(i)` are those of chunk i, or None
    where neither text nor marks are at hand; `paths(i)` is the path of chunk i in the received body, also for
    an i one past the last (only the newer request is asked).
    """

    kinds: str
    roles: str
    hashes: bytes
    sizes: Sequence[int]
    start: int
    paths: Callable[[int], str]
    pieces: Callable[[int], list[Piece] | None]

    def hash(self, index: int) -> bytes:
        """The truncated hash of chunk `index`."""
        return self.hashes[index * HASH_BYTES : (index + 1) * HASH_BYTES]


class Comparison(NamedTuple):
    """What two requests share: `whole` leading chunks, params not counted, then `head` bytes of the next."""

    breakers: list[Breaker]
    whole: int
    head: int


def start_of(kinds: str) -> int:
    """Position of the first chunk that is a message or the prompt."""
    return len(kinds.rstrip("mq"))


def compare(old: Side, new: Side) -> Comparison:
    """All breakers between an earlier request and a newer one of the same model, in prompt order."""
    history, later = compare_history(old, new)
    return _finish(old, new, history, later)


def compare_head(old: Side, new: Side) -> Comparison:
    """The same for requests of different conversations: params, tools and system only."""
    return _finish(old, new, [], 0)


def _finish(old: Side, new: Side, history: list[Breaker], later: int) -> Comparison:
    system, later = _system(old, new, later)
    tools = _tools(old, new, later)
    return Comparison([*_params(old, new), *tools, *system, *history], *_shared(old, new))


def _params(old: Side, new: Side) -> list[Breaker]:
    """One breaker for each template input that differs, in the newer request's order."""
    before, now = old.kinds.find("p"), new.kinds.find("p")
    if _equal(old, before, new, now):
        return []
    then, here = _pieces(old, before), _pieces(new, now)
    if then is None or here is None:
        return [_unseen((old, new), (before, now), "params", "params", 0)]
    was, is_ = {p.path: p for p in then}, {p.path: p for p in here}
    paths = [p for p in dict.fromkeys([*is_, *was]) if not _kept(was.get(p), is_.get(p))]
    return [
        Breaker(
            section="params", path=path, kind="json", change=_change(path in was, path in is_),
            old=was[path].text if path in was else None, new=is_[path].text if path in is_ else None,
        )
        for path in paths
    ]  # fmt: skip


def _kept(old: Piece | None, new: Piece | None) -> bool:
    return old is not None and new is not None and same(old, new)


def _tools(old: Side, new: Side, later: int) -> list[Breaker]:
    before, now = old.kinds.find("t"), new.kinds.find("t")
    if _equal(old, before, new, now):
        return []
    then, here = _pieces(old, before), _pieces(new, now)
    if then is None or here is None:
        return [_unseen((old, new), (before, now), "tools", "tools[0]", later)]
    return compare_tools(then, here, later)


def _system(old: Side, new: Side, later: int) -> tuple[list[Breaker], int]:
    """The system's breakers, and the bytes equal from the system on."""
    before, now = old.kinds.find("s"), new.kinds.find("s")
    if _equal(old, before, new, now):
        return [], later + (new.sizes[now] if now >= 0 else 0)
    then, here = _pieces(old, before), _pieces(new, now)
    if then is None or here is None:
        return [_unseen((old, new), (before, now), "system", "system", later)], later

    def path(k: int) -> str:
        if k < len(here):
            return here[k].path
        return f"system[{k}]" if k else "system"

    return compare_blocks("system", then, here, path, later)


def _pieces(side: Side, index: int) -> list[Piece] | None:
    return side.pieces(index) if index >= 0 else []


def _equal(old: Side, before: int, new: Side, now: int) -> bool:
    if before < 0 or now < 0:
        return before == now
    return old.hash(before) == new.hash(now)


def _change(was: bool, is_: bool) -> str:
    return "edit" if was and is_ else "added" if is_ else "removed"


def _unseen(
    sides: tuple[Side, Side], at: tuple[int, int], section: SectionName, path: str, later: int
) -> Breaker:
    """A section that differs, with nothing at hand to see where: its whole length is the precision."""
    (old, new), (before, now) = sides, at
    deleted = old.sizes[before] if before >= 0 else 0
    inserted = new.sizes[now] if now >= 0 else 0
    return Breaker(
        section=section, path=path, change=_change(before >= 0, now >= 0), deleted=deleted, inserted=inserted,
        precision=max(1, deleted, inserted), equal_after=later,
        kind="text" if section == "system" else "json",
    )  # fmt: skip


def _shared(old: Side, new: Side) -> tuple[int, int]:
    """Leading chunks of the newer request that are equal, params apart, and equal bytes of the next one."""
    i = 1 if old.kinds.startswith("p") else 0
    j = 1 if new.kinds.startswith("p") else 0
    limit = min(len(old.kinds) - i, len(new.kinds) - j)
    a, b = old.hashes[i * HASH_BYTES :], new.hashes[j * HASH_BYTES :]
    whole = common_prefix(a, b) // HASH_BYTES
    if whole >= limit or old.kinds[i + whole] != new.kinds[j + whole]:
        return whole, 0
    return whole, _head(old.pieces(i + whole), new.pieces(j + whole))


def _head(old: list[Piece] | None, new: list[Piece] | None) -> int:
    """Bytes at the head of a chunk that two versions of it share."""
    total = 0
    for then, here in zip(old or (), new or (), strict=False):
        if not same(then, here):
            return total + span(then, here).offset
        total += here.size
    return total
