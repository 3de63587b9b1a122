"""Two message lists compared by their chunk hashes; only messages that differ are looked into. Pure.

What the newer list adds at its end is an append and no breaker. Everything else that differs is: an edited
message, one that went, one that came in between, one that moved.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from services.proxy.flow import Breaker
from services.proxy.placing.blocks import compare_message, edited, whole
from services.proxy.placing.pieces import Piece
from services.proxy.placing.spans import common_prefix, common_suffix
from services.proxy.state.base import HASH_BYTES

if TYPE_CHECKING:
    from services.proxy.placing.compare import Side

FEW = 8  # equal messages at the same place for one that is not: no other alignment can be better
ROLES = {"u": "user", "a": "assistant", "t": "tool", "s": "system", "-": ""}


def compare_history(old: "Side", new: "Side") -> tuple[list[Breaker], int]:
    """Breakers in the messages (or the one prompt), and the bytes of the newer list that are equal."""
    if "q" in old.kinds and "q" in new.kinds:
        return _compare_prompt(old, new)
    past, present = old.hashes[old.start * HASH_BYTES :], new.hashes[new.start * HASH_BYTES :]
    if present.startswith(past):
        return [], sum(new.sizes[new.start : new.start + len(past) // HASH_BYTES])
    if past.startswith(present):  # rewound: what is left is whole
        return [], sum(new.sizes[new.start :])
    limit = min(len(past), len(present))
    head = common_prefix(past, present) // HASH_BYTES
    tail = common_suffix(past, present, limit - head * HASH_BYTES) // HASH_BYTES
    later = sum(new.sizes[len(new.kinds) - tail :])
    low, high = old.start + head, len(old.kinds) - tail
    here, there = new.start + head, len(new.kinds) - tail
    middle = _align(_split(old.hashes, low, high), _split(new.hashes, here, there))
    pairs = [(low - 1, here - 1), *((low + i, here + j) for i, j in middle), (high, there)]
    found, later = _walk(old, new, pairs, later, tail > 0)
    return found, later + sum(new.sizes[new.start : here])


def _compare_prompt(old: "Side", new: "Side") -> tuple[list[Breaker], int]:
    """One text each: a longer one that begins with the older one is an append."""
    i, j = old.kinds.index("q"), new.kinds.index("q")
    if old.hash(i) == new.hash(j):
        return [], new.sizes[j]
    then, here = old.pieces(i), new.pieces(j)
    if not then or not here:
        return [_blind(old, new, i, j, 0)], 0
    if begins(then[0], here[0]):
        return [], then[0].size
    return [edited("messages", new.paths(j), then[0], here[0], 0)], 0


def begins(old: Piece, new: Piece) -> bool:
    """Whether the newer text begins with the whole older one."""
    if new.text is None or old.size > new.size:
        return False
    if old.text is not None:
        return new.text.startswith(old.text)
    return old.marker is not None and old.marker.digest(new.text[: old.size]) == old.digest


def _split(hashes: bytes, low: int, high: int) -> list[bytes]:
    return [hashes[at : at + HASH_BYTES] for at in range(low * HASH_BYTES, high * HASH_BYTES, HASH_BYTES)]


def _align(old: list[bytes], new: list[bytes]) -> list[tuple[int, int]]:
    """Pairs of equal messages in order, between a common head and a common tail.

    Hashes that occur once on either side anchor the rest (as in a patience diff), so that a short message
    repeated often cannot pull the alignment askew.
    """
    pairs = [(k, k) for k, (one, other) in enumerate(zip(old, new, strict=False)) if one == other]
    if FEW * (len(old) - len(pairs)) <= len(pairs):  # a few edited in place, the usual case: no search
        return pairs
    pairs = []
    at_old = at_new = 0
    for i, j in [*_anchors(old, new), (len(old), len(new))]:
        pairs.extend(_grow(old, new, (at_old, i), (at_new, j)))
        if i < len(old) and j < len(new):
            pairs.append((i, j))
        at_old, at_new = i + 1, j + 1
    return pairs


def _anchors(old: list[bytes], new: list[bytes]) -> list[tuple[int, int]]:
    """The longest rising run of pairs among the hashes that are unique on both sides."""
    count_old, count_new = Counter(old), Counter(new)
    where = {item: i for i, item in enumerate(old) if count_old[item] == 1}
    pairs = [(where[item], j) for j, item in enumerate(new) if count_new[item] == 1 and item in where]
    tops: list[int] = []
    chains: list[int] = []
    links: list[int] = []
    for k, (i, _) in enumerate(pairs):
        at = bisect_left(tops, i)
        tops[at:] = [i, *tops[at + 1 :]]
        chains[at:] = [k, *chains[at + 1 :]]
        links.append(chains[at - 1] if at else -1)
    found: list[tuple[int, int]] = []
    k = chains[-1] if chains else -1
    while k >= 0:
        found.append(pairs[k])
        k = links[k]
    return found[::-1]


def _grow(
    old: list[bytes], new: list[bytes], span_old: tuple[int, int], span_new: tuple[int, int]
) -> list[tuple[int, int]]:
    """Equal messages right behind the last anchor and right before the next one, inside one gap."""
    (i, i_end), (j, j_end) = span_old, span_new
    front: list[tuple[int, int]] = []
    while i < i_end and j < j_end and old[i] == new[j]:
        front.append((i, j))
        i, j = i + 1, j + 1
    back: list[tuple[int, int]] = []
    while i < i_end and j < j_end and old[i_end - 1] == new[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
        back.append((i_end, j_end))
    return front + back[::-1]


def _walk(
    old: "Side", new: "Side", pairs: list[tuple[int, int]], later: int, tail: bool
) -> tuple[list[Breaker], int]:
    """Breakers between neighbouring pairs, the last first, so that each knows the equal bytes behind it.

    The first and the last pair are the borders of the common head and tail and count for nothing themselves.
    """
    found: list[Breaker] = []
    last = not tail
    for (i, j), (end_old, end_new) in zip(reversed(pairs[:-1]), reversed(pairs[1:]), strict=True):
        some, later = _gap(old, new, (i + 1, end_old), (j + 1, end_new), later, last=last)
        found.extend(reversed(some))
        if (i, j) != pairs[0]:
            later += new.sizes[j]
        last = False
    return found[::-1], later


def _gap(
    old: "Side", new: "Side", was: tuple[int, int], now: tuple[int, int], later: int, *, last: bool
) -> tuple[list[Breaker], int]:
    """Breakers between two pairs of equal messages: was[0]:was[1] gave way to now[0]:now[1]."""
    (i, i_end), (j, j_end) = was, now
    paired = min(i_end - i, j_end - j)
    if paired and i_end - i != j_end - j and not (last and j_end - j > i_end - i):
        paired = 1  # many gave way to few, or few to many: past the first, places no longer correspond
    found: list[Breaker] = []
    if i_end - i > j_end - j:
        found.append(_gone(old, new, (i + paired, i_end), j + paired, later))
    elif j_end - j > i_end - i and not last:
        found.append(_came(old, new, i + paired, (j + paired, j_end), later))
    for k in range(paired - 1, -1, -1):
        some, later = _pair(old, new, i + k, j + k, later)
        found.extend(reversed(some))
    return found[::-1], later


def _pair(old: "Side", new: "Side", i: int, j: int, later: int) -> tuple[list[Breaker], int]:
    """Two messages that stand at the same place and differ."""
    then, here = old.pieces(i), new.pieces(j)
    if then is None or here is None:
        return [_blind(old, new, i, j, later)], later
    if old.roles[i] != new.roles[j]:
        return [
            _told(whole("messages", new.paths(j), _main(then), _main(here), later), old, new, i, j)
        ], later
    some, later = compare_message(new.paths(j), then, here, later)
    return [_told(breaker, old, new, i, j) for breaker in some], later


def _gone(old: "Side", new: "Side", was: tuple[int, int], j: int, later: int) -> Breaker:
    """Messages was[0]:was[1] of the older list are no longer there."""
    i, i_end = was
    then = old.pieces(i)
    piece = _main(then) if then else Piece("", "text", "", old.sizes[i], None)
    breaker = whole("messages", new.paths(j), piece, None, later, count=i_end - i)
    breaker.deleted = sum(old.sizes[i:i_end])
    return _told(breaker, old, new, i, None)


def _came(old: "Side", new: "Side", i: int, now: tuple[int, int], later: int) -> Breaker:
    """Messages stand before message i that did not: inserted, or i, the older list's last, moved behind."""
    j, j_end = now
    moved = i == len(old.kinds) - 1 and old.roles[i] == "u"
    then, here = (old.pieces(i) if moved else None), new.pieces(j)
    piece = _main(here) if here else Piece("", "text", "", new.sizes[j], None)
    breaker = whole("messages", new.paths(j), None, piece, later, count=j_end - j)
    breaker.inserted = sum(new.sizes[j:j_end])
    if moved:
        breaker.change, breaker.old = "reorder", _main(then).text if then else None
    return _told(breaker, old, new, i if moved else None, j)


def _blind(old: "Side", new: "Side", i: int, j: int, later: int) -> Breaker:
    """Two messages that differ, with nothing at hand to see where."""
    sizes = old.sizes[i], new.sizes[j]
    breaker = Breaker(
        section="messages", path=new.paths(j), change="edit", precision=max(1, *sizes), deleted=sizes[0],
        inserted=sizes[1], equal_after=later,
    )  # fmt: skip
    return _told(breaker, old, new, i, j)


def _told(breaker: Breaker, old: "Side", new: "Side", i: int | None, j: int | None) -> Breaker:
    """With the roles of the messages concerned; a block's own label (a tool result) is closer."""
    if i is not None:
        breaker.old_role = breaker.old_role or ROLES.get(old.roles[i], "")
    if j is not None:
        breaker.new_role = breaker.new_role or ROLES.get(new.roles[j], "")
    return breaker


def _main(pieces: Sequence[Piece]) -> Piece:
    """What stands for a message as a whole: its first content, else its first piece."""
    content = next((p for p in pieces if not p.path or p.path.startswith(".content[")), None)
    return content or (pieces[0] if pieces else Piece("", "text", "", 0, b""))
