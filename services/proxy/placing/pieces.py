"""A section as the comparison sees it: by its text, or blind, by its block digests. Pure."""

from typing import NamedTuple

from services.proxy.placing.marks import Marker, block_length, shared_blocks
from services.proxy.placing.spans import divergence
from services.proxy.prompt import Section, SectionKind


class Piece(NamedTuple):
    """A section with its text, or without it (`text` None) with what its marks say."""

    path: str
    kind: SectionKind
    label: str
    size: int
    text: bytes | None
    digest: bytes = b""
    head: bytes = b""
    tail: bytes = b""
    marker: Marker | None = None


class Span(NamedTuple):
    """How two pieces part: bytes equal before (`offset`) and after (`suffix`), each to within `precision`."""

    offset: int
    suffix: int
    precision: int


def seen(section: Section) -> Piece:
    """The piece of a section whose text is at hand."""
    return Piece(section.path, section.kind, section.label, len(section.text), section.text)


def same(old: Piece, new: Piece) -> bool:
    """Whether two pieces hold the same text."""
    if old.text is not None and new.text is not None:
        return old.text == new.text
    if old.size != new.size:
        return False
    marker = old.marker or new.marker
    return marker is not None and _digest(old, marker) == _digest(new, marker)


def span(old: Piece, new: Piece) -> Span:
    """Where two pieces that differ part; media and names differ as a whole."""
    if "media" in (old.kind, new.kind):
        return Span(0, 0, 1)
    if old.text is not None and new.text is not None:
        return Span(*divergence(old.text, new.text), 1)
    marker = old.marker or new.marker
    if marker is None:
        return Span(0, 0, max(old.size, new.size, 1))
    block = _block(old, new)
    shortest = min(old.size, new.size)
    before = shared_blocks(_head(old, marker, block), _head(new, marker, block)) * block
    after = shared_blocks(_tail(old, marker, block), _tail(new, marker, block)) * block
    offset = min(before, shortest)
    return Span(offset, min(after, shortest - offset), min(block, max(old.size, new.size)))


def _block(old: Piece, new: Piece) -> int:
    """The block length that the blind piece was marked with."""
    return block_length(old.size if old.text is None else new.size)


def _digest(piece: Piece, marker: Marker) -> bytes:
    return piece.digest if piece.text is None else marker.digest(piece.text)


def _head(piece: Piece, marker: Marker, block: int) -> bytes:
    return piece.head if piece.text is None else marker.head(piece.text, block)


def _tail(piece: Piece, marker: Marker, block: int) -> bytes:
    return piece.tail if piece.text is None else marker.tail(piece.text, block)
