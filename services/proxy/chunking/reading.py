"""Reads one body into a trail: from nothing, or from a proven head on. Pure; the analyser owns the trails.

All three ways give the same prompt for the same body; they differ in how much of it they look at.
"""

import time
from collections.abc import Iterable
from hashlib import sha1

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.chunking.trail import Match, Trail, ends_of, kept, known_chunks, prove
from services.proxy.dialects import build
from services.proxy.dialects.envelope import HEAD_KEY, Envelope
from services.proxy.dialects.listed import ListDialect
from services.proxy.dialects.normal import Digest
from services.proxy.prompt import Chunk

_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_GLUE = b'{"%b":[null' % HEAD_KEY.encode()
_MEMBERS = [name for name in Envelope.__struct_fields__ if name not in ("items", "head")]

_elements = msgspec.json.Decoder(list[Raw])


def cold(dialect: ListDialect, body: bytes, backend: str) -> Trail:
    """Read a body from nothing; raises `UnparsedError`. Without checkpoints it cannot be continued."""
    source = body
    try:
        envelope = dialect.envelope.decode(body)
    except _BROKEN:
        envelope = cut.decode(dialect.envelope, body)
        source = b""  # mended, so that offsets are those of another text
    spelled = cut.spelling(body)
    parts = dialect.parts(envelope)
    items = dialect.items(envelope)
    lead, system = dialect.leading(parts.system, items, spelled)
    messages = dialect.chunks(items[lead:], lead, spelled)
    tools = dialect.read_tools(parts.tools)
    prompt = build.assemble(
        dialect.name, dialect.list_name, parts, tools=tools, system=system, messages=messages
    )
    prompt.prefixes = build.chain(backend, parts.model, _hashes(prompt.chunks))
    prompt.message_count = len(items)
    front = len(prompt.chunks) - len(messages)
    whole = bool(source and items) and isinstance(envelope.items, list)
    first = cut.offset(items[0], source) if whole else 0
    trail = Trail(time.monotonic(), prompt, backend, tools, front, lead, first)
    ends = ends_of(items, source, 0, 0, lead) if whole else []
    return _hashed(trail, body, ends, None)


def same_rest(dialect: ListDialect, body: bytes, found: Match) -> Trail | None:
    """Continue where everything after the messages is as it was: only new messages are read.

    What lies between must be whole list items; then the known rest closes this body as it closed the other.
    """
    trail, checkpoint, _ = found
    end = len(body) - len(trail.rest)
    if not trail.rest or end < checkpoint.offset or not body.endswith(trail.rest):
        return None
    source = b"[null%b]" % body[checkpoint.offset : end]
    try:
        raws = _elements.decode(source)[1:]
    except _BROKEN:
        return None
    new = dialect.chunks(raws, checkpoint.messages, cut.spelling(source))
    messages = known_chunks(trail, checkpoint.messages) + new
    prompt = msgspec.structs.replace(
        trail.prompt,
        chunks=trail.prompt.chunks[: trail.front] + messages,
        prefixes=_continued(trail, checkpoint.messages, new),
        message_count=checkpoint.messages + len(raws),
        has_media=_has_media(trail, messages, new),
        first_hash=build.first_hash(messages),
    )
    ends = ends_of(raws, source, checkpoint.offset - len(b"[null"), checkpoint.messages, trail.lead)
    renewed = msgspec.structs.replace(trail, at=time.monotonic(), prompt=prompt)
    return _hashed(renewed, body, ends, found)


