"""Owns this process's own memory of earlier requests: what answers when Redis does not, and always fed.

It sees the same calls as Redis and keeps the same things within the same byte cap, so that a verdict is the
same from either. Everything is in the order of arrival; what is oldest goes first.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import msgspec

from services.proxy.state import limits
from services.proxy.state.base import (
    Live,
    Marks,
    Node,
    Overview,
    Past,
    Query,
    Settled,
    Shared,
    Sighting,
)
from services.proxy.state.timeline import Timeline

INT_COST = 36  # a Python integer and its place in a list


class Entry(msgspec.Struct, gc=False):
    """One remembered request, and the indices that name it."""

    node: Node
    query: Query
    settled: Settled | None = None
    marks: Marks | None = None
    marks_bytes: int = 0
    bytes: int = 0


class LocalState:
    """The shared state's twin inside one process. Its methods do their work before their first await."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._index: dict[tuple[str, ...], deque[str]] = {}
        self._lineages: dict[str, deque[str]] = {}
        self._parts: OrderedDict[tuple[str, str, str], Shared] = OrderedDict()
        self._exact: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._timelines: dict[str, Timeline] = {}

    async def place(self, query: Query, meanwhile: Callable[[Sighting], None] | None = None) -> Sighting:
        """Look up and register a request; there is nothing to do meanwhile."""
        del meanwhile
        node = query.node
        timeline = self.timeline(query.backend)
        calls = timeline.before(query.call.id)
        timeline.call(query.call)
        if node is None:
            return Sighting(calls=calls)
        self._expire(node.at)
        system, tools = self._see_parts(query, node)
        sighting = Sighting(
            system_seen=system,
            tools_seen=tools,
            exact_seen=self._see_chain(query, node),
            candidates=self._candidates(query, node),
            calls=calls,
        )
        self._remember(query, node)
        return sighting

    def adopt(self, node: Node) -> None:
        """Store the lineage decided for a registered node."""
        entry = self._entries.get(node.id)
        if entry is None:
            return
        entry.node = node
        self.timeline(entry.query.backend).adopt(node.id, node.lineage)
        held = self._lineages.setdefault(node.lineage, deque())
        if node.id in held:
            return
        held.append(node.id)
        if len(held) > limits.PER_LINEAGE:
            self._forget(held[0])

    def settle(self, query: Query, settled: Settled, marks: Marks | None) -> None:
        """Add what became of a request."""
        self.timeline(query.backend).settle(settled)
        entry = self._entries.get(settled.id)
        if entry is None:
            return
        entry.settled = settled
        if marks is not None:
            entry.marks, entry.marks_bytes = marks, marks_cost(marks)
            held = self._lineages.get(entry.node.lineage, deque())
            for old in list(held)[: -limits.MARKED_PER_LINEAGE]:
                self._entries[old].marks = None
                self._weigh(self._entries[old])
        self._weigh(entry)
        self._shrink()

    async def marks(self, request_id: str) -> Marks | None:
        """The block digests of an earlier request, if they are still there."""
        entry = self._entries.get(request_id)
        return entry.marks if entry else None

    def timeline(self, backend: str) -> Timeline:
        """The calls that touched a backend."""
        found = self._timelines.get(backend)
        if found is None:
            found = self._timelines[backend] = Timeline()
        return found

    def backend_of(self, request_id: str) -> str | None:
        """The backend that a registered request went to."""
        entry = self._entries.get(request_id)
        return entry.query.backend if entry else None

    async def overview(self, limit: int) -> Overview:
        """Live lineages and shared parts, at most `limit` of each."""
        lineages = []
        for held in sorted(self._lineages.values(), key=lambda ids: ids[-1], reverse=True)[:limit]:
            entry = self._entries[held[-1]]
            past = Past(node=entry.node, settled=entry.settled)
            lineages.append(
                Live(backend=entry.query.backend, model=entry.query.call.model, past=past, requests=len(held))
            )
        shared = sorted(self._parts.values(), key=lambda part: part.last_seen, reverse=True)[:limit]
        return Overview(lineages=lineages, shared=[part for part in shared if part.kind != "bare"])

    async def start(self) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to let go of."""

    def status(self) -> dict[str, Any]:
        """Entries and estimated bytes."""
        return {
            "mode": "local",
            "requests": len(self._entries),
            "lineages": len(self._lineages),
            "shared": len(self._parts),
            "bytes": self.bytes,
            "max_bytes": self.max_bytes,
        }

    def _see_parts(self, query: Query, node: Node) -> tuple[bool, bool]:
        """Count the system prompt and the tool list; whether each had been seen before.

        Without tools, `tools` says whether this system prompt had been seen without tools.
        """
        seen = {kind: self._see_part(query, node, kind, digest) for kind, digest in limits.shared(node)}
        return seen.get("system", False), seen.get("tools", False) or seen.get("bare", False)

    def _see_part(self, query: Query, node: Node, kind: str, digest: str) -> bool:
        place = (query.group, kind, digest)
        part = self._parts.get(place)
        seen = part is not None
        if part is None:
            part = self._parts[place] = Shared(
                kind=kind, hash=digest, backend=query.backend, model=query.call.model, tenant=query.tenant,
                first_seen=node.at, last_seen=node.at, count=0, agents={},
            )  # fmt: skip
        self._parts.move_to_end(place)
        part.last_seen = node.at
        part.count += 1
        agent = node.agent or "unknown"
        if agent not in part.agents and len(part.agents) >= limits.AGENTS:
            agent = "other"
        part.agents[agent] = part.agents.get(agent, 0) + 1
        while len(self._parts) > limits.parts(self.max_bytes):
            self._parts.popitem(last=False)
        return seen

    def _see_chain(self, query: Query, node: Node) -> bool:
        chain = (query.scope, query.group, node.request)
        seen = chain in self._exact
        self._exact[chain] = node.at
        self._exact.move_to_end(chain)
        while len(self._exact) > limits.chains(self.max_bytes):
            self._exact.popitem(last=False)
        return seen

    def _candidates(self, query: Query, node: Node) -> list[Past]:
        ids: set[str] = set()
        for place, limit in limits.indices(query, node):
            held = self._index.get(place)
            if held:
                ids.update(list(held)[-limit:])
        ids.discard(node.id)
        entries = [self._entries[i] for i in sorted(ids, reverse=True)]
        return [Past(node=entry.node, settled=entry.settled) for entry in entries]

    def _remember(self, query: Query, node: Node) -> None:
        entry = self._entries[node.id] = Entry(node, msgspec.structs.replace(query, node=None))
        for place, limit in limits.indices(query, node):
            held = self._index.setdefault(place, deque())
            if node.id not in held:
                held.append(node.id)
            while len(held) > limit:
                held.popleft()
        self._weigh(entry)
        self._shrink()

    def _weigh(self, entry: Entry) -> None:
        node = entry.node
        size = limits.NODE_COST + len(node.chunks) + INT_COST * len(node.sizes) + 2 * len(node.kinds)
        if entry.marks is not None:
            size += entry.marks_bytes
        self.bytes += size - entry.bytes
        entry.bytes = size

    def _shrink(self) -> None:
        while self.bytes > limits.nodes(self.max_bytes) and len(self._entries) > 1:
            self._forget(next(iter(self._entries)))

    def _expire(self, now: int) -> None:
        oldest = now - limits.TTL_S * 1000
        while self._entries and (entry := next(iter(self._entries.values()))).node.at < oldest:
            self._forget(entry.node.id)
        while self._exact and next(iter(self._exact.values())) < oldest:
            self._exact.popitem(last=False)
        while self._parts and next(iter(self._parts.values())).last_seen < oldest:
            self._parts.popitem(last=False)

    def _forget(self, request_id: str) -> None:
        entry = self._entries.pop(request_id)
        self.bytes -= entry.bytes
        for place, _ in limits.indices(entry.query, entry.node):
            _drop(self._index, place, request_id)
        _drop(self._lineages, entry.node.lineage, request_id)


def marks_cost(marks: Marks) -> int:
    """Bytes that the marks of a request take."""
    return 200 * len(marks.sections) + sum([len(mark[6]) + len(mark[7]) for mark in marks.sections])


def _drop(index: dict[Any, deque[str]], place: Any, request_id: str) -> None:
    held = index.get(place)
    if held is None:
        return
    if request_id in held:
        held.remove(request_id)
    if not held:
        del index[place]
