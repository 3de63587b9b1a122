"""Bytes to put into a body, and the body with them; pure.

A splice only inserts, so that taking the inserted bytes out again gives what was received.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Splice(NamedTuple):
    """`data` goes in before the byte at `offset`."""

    offset: int
    data: bytes


def apply(body: bytes, splices: Iterable[Splice]) -> bytes:
    """The body with all splices made; offsets are those of the received body."""
    pieces: list[bytes | memoryview] = []
    view, done = memoryview(body), 0
    for offset, data in sorted(splices):
        pieces += [view[done:offset], data]
        done = offset
    pieces.append(view[done:])
    return b"".join(pieces)
