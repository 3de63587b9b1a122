"""Writes the script's arguments and reads its replies; the other half of `script.lua`. Pure."""

from collections.abc import Sequence
from hashlib import blake2b, sha1
from typing import Any

import msgspec

from services.proxy.state import limits
from services.proxy.state.base import (
    Call,
    Live,
    Marks,
    Node,
    Overview,
    Past,
    Query,
    Settled,
    Shared,
    Sighting,
)  # fmt: skip

BASE = b"metalanchor:{state}:"
INSTALLATIONS = BASE + b"installations"

_encode = msgspec.msgpack.Encoder().encode
_node = msgspec.msgpack.Decoder(Node).decode
_call = msgspec.msgpack.Decoder(Call).decode
_settled = msgspec.msgpack.Decoder(Settled).decode
_marks = msgspec.msgpack.Decoder(Marks).decode
_TTL_MS = limits.TTL_S * 1000


def sha(script: bytes) -> str:
    """The name Redis gives a script."""
    return sha1(script).hexdigest()


def node_key(request_id: str) -> bytes:
    """Where a request is kept."""
    return BASE + b"n:" + request_id.encode()


def place(query: Query, max_bytes: int) -> list[Any]:
    """Arguments of `place`."""
    node = query.node
    arguments: list[Any] = [
        b"place", query.call.at, _TTL_MS, query.call.id, _name(query.backend), _encode(query.call),
        limits.CALLS,
    ]  # fmt: skip
    if node is None:
        return [*arguments, b""]
    slot = query.scope, query.group
    parts = _parts(node)
    indices = limits.indices(query, node)
    arguments += [
        _encode(node), _name(*slot, node.request), node.agent or "unknown", limits.parts(max_bytes),
        limits.chains(max_bytes), limits.nodes(max_bytes), limits.NODE_COST, query.backend, query.call.model,
        len(parts), len(indices),
    ]  # fmt: skip
    for kind, digest in parts:
        meta = _encode((kind, digest, query.backend, query.call.model, query.tenant))
        arguments += [kind, _name(query.group, kind, digest), meta]
    for place_, limit in indices:
        arguments += [_name(*place_), limit]
    return arguments


def sighting(reply: Sequence[Any]) -> Sighting:
    """The answer of `place`, candidates most recent first, calls oldest first."""
    system, tools, exact, found, calls = reply
    candidates = [
        Past(node=_node(found[i]), settled=_settled(found[i + 1]) if found[i + 1] else None)
        for i in range(0, len(found), 2)
    ]
    candidates.sort(key=lambda past: past.node.id, reverse=True)
    timeline = [
        _timed(calls[i], calls[i + 1], calls[i + 2]) for i in range(len(calls) - 3, -1, -3) if calls[i]
    ]
    return Sighting(
        system_seen=bool(system),
        tools_seen=bool(tools),
        exact_seen=bool(exact),
        candidates=candidates,
        calls=timeline,
    )


def adopt(node: Node, backend: str) -> list[Any]:
    """Arguments of `adopt`."""
    return [
        b"adopt", node.id, _encode(node), node.lineage, _name(backend), node.at, limits.PER_LINEAGE, _TTL_MS,
    ]  # fmt: skip


def settle(query: Query, settled: Settled, marks: Marks | None, max_bytes: int) -> list[Any]:
    """Arguments of `settle`."""
    return [
        b"settle", settled.id, _name(query.backend), _encode(settled), _encode(marks) if marks else b"",
        limits.MARKED_PER_LINEAGE, limits.nodes(max_bytes),
    ]  # fmt: skip


def marks(raw: bytes) -> Marks:
    """Marks as they were stored."""
    return _marks(raw)


def overview(reply: Sequence[Any]) -> Overview:
    """The answer of `overview`."""
    lineages, parts = reply
    return Overview(
        lineages=[
            Live(
                backend=backend.decode(), model=model.decode(), requests=count,
                past=Past(node=_node(node), settled=_settled(settled) if settled else None),
            )
            for node, settled, backend, model, count in lineages
        ],
        shared=[part for raw in parts if raw and (part := _shared(raw)).kind != "bare"],
    )  # fmt: skip


def _shared(raw: Sequence[bytes]) -> Shared:
    fields = {raw[i].decode(): raw[i + 1] for i in range(0, len(raw), 2)}
    kind, digest, backend, model, tenant = msgspec.msgpack.decode(fields["meta"])
    return Shared(
        kind=kind, hash=digest, backend=backend, model=model, tenant=tenant, first_seen=int(fields["first"]),
        last_seen=int(fields["last"]), count=int(fields["count"]),
        agents={name[2:]: int(count) for name, count in fields.items() if name.startswith("a:")},
    )  # fmt: skip


def _timed(call: bytes, settled: bytes | None, lineage: bytes | None) -> tuple[Call, Settled | None]:
    known = _call(call)
    if lineage:
        known.lineage = lineage.decode()
    return known, _settled(settled) if settled else None


def _parts(node: Node) -> list[tuple[str, str]]:
    """The shared parts a request shows; a system prompt without tools is one of its own kind."""
    parts = [("system", node.system)] if node.system else []
    if node.tools:
        parts.append(("tools", node.tools))
    elif node.system:
        parts.append(("bare", node.system))
    return parts


def _name(*words: str) -> bytes:
    """Ten bytes that stand for some words in a key; the script relies on the length."""
    digest = blake2b(digest_size=10)
    for word in words:
        raw = word.encode("utf-8", "surrogateescape")
        digest.update(b"%d:%b" % (len(raw), raw))
    return digest.digest()
