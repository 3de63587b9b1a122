"""Writes the script's arguments and reads its replies; the other half of `script.lua`. Pure."""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b, sha1
from typing import Any, NamedTuple

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
ID = 36  # characters of a request id
PROCESS = 4  # bytes by which a process tells its own events from those of others
_HEAD = 1 + PROCESS

Event = Call | Settled | tuple[str, str]


def sha(script: bytes) -> str:
    """The name Redis gives a script."""
    return sha1(script).hexdigest()


def node_key(request_id: str) -> bytes:
    """Where a request is kept."""
    return BASE + b"n:" + request_id.encode()


def place(query: Query, me: bytes, max_bytes: int, cursor: int = 0, known: str = "") -> list[Any]:
    """Arguments of `place` by process `me`.

    `cursor` is the number of the last timeline event seen, `known` the joined ids of candidates that need not
    be sent again.
    """
    node = query.node
    arguments: list[Any] = [
        b"place", query.call.at, _TTL_MS, query.call.id, _name(query.backend), _encode(query.call),
        limits.EVENTS, cursor, me,
    ]  # fmt: skip
    if node is None:
        return [*arguments, b""]
    slot = query.scope, query.group
    parts = limits.shared(node)
    indices = limits.indices(query, node)
    arguments += [
        _encode(node), _name(*slot, node.request), node.agent or "unknown", limits.parts(max_bytes),
        limits.chains(max_bytes), limits.nodes(max_bytes), limits.NODE_COST, query.backend, query.call.model,
        known, len(parts), len(indices),
    ]  # fmt: skip
    for kind, digest in parts:
        meta = _encode((kind, digest, query.backend, query.call.model, query.tenant))
        arguments += [kind, _name(query.group, kind, digest), meta]
    for place_, limit in indices:
        arguments += [_name(*place_), limit]
    return arguments


class Answer(NamedTuple):
    """The reply of `place`: what the sighting needs, and the timeline's news up to event number `cursor`."""

    sighting: Sighting
    cursor: int
    events: list[Event]


def answer(reply: Sequence[Any]) -> Answer:
    """Read the reply of `place`: unknown candidates, most recent first, and events, oldest first."""
    system, tools, exact, found, cursor, raw = reply
    candidates = [
        Past(node=_node(found[i]), settled=_settled(found[i + 1]) if found[i + 1] else None)
        for i in range(0, len(found), 2)
    ]
    candidates.sort(key=lambda past: past.node.id, reverse=True)
    seen = Sighting(
        system_seen=bool(system), tools_seen=bool(tools), exact_seen=bool(exact), candidates=candidates
    )
    return Answer(seen, cursor, [_event(event) for event in reversed(raw)])


def _event(raw: bytes) -> Event:
    """A call, what became of one, or (request id, lineage)."""
    if raw[:1] == b"c":
        return _call(raw[_HEAD:])
    if raw[:1] == b"s":
        return _settled(raw[_HEAD:])
    return raw[_HEAD : _HEAD + ID].decode(), raw[_HEAD + ID :].decode()


def adopt(node: Node, me: bytes, backend: str) -> list[Any]:
    """Arguments of `adopt`."""
    return [
        b"adopt", node.id, _encode(node), node.lineage, _name(backend), node.at, limits.PER_LINEAGE, _TTL_MS,
        limits.EVENTS, me,
    ]  # fmt: skip


def settle(query: Query, me: bytes, settled: Settled, marks: Marks | None, max_bytes: int) -> list[Any]:
    """Arguments of `settle`."""
    return [
        b"settle", settled.id, _name(query.backend), _encode(settled), _encode(marks) if marks else b"",
        limits.MARKED_PER_LINEAGE, limits.nodes(max_bytes), limits.EVENTS, _TTL_MS, me,
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


@lru_cache(maxsize=1024)  # most names are those of the conversation's last request
def _name(*words: str) -> bytes:
    """Ten bytes that stand for some words in a key; the script relies on the length."""
    digest = blake2b(digest_size=10)
    for word in words:
        raw = word.encode("utf-8", "surrogateescape")
        digest.update(b"%d:%b" % (len(raw), raw))
    return digest.digest()
