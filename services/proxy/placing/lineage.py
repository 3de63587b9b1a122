"""Which earlier request a new one is compared with, and whether it continues that one. Pure.

A request continues another by its session or by its messages, whatever became of params, tools and system;
agents that send no id are followed by what they send. What continues nothing is compared with the nearest
request that shares its tools or most of its system prompt.
"""

from collections.abc import Callable
from typing import NamedTuple

from services.proxy.placing.compare import Side, start_of
from services.proxy.placing.history import begins
from services.proxy.placing.pieces import Piece, span
from services.proxy.placing.spans import common_prefix
from services.proxy.prompt import plain_model
from services.proxy.state.base import HASH_BYTES, Call, Node, Past, Sighting


class Choice(NamedTuple):
    """The earlier request to compare with, if any; `near` is one that is not continued."""

    parent: Past | None = None
    continued: bool = False
    intervening: str | None = None
    switched: Call | None = None


class Request(NamedTuple):
    """The request at hand as the choice sees it; `older` makes the side of a candidate."""

    node: Node
    call: Call
    side: Side
    older: Callable[[Node], Side]

    @property
    def messages(self) -> bytes:
        """Hashes of its messages, joined."""
        return self.node.chunks[self.side.start * HASH_BYTES :]


def choose(request: Request, sighting: Sighting) -> Choice:
    """The lineage that the request continues by its longest common prefix, else its nearest relative."""
    best = _best(request, sighting.candidates)
    if best is not None and continues(request, best.node):
        return _continuing(best, sighting.candidates)
    ranked = sorted(sighting.candidates, key=lambda past: _rank(request, past.node), reverse=True)
    for past in ranked[1:]:
        if continues(request, past.node):
            return _continuing(past, ranked)
    if switched := _switched(request, sighting):
        return Choice(switched=switched)
    near = max((p for p in ranked if _near(request, p.node)), key=lambda p: p.node.id, default=None)
    return Choice(near)


def _continuing(parent: Past, candidates: list[Past]) -> Choice:
    lineage = parent.node.lineage
    latest = max([past.node.id for past in candidates if past.node.lineage == lineage])
    return Choice(parent, True, latest if latest != parent.node.id else None)


def _best(request: Request, candidates: list[Past]) -> Past | None:
    """The candidate of the highest rank: as a rule the first, whose length none of the others reaches."""
    best: Past | None = None
    highest: tuple[bool, int, bool, str] | None = None
    length = len(_without_params(request.node))
    for past in candidates:
        if highest is not None:
            session = request.node.session is not None and request.node.session == past.node.session
            most = min(length, len(past.node.chunks)) // HASH_BYTES
            if (session, most) < highest[:2]:
                continue
        rank = _rank(request, past.node)
        if highest is None or rank > highest:
            best, highest = past, rank
    return best


def continues(request: Request, old: Node) -> bool:
    """Whether the request goes on with the conversation of `old`."""
    node = request.node
    if "q" in node.kinds or "q" in old.kinds:
        return node.kinds[-1:] == old.kinds[-1:] and _prompt_continues(request, old)
    past = old.chunks[start_of(old.kinds) * HASH_BYTES :]
    if not past or not request.messages:
        return False
    if request.messages.startswith(past):
        return True
    if _over_half_kept(request, old, past):
        return True
    if node.session is not None and node.session == old.session:
        return _related(request, old)
    return _grown(request, old)


def _rank(request: Request, old: Node) -> tuple[bool, int, bool, str]:
    """The same session, then most leading chunks (params apart), then a repeat, then the most recent.

    The session comes first because another one with the same opening may share a chunk more by chance: a tool
    result with a random id in it, compared with that session's, would look like a rewritten history.
    """
    node = request.node
    shared = common_prefix(_without_params(old), _without_params(node)) // HASH_BYTES
    session = node.session is not None and node.session == old.session
    return session, shared, node.request == old.request, old.id


def _without_params(node: Node) -> bytes:
    return node.chunks[HASH_BYTES:] if node.kinds.startswith("p") else node.chunks


