"""The one definition of a normalised chunk and its hash; pure, owns no state.

A chunk is its role and its sections. Only what is in a section counts, so whatever a dialect leaves out (ids,
`cache_control`, the order of envelope keys) is no content, and equal content hashes equal in every spelling.
"""

from collections.abc import Iterable
from hashlib import sha1
from typing import NamedTuple

from services.proxy.prompt import Section

_HIGH_BYTES = bytes(range(128, 256))
_LETTERS = {"text": b"t", "json": b"j", "media": b"m", "name": b"n", "reasoning": b"r"}


class Digest(NamedTuple):
    """A normalised chunk without its text: what may be kept when text may not.

    `hash` has 20 bytes; `size` counts normalised bytes (media none), `wide` those of non-ASCII characters.
    """

    hash: bytes
    role: str
    size: int
    wide: int
    media: int


def digest(role: str, sections: Iterable[Section]) -> Digest:
    """The digest of a chunk, from its sections in prompt order."""
    state = sha1(role.encode())
    size = wide = media = 0
    for path, kind, text, _ in sections:
        state.update(b"\n%b %b %d\n" % (path.encode(), _LETTERS[kind], len(text)))
        state.update(text)
        if kind == "media":
            media += 1
        else:
            size += len(text)
            wide += wide_of(text)
    return Digest(state.digest(), role, size, wide, media)


def digest_text(role: str, text: str) -> Digest:
    """The same for the commonest chunk, one text and nothing else, in a third of the time."""
    data = text.encode()
    size = len(data)
    state = sha1(b"%b\n t %d\n%b" % (role.encode(), size, data))
    wide = 0 if text.isascii() else size - len(text.encode("ascii", "ignore"))
    return Digest(state.digest(), role, size, wide, 0)


def wide_of(text: bytes) -> int:
    """How many bytes belong to non-ASCII characters."""
    return 0 if text.isascii() else len(text) - len(text.translate(None, _HIGH_BYTES))
