"""The one definition of a normalised chunk and its hash; pure, owns no state.

A chunk is its role and its sections. Only what is in a section counts, so whatever a dialect leaves out (ids,
`cache_control`, the order of envelope keys) is no content, and equal content hashes equal in every spelling.
"""

from collections.abc import Iterable
from hashlib import sha1
from typing import NamedTuple

from services.proxy.prompt import Section

_LETTERS = {"text": b"t", "json": b"j", "media": b"m", "name": b"n", "reasoning": b"r"}


class Digest(NamedTuple):
    """A normalised chunk without its text: what may be kept when text may not.

    `hash` has 20 bytes; `size` counts normalised bytes (media none), `wide` those of non-ASCII characters.
    The order is that of `Chunk`, which is built from it.
    """

    role: str
    hash: bytes
    size: int
    wide: int
    media: int


def digest(role: str, sections: Iterable[Section]) -> Digest:
    """The digest of a chunk, from its sections in prompt order."""
    pieces = [role.encode()]
    size = chars = media = 0
    for path, kind, text, _ in sections:
        pieces += (b"\n%b %b %d\n" % (path.encode(), _LETTERS[kind], len(text)), text)
        if kind == "media":
            media += 1
        else:
            size += len(text)
            chars += len(text) if text.isascii() else len(text.decode("utf-8", "replace"))
    return Digest(role, sha1(b"".join(pieces)).digest(), size, wide_from(size, chars), media)


def wide_from(size: int, chars: int) -> int:
    """Bytes of non-ASCII characters, from the bytes and the characters of a text.

    Exact where these characters have three bytes (Chinese, Japanese, Korean, dashes, quotes), a quarter low
    for those of two; it only feeds an estimate of tokens, and counting exactly would cost as much as hashing.
    """
    return min(size, (size - chars) * 3 // 2)
