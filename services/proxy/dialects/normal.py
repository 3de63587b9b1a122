"""The one definition of a normalised chunk and its hash; pure, owns no state.

A chunk is its role and its sections. Only what is in a section counts, so whatever a dialect leaves out (ids,
`cache_control`, the order of envelope keys) is no content, and equal content hashes equal in every spelling.

A text in ASCII is hashed as it is. Any other is hashed as a JSON string in its shortest spelling, with raw
UTF-8: nearly all clients send it so, and decoding and encoding Chinese costs twice what hashing does. JSON
inside a chunk is hashed as received. Equal hashes are equal texts; the reverse holds for all that is UTF-8
(stray bytes may be hashed as they are, while sections show U+FFFD).
"""

from collections.abc import Iterable
from hashlib import sha1
from typing import NamedTuple

import msgspec
from msgspec import Raw

from services.proxy.chunking.cut import Spelling, is_simple, is_single
from services.proxy.prompt import Section

_LETTERS = {"text": b"t", "json": b"j", "media": b"m", "name": b"n", "reasoning": b"r"}
_SPELLED = frozenset({"text", "name", "reasoning"})


class Digest(NamedTuple):
    """A normalised chunk without its text: what may be kept when text may not.

    `hash` has 20 bytes; `size` counts bytes of decoded text (media none), `wide` those of them in non-ASCII
    characters. The order is that of `Chunk`, which is built from it.
    """

    role: str
    hash: bytes
    size: int
    wide: int
    media: int


def digest(role: str, sections: Iterable[Section]) -> Digest:
    """The digest of a chunk, from its sections in prompt order."""
    pieces = [role.encode()]
    size = wide = media = 0
    for path, kind, text, _ in sections:
        data = normal(text) if kind in _SPELLED else text
        pieces += (b"\n%b %b %d\n" % (path.encode(), _LETTERS[kind], len(data)), data)
        if kind == "media":
            media += 1
        else:
            size += len(text)
            wide += wide_of(data, len(text))
    return Digest(role, sha1(b"".join(pieces)).digest(), size, wide, media)


def text_digest(role: str, path: str, raw: Raw | bytes, spelled: Spelling) -> Digest | None:
    """The digest of a chunk that is one text, from its JSON string; None for any other value."""
    try:
        data, size, wide = canonical(raw, spelled)
    except BROKEN:
        return None
    if not size:
        return None
    found = sha1(b"%b\n%b t %d\n%b" % (role.encode(), path.encode(), len(data), data)).digest()
    return Digest(role, found, size, wide, 0)


_string = msgspec.json.Decoder(str)
_encode = msgspec.json.encode
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoders raise."""


def normal(text: bytes) -> bytes:
    """A text in the form that is hashed."""
    return text if text.isascii() else _encode(text.decode("utf-8", "replace"))


def normal_of(text: str) -> tuple[bytes, int, int]:
    """The same of a decoded text, with its `size` and `wide`."""
    data = text.encode()
    size = len(data)
    if size == len(text):
        return data, size, 0
    data = _encode(text)
    return data, size, wide_of(data, size)


def canonical(raw: Raw | bytes, spelled: Spelling) -> tuple[bytes, int, int]:
    """The same of a JSON string, which is decoded only where it is ASCII or unusually spelled.

    `spelled` is that of the string or of anything around it. Raises one of `BROKEN` for what is no string.
    """
    data = bytes(raw)
    if data.isascii() or data[:1] != b'"' or not (spelled.simple or is_simple(data)):
        return normal_of(_string.decode(data))
    size = len(data) - 2 - data.count(b"\\")
    if not (spelled.single or is_single(data)):
        size += data.count(b"\\\\")
    return data, size, wide_of(data, size)


_ASCII = bytes(range(128))
_SAMPLE = 64  # of a conversation of a hundred messages the sum is some per cent off


def wide_of(data: bytes, size: int) -> int:
    """Bytes of non-ASCII characters, at most `size`; in long texts extrapolated from some of them.

    It only feeds an estimate of tokens, and counting them all would cost as much as hashing.
    """
    if data.isascii():
        return 0
    step = len(data) // _SAMPLE | 1
    return min(size, len(data[::step].translate(None, _ASCII)) * step)
