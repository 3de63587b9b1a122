"""Keyed digests of short blocks: what is kept of a prompt's sections where its text may not be.

Redis holds them, so that another process, or this one without the text, still finds an offset to within a
block. Blocks are counted from the head and from the tail, since an insertion shifts all that follows. Digests
are keyed per installation, because short blocks could be guessed. Pure.
"""

import hashlib
from collections.abc import Iterable, Sequence

from services.proxy.prompt import Section
from services.proxy.state.base import Marks

DIGEST = 8  # of a whole section
BLOCK_DIGEST = 4  # of a block; a false match of one block in four billion shifts an offset, nothing else
SHORTEST, LONGEST = 64, 1024
MOST_BLOCKS = 1024  # of one request in either direction: 8 KiB of digests for a prompt of any common size


class Marker:
    """Makes the digests of one installation; `block` is the block length in bytes."""

    def __init__(self, key: bytes, block: int) -> None:
        self.block = block
        self._section = hashlib.blake2b(key=key, digest_size=DIGEST, person=b"section")
        self._block = hashlib.blake2b(key=key, digest_size=BLOCK_DIGEST, person=b"block")

    def digest(self, text: bytes) -> bytes:
        """Digest of a whole section."""
        made = self._section.copy()
        made.update(text)
        return made.digest()

    def head(self, text: bytes) -> bytes:
        """Digests of its blocks, the first one first, the last one possibly short."""
        return b"".join(self._digest(text[at : at + self.block]) for at in range(0, len(text), self.block))

    def tail(self, text: bytes) -> bytes:
        """Digests of its blocks counted from the end, the last one first, the first one possibly short."""
        size = len(text)
        ends = range(size, 0, -self.block)
        return b"".join(self._digest(text[max(0, end - self.block) : end]) for end in ends)

    def _digest(self, block: bytes) -> bytes:
        made = self._block.copy()
        made.update(block)
        return made.digest()


def block_length(total: int) -> int:
    """The block length for a request of `total` bytes: a power of two that bounds the number of blocks."""
    block = SHORTEST
    while block < LONGEST and total // block > MOST_BLOCKS:
        block *= 2
    return block


def mark(key: bytes, sections: Iterable[tuple[int, Sequence[Section]]]) -> Marks:
    """The marks of a request's (chunk position, sections)."""
    flat = [(position, section) for position, group in sections for section in group]
    marker = Marker(key, block_length(sum(len(section.text) for _, section in flat)))
    return Marks(
        block=marker.block,
        sections=[
            (
                position, section.path, section.kind, section.label, len(section.text),
                marker.digest(section.text), *_blocks(marker, section.text),
            )
            for position, section in flat
        ],
    )  # fmt: skip


def _blocks(marker: Marker, text: bytes) -> tuple[bytes, bytes]:
    """Both directions; a section of one block needs none, its own digest says as much."""
    return (marker.head(text), marker.tail(text)) if len(text) > marker.block else (b"", b"")


def shared_blocks(left: bytes, right: bytes) -> int:
    """Number of leading block digests that two lists share."""
    count = min(len(left), len(right)) // BLOCK_DIGEST
    for at in range(count):
        span = slice(at * BLOCK_DIGEST, (at + 1) * BLOCK_DIGEST)
        if left[span] != right[span]:
            return at
    return count
