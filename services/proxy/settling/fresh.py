"""What a request added to its conversation, as hashes and sizes: the raw matter of reports on repeats.

Entries are texts of one shape, so that either database can take them apart: a letter for what it is, 12 hex
digits, and a size in bytes. ``p`` params, ``t`` tools, ``s`` system, ``m`` message, ``r`` prompt: size of the
chunk. ``c``: a tool call (its name and arguments, keyed by the scope), size of the result that followed it.
"""

import hashlib

from services.proxy.dialects.base import Dialect
from services.proxy.flow import Flow
from services.proxy.prompt import Chunk, Section

LETTERS = {"params": "p", "tools": "t", "system": "s", "message": "m", "prompt": "r"}
HASH_BYTES = 6
# A first request may bring a whole conversation: this much of it is kept, some 5 KB a row.
MOST = 256
# Assistant turns whose calls are read; a turn adds one or two, and reading one costs some 10 µs.
CALLING = 16


def new_chunks(flow: Flow) -> list[str] | None:
    """The entries of a request's new chunks, None where it added nothing or could not be read."""
    prompt, verdict, dialect = flow.prompt, flow.verdict, flow.dialect
    if prompt is None or verdict is None or dialect is None or not prompt.chunks:
        return None
    first = verdict.reused_chunks
    added = prompt.chunks[first:][-MOST:]
    entries = [_entry(LETTERS[chunk.kind], chunk.hash, chunk.size) for chunk in added]
    scope = flow.identity.scope.encode() if flow.identity else b""
    turns = [place for place, chunk in enumerate(added) if chunk.role == "assistant"]
    for place in turns[-CALLING:]:
        following = added[place + 1 :]
        entries += [
            _entry("c", digest, _result_size(following, number))
            for number, digest in enumerate(_calls(dialect, added[place], scope))
        ]
    return entries or None


def _calls(dialect: Dialect, chunk: Chunk, scope: bytes) -> list[bytes]:
    parts: dict[str, list[bytes]] = {}
    for section in dialect.sections(chunk.kind, chunk.raw):
        if number := _call_number(section):
            parts.setdefault(number, []).append(section.text)
    return [hashlib.sha1(scope + b"\x1f".join(texts)).digest() for texts in parts.values()]


def _call_number(section: Section) -> str | None:
    head, found, rest = section.path.partition(".tool_calls[")
    return rest.partition("]")[0] if found and not head else None


def _result_size(following: list[Chunk], number: int) -> int:
    """OpenAI sends a message a result; others put all results into the one that follows."""
    if number < len(following) and following[number].role == "tool":
        return following[number].size
    return following[0].size if number == 0 and following else 0


def _entry(letter: str, digest: bytes, size: int) -> str:
    return f"{letter}{digest[:HASH_BYTES].hex()}{size}"