def _over_half_kept(request: Request, old: Node, past: bytes) -> bool:
    """Whether over half of the older messages, by bytes or by number, are still there.

    By number too, because one pruned tool result may outweigh a whole conversation. A single short message
    that happens to occur in both proves nothing unless it is the first.
    """
    count = len(past) // HASH_BYTES
    if old.first != request.node.first and count < 2:
        return False
    present = request.messages
    now = {present[at : at + HASH_BYTES] for at in range(0, len(present), HASH_BYTES)}
    start, kept, kept_bytes = start_of(old.kinds), 0, 0
    for at in range(0, len(past), HASH_BYTES):
        if past[at : at + HASH_BYTES] in now:
            kept += 1
            kept_bytes += old.sizes[start + at // HASH_BYTES]
    if old.first != request.node.first and kept < 2:
        return False
    return 2 * kept > count or 2 * kept_bytes > sum(old.sizes[start:])


def _related(request: Request, old: Node) -> bool:
    """Whether two requests of one session are one conversation, not a title request beside it.

    A session's id is also on its side requests, and on sub-agents of clients that do not tell them apart:
    those share neither a message nor the frame of system and tools.
    """
    node = request.node
    if node.first == old.first:
        return True
    if request.call.side:
        return False
    frame = node.system == old.system and node.tools == old.tools
    return frame or (node.tools is not None and node.tools == old.tools) or _half_of_system(request, old)


def _grown(request: Request, old: Node) -> bool:
    """Whether the older request's only user message came back altered, in a longer conversation.

    Clients that trim a message, or move a reminder out of it, once it is history alter the first message too;
    with nothing else to go by, most of its text must be left and the frame be the same.
    """
    node, start = request.node, start_of(old.kinds)
    if (node.system, node.tools) != (old.system, old.tools):
        return False
    if len(old.kinds) - start != 1 or len(node.kinds) - request.side.start < 2:
        return False
    return _over_half(request.older(old).pieces(start), request.side.pieces(request.side.start))


def _prompt_continues(request: Request, old: Node) -> bool:
    """Whether a prompt of one text goes on with, or keeps over half of, an older one."""
    if request.node.request == old.request:
        return True
    then, here = (
        request.older(old).pieces(len(old.kinds) - 1),
        request.side.pieces(len(request.node.kinds) - 1),
    )
    if not then or not here:
        return request.node.session is not None and request.node.session == old.session
    kept = begins(then[0], here[0]) or _over_half(then, here)
    return kept or _holds_later_half(then[0], here[0])


def _near(request: Request, old: Node) -> bool:
    """Whether an older request has equal tools, or over half of its system text is here."""
    node = request.node
    return (node.tools is not None and node.tools == old.tools) or _half_of_system(request, old)


def _half_of_system(request: Request, old: Node) -> bool:
    node = request.node
    if node.system is None or old.system is None:
        return False
    if node.system == old.system:
        return True
    then = request.older(old).pieces(old.kinds.index("s"))
    return _over_half(then, request.side.pieces(node.kinds.index("s")))


def _over_half(old: list[Piece] | None, new: list[Piece] | None) -> bool:
    """Whether over half of the older pieces' bytes are in the newer ones, at the head or the tail of each."""
    if not old or not new:
        return False
    kept = sum(max(_kept(piece, other) for other in new) for piece in old)
    return 2 * kept > sum(piece.size for piece in old)


def _kept(old: Piece, new: Piece) -> int:
    if old.text is not None and old.text == new.text:
        return old.size
    where = span(old, new)
    return where.offset + where.suffix


def _holds_later_half(old: Piece, new: Piece) -> bool:
    """Whether the later half of a text is in a newer one, changed at its head and grown at its end."""
    return old.text is not None and new.text is not None and old.text[old.size // 2 :] in new.text


def _switched(request: Request, sighting: Sighting) -> Call | None:
    """The latest call of this conversation to another model, where this one goes on with it."""
    if request.call.side:
        return None
    for call, _ in reversed(sighting.calls):
        if call.scope == request.call.scope and call.kind == "generation" and _carried_over(request, call):
            return call if plain_model(call.model) != plain_model(request.call.model) else None
    return None


def _carried_over(request: Request, call: Call) -> bool:
    """Whether a call held this conversation: by its session, or by its first message and something more.

    "hi" alone begins many conversations; the same system prompt before it, or a history behind a message that
    says more, does not.
    """
    node, now = request.node, request.call
    if call.side:
        return False
    if node.session is not None and call.session is not None:
        return call.session == node.session
    if now.first is None or call.first != now.first:
        return False
    if now.system is not None and call.system == now.system:
        return True
    start = request.side.start
    return len(node.kinds) - start > 1 and node.sizes[start] >= TELLING


TELLING = 24  # bytes of a first message that few conversations share by chance
