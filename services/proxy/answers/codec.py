"""An answer as the bytes that stand in Redis, and back. Pure.

A value carries its own key and a keyed checksum, so that what was put in its place by mistake, cut short or
written by another installation is no answer.
"""

import hmac
import zlib
from hashlib import blake2b

import msgspec

from services.proxy.answers.base import Stored

FORMAT = b"A1"
SUM_BYTES = 16
# On a streamed answer (29 KB): level 1 leaves 11 % in 0.2 ms, level 6 leaves 8 % in 0.6 ms.
LEVEL = 1
MOST_PLAIN = 64 << 20  # no value is inflated to more; `recorder.MOST` keeps ours far below

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Stored).decode


def pack(secret: bytes, key: str, stored: Stored) -> bytes:
    """The value for an answer under a key (hexadecimal)."""
    payload = zlib.compress(_encode(stored), LEVEL)
    return FORMAT + bytes.fromhex(key) + _sum(secret, key, payload) + payload


def unpack(secret: bytes, key: str, value: bytes) -> Stored | None:
    """The answer, or None where the value is not one that `pack` made for this key."""
    head = FORMAT + bytes.fromhex(key)
    body = value[len(head) + SUM_BYTES :]
    if not value.startswith(head):
        return None
    if not hmac.compare_digest(value[len(head) : len(head) + SUM_BYTES], _sum(secret, key, body)):
        return None
    try:
        inflate = zlib.decompressobj()
        plain = inflate.decompress(body, MOST_PLAIN)
        return _decode(plain) if inflate.eof else None
    except (zlib.error, msgspec.DecodeError):
        return None


def _sum(secret: bytes, key: str, payload: bytes) -> bytes:
    digest = blake2b(key=secret, digest_size=SUM_BYTES, person=b"answers value")
    digest.update(bytes.fromhex(key))
    digest.update(payload)
    return digest.digest()
