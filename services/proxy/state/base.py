"""What all proxies share about the prompts they have seen, and the protocol behind which it is kept.

Redis holds it for every process of the installation (`redis.py`, one server-side script a request); a
bounded twin in this process (`local.py`) sees the same calls, so that verdicts go on when Redis does not. The
store is dumb on purpose: it indexes and returns; which lineage a request continues is decided by pure code
(`placing/lineage.py`), so the two implementations cannot drift apart. Nothing here is prompt text.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

HASH_BYTES = 12  # of each chunk hash kept in a node: 96 bits keep a billion chunks apart, at 60 % of the size


class Node(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """One request as later ones are compared with it.

    `chunks` concatenates the truncated hashes of all chunks in prompt order, `sizes` their normalised bytes,
    `kinds` one letter each (p params, t tools, s system, m message, q prompt), `roles` one letter a chunk
    (u, a, t, s, -). Hashes are hexadecimal or None.
    """

    id: str
    at: int
    scope: str
    lineage: str
    session: str | None
    agent: str | None
    system: str | None
    tools: str | None
    params: str | None
    first: str | None
    request: str
    raw: str
    kinds: str
    roles: str
    chunks: bytes
    sizes: tuple[int, ...]
    estimate: int
    stream: bool
    dialect: str


class Call(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """One call that touches a model, for the model's timeline: any agent, any endpoint, in order of arrival.

    `kind`: generation, embedding, load, unload. `side` marks small tool-free requests (titles, tags).
    `first` and `system` are hashes of the first non-system message and of the system text, to notice that a
    conversation went on under another model.
    """

    id: str
    at: int
    kind: str
    scope: str
    model: str
    lineage: str | None = None
    session: str | None = None
    agent: str | None = None
    options: dict[str, Any] = {}
    keep_alive_s: float | None = None
    estimate: int = 0
    side: bool = False
    first: str | None = None
    system: str | None = None


class Settled(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """What became of a request; written when its answer ended. `reply` are digests of its sections."""

    id: str
    lineage: str
    ended: int
    status: str
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    load_ms: float | None = None
    output: str | None = None
    reply: list[tuple[str, str]] = []
    temperature: float | None = None
    completion_tokens: int | None = None


class Query(msgspec.Struct, kw_only=True, gc=False):
    """What a request asks of the state, and leaves there, in one step.

    `group` stands for backend, model and, once tenants are in use, the tenant.
    """

    scope: str
    group: str
    backend: str
    tenant: str | None
    node: Node | None
    call: Call


class Past(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """An earlier request and, once its answer ended, what became of it."""

    node: Node
    settled: Settled | None = None


class Sighting(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """The state's answer: what was seen before this request, and what it may be compared with.

    `candidates` are earlier requests of the same scope, backend and model, most recent first, without
    duplicates: of the same explicit session, with the same first non-system message, with equal tools, and
    the most recent ones. `calls` is the backend's timeline before this request, oldest first.
    """

    system_seen: bool = False
    tools_seen: bool = False
    exact_seen: bool = False
    candidates: list[Past] = []
    calls: list[tuple[Call, Settled | None]] = []


Mark = tuple[int, str, str, str, int, bytes, bytes, bytes]


class Marks(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """A request's sections by keyed digests of short blocks, to find an offset where the text is not at hand.

    Each section is (chunk position, path, kind, label, bytes, digest, digests of its blocks counted from the
    head, digests of its blocks counted from the tail).
    """

    sections: list[Mark] = []


class Shared(msgspec.Struct, kw_only=True, array_like=True):
    """A system prompt or tool list that agents share: when it was seen, how often, and by whom (with counts).

    `kind` is system or tools; times are epoch milliseconds.
    """

    kind: str
    hash: str
    backend: str
    model: str
    tenant: str | None
    first_seen: int
    last_seen: int
    count: int
    agents: dict[str, int]


class Live(msgspec.Struct, kw_only=True, array_like=True):
    """A lineage by its latest request. `requests` counts those still held."""

    backend: str
    model: str
    past: Past
    requests: int


class Overview(msgspec.Struct, kw_only=True):
    """What the state holds, for people: live lineages and shared parts, most recent first."""

    lineages: list[Live] = []
    shared: list[Shared] = []


class State(Protocol):
    """The shared state; every method keeps its time budget and never raises."""

    async def place(self, query: Query, meanwhile: Callable[[Sighting], None] | None = None) -> Sighting:
        """Look up and register a request, atomically.

        `meanwhile` may be called with what this process knows while the store is at it. Where the store knows
        no more, that very sighting is the result.
        """

    def adopt(self, node: Node) -> None:
        """Store the lineage that the pure code decided for a registered node."""

    def settle(self, query: Query, settled: Settled, marks: Marks | None) -> None:
        """Add what became of a request."""

    async def marks(self, request_id: str) -> Marks | None:
        """The block digests of an earlier request, if they are still there."""

    async def overview(self, limit: int) -> Overview:
        """Live lineages and shared parts, at most `limit` of each."""

    async def start(self) -> None:
        """Connect in the background; returns at once, whatever the store does."""

    async def close(self) -> None:
        """Finish pending writes within a second and let go of connections."""

    def status(self) -> dict[str, Any]:
        """Mode (``redis`` or ``local``), breaker state, entries and bytes, for `/status`."""
