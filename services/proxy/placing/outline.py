"""Owns the outlines of the latest requests of this process: what `Node` needs of a prompt's chunks.

A next turn repeats its conversation, so its outline is the earlier one and a few chunks more; going through
hundreds of chunks again would cost more than placing the request.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from services.proxy.placing.tokens import Bulk, bulk_of
from services.proxy.prompt import Chunk, ChunkKind, Prompt
from services.proxy.state.base import HASH_BYTES

REMEMBERED = 256  # requests, so fewer conversations that take turns; each costs some bytes a chunk
CHUNK_HASH_BYTES = 8  # of each chunk in ``chunk_hashes``: 64 bits tell the chunks of one history apart

LETTERS: Mapping[ChunkKind, str] = {
    "params": "p", "tools": "t", "system": "s", "message": "m", "prompt": "q",
}  # fmt: skip
ROLES: Mapping[str, str] = {
    "user": "u", "assistant": "a", "model": "a", "tool": "t", "function": "t", "system": "s",
    "developer": "s",
}  # fmt: skip


class Outline(NamedTuple):
    """A prompt's chunks: letters for kind and role, truncated hashes, bytes; and how much text they are.

    `names` are the hashes as rows hold them: shorter, in hexadecimal.
    """

    kinds: str = ""
    roles: str = ""
    hashes: bytes = b""
    sizes: tuple[int, ...] = ()
    names: str = ""
    bulk: Bulk = Bulk()


_recent: OrderedDict[bytes, Outline] = OrderedDict()


def outline(prompt: Prompt) -> Outline:
    """The outline of `prompt`, from that of the longest prefix that is remembered."""
    whole = _recent.get(prompt.prefixes[-1]) if prompt.prefixes else None
    if whole is not None:
        return whole
    known, length = Outline(), 0
    for count in range(len(prompt.prefixes), 0, -1):
        found = _recent.get(prompt.prefixes[count - 1])
        if found is not None:
            known, length = found, count
            break
    made = _extended(known, prompt.chunks[length:])
    if prompt.prefixes:
        _recent[prompt.prefixes[-1]] = made
        if len(_recent) > REMEMBERED:
            _recent.popitem(last=False)
    return made


def _extended(known: Outline, chunks: list[Chunk]) -> Outline:
    if not chunks:
        return known
    return Outline(
        known.kinds + "".join([LETTERS[chunk.kind] for chunk in chunks]),
        known.roles + "".join([ROLES.get(chunk.role, "-") for chunk in chunks]),
        known.hashes + b"".join([chunk.hash[:HASH_BYTES] for chunk in chunks]),
        known.sizes + tuple([chunk.size for chunk in chunks]),
        known.names + b"".join([chunk.hash[:CHUNK_HASH_BYTES] for chunk in chunks]).hex(),
        known.bulk.plus(bulk_of(chunks)),
    )
