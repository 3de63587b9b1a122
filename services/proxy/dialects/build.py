"""Puts a cut request together as a `Prompt`; pure, owns no state.

A dialect says which slices are params, tools, system and messages (`Parts`); here they become chunks in the
order in which templates print them, and the chain of prefix hashes over them.
"""

from collections.abc import Iterable
from hashlib import sha1
from typing import NamedTuple

from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.dialects.content import encode
from services.proxy.dialects.envelope import params_raw
from services.proxy.dialects.head import head_of
from services.proxy.dialects.normal import Digest
from services.proxy.dialects.tools import ToolSet
from services.proxy.prompt import Chunk, Engine, Hints, Prompt, RequestKind, Section, plain_model

SYSTEM_ROLES = frozenset({"system", "developer"})


class Parts(NamedTuple):
    """A body's envelope, understood: everything but its list of messages. Absent slices are `cut.NONE`."""

    kind: RequestKind
    model: str
    stream: bool
    params: tuple[tuple[str, bytes], ...]
    tools: Raw
    system: Raw
    hints: Hints
    engine: Engine


def params_chunk(params: tuple[tuple[str, bytes], ...]) -> Chunk:
    """The chunk of template inputs."""
    raw = params_raw(params)
    return Chunk("params", -1, "", sha1(b"params" + raw).digest(), len(raw), 0, 0, raw)


def params_sections(raw: bytes) -> list[Section]:
    """One section a template input, ``params.NAME``."""
    return [Section(f"params.{name}", "json", bytes(item), name) for name, item in cut.members(raw).items()]


def tools_chunk(tools: ToolSet, raw: Raw) -> Chunk:
    """The chunk of all tool definitions."""
    return Chunk("tools", -1, "", tools.hash, tools.size, tools.wide, 0, raw)


def system_chunk(system: Digest, raws: list[Raw]) -> Chunk:
    """The chunk of the API's system field and the leading system messages, as one array."""
    raw = b"[%b]" % b",".join(bytes(part) for part in raws)
    return Chunk("system", -1, "system", system.hash, system.size, system.wide, system.media, raw)


def message_chunk(index: int, found: Digest, raw: Raw | bytes) -> Chunk:
    """The chunk of one message."""
    return Chunk("message", index, *found, raw)


def number_system(parts: list[list[Section]]) -> list[Section]:
    """Sections of the system texts with whole paths: ``system``, or ``system[k]`` where there are several."""
    flat = [section for part in parts for section in part]
    if len(flat) == 1:
        return [flat[0]._replace(path="system")]
    return [section._replace(path=f"system[{k}]") for k, section in enumerate(flat)]


def first_hash(messages: Iterable[Chunk]) -> bytes | None:
    """The hash of the first message that is no system message."""
    return next((chunk.hash for chunk in messages if chunk.role not in SYSTEM_ROLES), None)


def chain(backend: str, model: str, hashes: Iterable[bytes]) -> list[bytes]:
    """The prefix hashes P(1)… over chunk hashes, from P(0) of backend and model."""
    return extend(base(backend, model), hashes)


def base(backend: str, model: str) -> bytes:
    """P(0): another backend or model shares nothing."""
    return sha1(encode(f"{backend}\n{plain_model(model)}")).digest()


def extend(prefix: bytes, hashes: Iterable[bytes]) -> list[bytes]:
    """The chain continued from a given prefix hash."""
    chained = []
    for item in hashes:
        prefix = sha1(prefix + item).digest()
        chained.append(prefix)
    return chained


class System(NamedTuple):
    """The system section: its digest, and the slices it was read from (the API's field, leading messages)."""

    digest: Digest
    raws: list[Raw]


def assemble(
    dialect: str,
    list_name: str,
    parts: Parts,
    *,
    tools: ToolSet | None,
    system: System | None,
    messages: list[Chunk],
) -> Prompt:
    """A prompt without its chain: chunks in template order, and what is told apart from them."""
    params = params_chunk(parts.params) if parts.params else None
    if tools is not None:
        parts.hints.tool_names = tools.names
    if system is not None:
        parts.hints.system_head = head_of(system.raws[0])
    front = [params, tools and tools_chunk(tools, parts.tools), system and system_chunk(*system)]
    return Prompt(
        dialect=dialect,
        kind=parts.kind,
        model=parts.model,
        stream=parts.stream,
        list_name=list_name,
        chunks=[chunk for chunk in front if chunk] + messages,
        system_hash=system.digest.hash if system else None,
        tools_hash=tools.hash if tools else None,
        tools_set_hash=tools.set_hash if tools else None,
        params_hash=params.hash if params else None,
        first_hash=first_hash(messages),
        tool_count=tools.length if tools else 0,
        has_media=bool(system and system.digest.media) or any(chunk.media for chunk in messages),
        hints=parts.hints,
        engine=parts.engine,
    )
