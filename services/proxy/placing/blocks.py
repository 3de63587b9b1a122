"""The pieces of one system prompt or one message compared: blocks in order, other parts by name. Pure.

Everything is walked from the end, so that each breaker knows how many equal bytes lie behind it.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from services.proxy.flow import Breaker
from services.proxy.placing.pieces import Piece, same, span

SectionName = Literal["params", "tools", "system", "messages"]


def edited(section: SectionName, path: str, old: Piece, new: Piece, rest: int) -> Breaker:
    """The breaker of two pieces that differ; `rest` is the bytes equal behind them."""
    where = span(old, new)
    return Breaker(
        section=section, path=path, change="edit", kind=new.kind, offset=where.offset,
        precision=where.precision,
        inserted=new.size - where.offset - where.suffix, deleted=old.size - where.offset - where.suffix,
        equal_after=where.suffix + rest, old=old.text, new=new.text, old_role=old.label, new_role=new.label,
    )  # fmt: skip


def whole(
    section: SectionName, path: str, old: Piece | None, new: Piece | None, rest: int, *, count: int = 1
) -> Breaker:
    """The breaker of a piece that came (`old` None), went (`new` None), or gave way to something else."""
    piece = old or new
    assert piece is not None
    return Breaker(
        section=section, path=path, change="removed" if old else "added", kind=piece.kind,
        inserted=new.size if new else 0, deleted=old.size if old else 0, equal_after=rest,
        old=old.text if old else None, new=new.text if new else None,
        old_role=old.label if old else "", new_role=new.label if new else "", count=count,
    )  # fmt: skip


def compare_blocks(
    section: SectionName,
    old: Sequence[Piece],
    new: Sequence[Piece],
    path: Callable[[int], str],
    later: int,
) -> tuple[list[Breaker], int]:
    """Breakers of an ordered list of blocks, and `later` plus the bytes of its equal blocks.

    `path(k)` names block k of the newer list, or the place where a block is missing from it.
    """
    head, tail = _ends(old, new)
    later += sum(piece.size for piece in new[len(new) - tail :])
    before, now = old[head : len(old) - tail], new[head : len(new) - tail]
    found: list[Breaker] = []
    paired = min(len(before), len(now))
    extra = len(now) - len(before)
    if extra:
        gone, come = before[paired:], now[paired:]
        first = whole(section, path(head + paired), _first(gone), _first(come), later, count=abs(extra))
        first.deleted, first.inserted = sum(p.size for p in gone), sum(p.size for p in come)
        found.append(first)
    for k in range(paired - 1, -1, -1):
        if same(before[k], now[k]):
            later += now[k].size
        else:
            found.append(edited(section, path(head + k), before[k], now[k], later))
    return found[::-1], later + sum(piece.size for piece in new[:head])


def compare_message(
    base: str, old: Sequence[Piece], new: Sequence[Piece], later: int
) -> tuple[list[Breaker], int]:
    """Breakers inside one message at path `base`, and `later` plus its equal bytes."""
    then, here = _slots(old), _slots(new)
    found: list[Breaker] = []
    for slot in reversed(merged(list(here), list(then))):
        before, now = then.get(slot, []), here.get(slot, [])
        if slot == CONTENT:
            some, later = compare_blocks("messages", before, now, _content_path(base, before, now), later)
            found.extend(reversed(some))
        elif not (before and now):
            found.append(whole("messages", base + slot, _first(before), _first(now), later))
        elif same(before[0], now[0]):
            later += now[0].size
        else:
            found.append(edited("messages", base + slot, before[0], now[0], later))
    return found[::-1], later


CONTENT = ".content"


def _slots(pieces: Sequence[Piece]) -> dict[str, list[Piece]]:
    """A message's pieces by what they are: all content blocks together, everything else by its path."""
    slots: dict[str, list[Piece]] = {}
    for piece in pieces:
        content = not piece.path or piece.path.startswith(".content[")
        slots.setdefault(CONTENT if content else piece.path, []).append(piece)
    return slots


def _content_path(base: str, old: Sequence[Piece], new: Sequence[Piece]) -> Callable[[int], str]:
    """Block k by its number, but for a message that has, and had there, nothing else."""

    def path(k: int) -> str:
        if len(new) > 1 or (k and len(old) > 1):
            return f"{base}.content[{k}]"
        return base

    return path


def merged(new: list[str], old: list[str]) -> list[str]:
    """Names in the newer order, each that only the older one has before what followed it there."""
    order = list(new)
    for position, name in enumerate(old):
        if name not in order:
            after = next((follower for follower in old[position + 1 :] if follower in order), None)
            order.insert(order.index(after) if after is not None else len(order), name)
    return order


def _ends(old: Sequence[Piece], new: Sequence[Piece]) -> tuple[int, int]:
    """How many pieces are equal at the head, and of the others at the tail."""
    limit = min(len(old), len(new))
    head = next((k for k in range(limit) if not same(old[k], new[k])), limit)
    limit -= head
    tail = next((k for k in range(limit) if not same(old[-1 - k], new[-1 - k])), limit)
    return head, tail


def _first(pieces: Sequence[Piece]) -> Piece | None:
    return pieces[0] if pieces else None