def new_rest(dialect: ListDialect, body: bytes, found: Match) -> Trail | None:
    """Continue where what follows the messages changed: the envelope is read anew, no known message is."""
    trail, checkpoint, _ = found
    if trail.lead and _front(trail, "system") is None:
        return None  # leading system messages without a text: their slices were not kept
    source = _GLUE + body[checkpoint.offset :]
    rejoined = _rejoined(dialect, body[: trail.first] + b"]}", source)
    if rejoined is None:
        return None
    envelope, raws = rejoined
    parts = dialect.parts(envelope)
    spelled = cut.UNKNOWN  # some members are from before the known head, some from after it
    tools = trail.tools if _same_tools(trail, parts.tools) else dialect.read_tools(parts.tools)
    new = [chunk.apart() for chunk in dialect.chunks(raws, checkpoint.messages, spelled)]
    messages = known_chunks(trail, checkpoint.messages) + new
    prompt = build.assemble(
        dialect.name,
        dialect.list_name,
        parts,
        tools=tools,
        system=_system(dialect, trail, parts.system),
        messages=messages,
    )
    front = len(prompt.chunks) - len(messages)
    prompt.chunks[:front] = [chunk.apart() for chunk in prompt.chunks[:front]]
    if parts.model == trail.prompt.model and _hashes(prompt.chunks[:front]) == _hashes(
        trail.prompt.chunks[: trail.front]
    ):
        prompt.prefixes = _continued(trail, checkpoint.messages, new)
    else:
        prompt.prefixes = build.chain(trail.backend, parts.model, _hashes(prompt.chunks))
    prompt.message_count = checkpoint.messages + len(raws)
    ends = ends_of(raws, source, checkpoint.offset - len(_GLUE), checkpoint.messages, trail.lead)
    renewed = Trail(time.monotonic(), prompt, trail.backend, tools, front, trail.lead, trail.first)
    return _hashed(renewed, body, ends, found)


def _rejoined(dialect: ListDialect, head: bytes, rest: bytes) -> tuple[Envelope, list[Raw]] | None:
    """The members around a known head of the list, and what items follow it; None where that is no body."""
    try:
        before, envelope = dialect.envelope.decode(head), dialect.envelope.decode(rest)
    except _BROKEN:
        return None
    if envelope.items is not None or not envelope.head:
        return None  # a second list of messages: the last one wins, so the known one is void
    envelope.items = envelope.head
    for name in _MEMBERS:
        if not getattr(envelope, name):
            setattr(envelope, name, getattr(before, name))
    return envelope, envelope.head[1:]


def _hashed(trail: Trail, body: bytes, ends: list[tuple[int, int]], found: Match | None) -> Trail:
    """The trail with its checkpoints, and its prompt with the raw hash."""
    prompt = trail.prompt
    state = found.state if found else sha1()
    start = found.checkpoint.offset if found else 0
    points = prove(state, body, start, ends)
    if found:
        points = kept([point for point in found.trail.checkpoints if point.offset <= start], points)
    prompt.raw_hash = state.digest()
    prompt.request_bytes = len(body)
    closed = points and points[-1].messages == prompt.message_count
    rest = body[points[-1].offset :] if closed else b""
    return msgspec.structs.replace(trail, rest=rest, checkpoints=points)


def _hashes(chunks: Iterable[Chunk]) -> list[bytes]:
    return [chunk.hash for chunk in chunks]


def _continued(trail: Trail, count: int, new: list[Chunk]) -> list[bytes]:
    """The chain over a known front and head, continued over new chunks."""
    known = trail.prompt.prefixes[: trail.front + count - trail.lead]
    return known + build.extend(known[-1], _hashes(new))


def _has_media(trail: Trail, messages: list[Chunk], new: list[Chunk]) -> bool:
    """Whether a continued body has media; the known part is searched only where it may have some."""
    if not trail.prompt.has_media:
        return any(chunk.media for chunk in new)
    return any(chunk.media for chunk in (*trail.prompt.chunks[: trail.front], *messages))


def _front(trail: Trail, kind: str) -> Chunk | None:
    return next((chunk for chunk in trail.prompt.chunks[: trail.front] if chunk.kind == kind), None)


def _same_tools(trail: Trail, raw: Raw) -> bool:
    chunk = _front(trail, "tools")
    return chunk is not None and len(raw) == len(chunk.part) and bytes(raw) == chunk.raw


def _system(dialect: ListDialect, trail: Trail, field: Raw) -> build.System | None:
    """The system section: known leading messages below a field that may have changed."""
    chunk = _front(trail, "system")
    raws = cut.elements(chunk.raw) if chunk else []
    leading = raws[len(raws) - trail.lead :]
    if chunk and bytes(raws[0] if len(raws) > trail.lead else cut.NONE) == bytes(field):
        return build.System(Digest(chunk.role, chunk.hash, chunk.size, chunk.wide, chunk.media), raws)
    return dialect.leading(field, leading, cut.UNKNOWN)[1]
