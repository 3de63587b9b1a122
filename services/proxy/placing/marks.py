"""Keyed digests of short blocks: what is kept of a prompt's sections where its text may not be.

Redis holds them, so that another process, or this one without the text, still finds an offset to within a
block. Blocks are counted from the head and from the tail, since an insertion shifts all that follows. Digests
are keyed per installation, because short blocks could be guessed.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

from services.proxy.prompt import Chunk, Section
from services.proxy.state.base import HASH_BYTES, Mark, Marks

DIGEST = 8  # of a whole section
BLOCK_DIGEST = 4  # of a block; a false match of one block in four billion shifts an offset, nothing else
SHORTEST = 64  # bytes of a block in most sections
MOST_BLOCKS = 256  # of one section in either direction: 1 KiB of digests each, however long it is

Marked = tuple[str, str, str, int, bytes, bytes, bytes]  # a `Mark` without the chunk's position


class Marker:
    """Makes the digests of one installation."""

    def __init__(self, key: bytes) -> None:
        self._section = hashlib.blake2b(key=key, digest_size=DIGEST, person=b"section")
        self._block = hashlib.blake2b(key=key, digest_size=BLOCK_DIGEST, person=b"block")

    def digest(self, text: bytes) -> bytes:
        """Digest of a whole section."""
        made = self._section.copy()
        made.update(text)
        return made.digest()

    def head(self, text: bytes, block: int) -> bytes:
        """Digests of its blocks, the first one first, the last one possibly short."""
        return b"".join([self._digest(text[at : at + block]) for at in range(0, len(text), block)])

    def tail(self, text: bytes, block: int) -> bytes:
        """Digests of its blocks counted from the end, the last one first, the first one possibly short."""
        ends = range(len(text), 0, -block)
        return b"".join([self._digest(text[max(0, end - block) : end]) for end in ends])

    def mark(self, section: Section) -> Marked:
        """A section without its text; one of a single block needs no blocks, its own digest says as much."""
        text, block = section.text, block_length(len(section.text))
        blocks = (self.head(text, block), self.tail(text, block)) if len(text) > block else (b"", b"")
        return section.path, section.kind, section.label, len(text), self.digest(text), *blocks

    def _digest(self, block: bytes) -> bytes:
        made = self._block.copy()
        made.update(block)
        return made.digest()


class MarkCache:
    """Owns the marks of recent chunks by content, so that a next turn only marks what is new in it.

    Large prompts are marked in threads, hence the lock; nothing is marked while it is held.
    """

    def __init__(self, key: bytes, max_bytes: int) -> None:
        self._marker = Marker(key)
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._bytes = 0
        self._held: OrderedDict[bytes, list[Marked]] = OrderedDict()

    def marks(self, chunks: Sequence[Chunk], sections: Callable[[Chunk], list[Section]]) -> Marks:
        """The marks of a request; `sections` cuts a chunk that was not marked lately."""
        found: list[Mark] = []
        for position, (chunk, known) in enumerate(zip(chunks, self._known(chunks), strict=True)):
            made = self._made(chunk, sections(chunk)) if known is None else known
            found.extend([(position, *mark) for mark in made])
        return Marks(sections=found)

    def _known(self, chunks: Sequence[Chunk]) -> list[list[Marked] | None]:
        """The marks of each chunk that was marked lately; these become recent again."""
        found = []
        with self._lock:
            for chunk in chunks:
                name = chunk.hash[:HASH_BYTES]
                made = self._held.get(name)
                if made is not None:
                    self._held.move_to_end(name)
                found.append(made)
        return found

    def _made(self, chunk: Chunk, sections: list[Section]) -> list[Marked]:
        name, made = chunk.hash[:HASH_BYTES], [self._marker.mark(section) for section in sections]
        with self._lock:
            if name not in self._held:
                self._held[name] = made
                self._bytes += _cost(made)
            while self._bytes > self._max_bytes:
                self._bytes -= _cost(self._held.popitem(last=False)[1])
        return made


def block_length(size: int) -> int:
    """The block length in a section of `size` bytes: a power of two that bounds the number of blocks."""
    block = SHORTEST
    while size > block * MOST_BLOCKS:
        block *= 2
    return block


def shared_blocks(left: bytes, right: bytes) -> int:
    """Number of leading block digests that two lists share."""
    count = min(len(left), len(right)) // BLOCK_DIGEST
    for at in range(count):
        span = slice(at * BLOCK_DIGEST, (at + 1) * BLOCK_DIGEST)
        if left[span] != right[span]:
            return at
    return count


def _cost(marks: list[Marked]) -> int:
    """Bytes of memory that the marks of a chunk take, tuples and small strings included."""
    return 200 + sum(300 + len(head) + len(tail) for *_, head, tail in marks)
