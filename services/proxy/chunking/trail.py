"""What is remembered of a body so that the next turn's body need not be read from its beginning; pure.

A trail holds the message chunks of one body and the SHA-1 of the body up to the ends of its last messages.
A body with the same SHA-1 at the same offset has the same head, so its chunks there are the same, and only
what follows is read. The SHA-1 pass over the whole body has to be made anyway, for its raw hash. Trails hold
prompt text: the analyser bounds them in bytes and time, and keeps none where text may not be kept.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha1
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.dialects.tools import ToolSet
from services.proxy.prompt import Chunk, Prompt

if TYPE_CHECKING:
    from hashlib import _Hash

PROBE = 48  # bytes before a checkpoint, compared first: tells most strangers apart without hashing anything

# Counted from the end. Clients rewrite their last messages when they become history (a cache marker moves, a
# reminder goes), rarely more than four; the farther ones are for forks.
_BACK = (0, 1, 2, 3, 4, 8, 16, 32)
_KEPT = 10


class Checkpoint(NamedTuple):
    """Where a message ended: offset in the body, messages up to there, a quick probe, the SHA-1 so far."""

    offset: int
    messages: int
    probe: int
    proof: bytes


class Trail(msgspec.Struct, frozen=True):
    """One body, read.

    `first` is the offset of its first message, `rest` the bytes after its last one; the first `front` chunks
    of `prompt` are no messages; `lead` messages belong to the system section; `tools` are its tools, hashed.
    """

    at: float
    prompt: Prompt
    backend: str
    tools: ToolSet | None
    front: int
    lead: int
    first: int
    rest: bytes = b""
    checkpoints: list[Checkpoint] = []

    @property
    def weight(self) -> int:
        """Bytes of memory, roughly: the text once, and the objects around it."""
        return self.prompt.request_bytes + 400 * len(self.prompt.chunks) + 1000


class Match(NamedTuple):
    """A trail whose head a body shares, up to a checkpoint; `state` has hashed exactly that head."""

    trail: Trail
    checkpoint: Checkpoint
    state: "_Hash"


def probe_of(body: bytes, offset: int) -> int:
    """A quick fingerprint of the bytes before an offset."""
    return hash(body[max(0, offset - PROBE) : offset])


def match(trails: Iterable[Trail], body: bytes) -> Match | None:
    """The longest proven common head, in one pass over it; of equally long ones the first given."""
    found: dict[int, list[tuple[Trail, Checkpoint]]] = {}
    for trail in trails:
        for checkpoint in reversed(trail.checkpoints):
            offset = checkpoint.offset
            if offset <= len(body) and probe_of(body, offset) == checkpoint.probe:
                found.setdefault(offset, []).append((trail, checkpoint))
                break
    best = None
    state = sha1()
    view = memoryview(body)
    position = 0
    for offset in sorted(found):
        state.update(view[position:offset])
        position = offset
        proof = state.copy().digest()
        for trail, checkpoint in found[offset]:
            if checkpoint.proof == proof:
                best = Match(trail, checkpoint, state.copy())
                break
    return best


def prove(state: "_Hash", body: bytes, start: int, ends: Sequence[tuple[int, int]]) -> list[Checkpoint]:
    """Hash the rest of a body from `start`, leaving checkpoints at the given (offset, count)s on the way."""
    checkpoints = []
    view = memoryview(body)
    position = start
    for offset, count in ends:
        state.update(view[position:offset])
        position = offset
        checkpoints.append(Checkpoint(offset, count, probe_of(body, offset), state.copy().digest()))
    state.update(view[position:])
    return checkpoints


def ends_of(raws: Sequence[Raw], source: bytes, shift: int, before: int, lead: int) -> list[tuple[int, int]]:
    """Ends of the last messages as (offset in the body, count), where a checkpoint is worth its microsecond.

    `raws` were cut from `source`, whose offsets are `shift` off those of the body; `before` messages precede
    them. System messages cannot end a known head, because more of them might follow.
    """
    total = len(raws)
    ends = []
    base = cut.address(source) - shift
    for back in reversed(_BACK):
        k = total - 1 - back
        if k >= 0 and before + k >= lead:
            ends.append((cut.address(raws[k]) - base + len(raws[k]), before + k + 1))
    return ends


def kept(old: Sequence[Checkpoint], new: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The checkpoints to remember: the newest, and the older ones as far as there is room."""
    return [*old, *new][-_KEPT:]


def known_chunks(trail: Trail, count: int) -> list[Chunk]:
    """The message chunks before a checkpoint."""
    return trail.prompt.chunks[trail.front : trail.front + count - trail.lead]
