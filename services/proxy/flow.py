"""One request is one `Flow` that travels one way; each step fills its own fields from earlier ones.

read → identify → chunk → place → forward → tap → settle → record. Steps know nothing of the next one. Only
read, place, forward and record touch the outside.
"""

import time
from typing import Any, Literal

import msgspec

from services.costs.cost import Cost
from services.ids import new_id
from services.proxy.backends.backend import Backend
from services.proxy.dialects.base import Dialect, Outcome
from services.proxy.prompt import Prompt, SectionKind
from services.proxy.state.base import Past, Query, Sighting

Hit = Literal["exact", "prefix", "system+tools", "system_only", "tools_only", "none"]
Relation = Literal["first", "append", "exact_repeat", "fork", "rewrite"]
Severity = Literal["break", "loss", "risk", "note"]


class Breaker(msgspec.Struct, kw_only=True, gc=False):
    """One difference between a request and the one it is compared with.

    `section` is params, tools, system or messages. `change`: edit, added, removed, reorder, model. `offset`
    is the UTF-8 offset of the first differing character's first byte, `precision` 1 or the block's length.
    `old`/`new` are the whole section texts where this process has them, `old_role`/`new_role` and `names`
    what recognisers need; none of these leaves the process. `equal_after` counts bytes of normalised text.
    `count` is how many messages, blocks or tools were added, removed or moved here.
    """

    section: Literal["params", "tools", "system", "messages"]
    path: str
    change: str
    kind: SectionKind = "text"
    offset: int = 0
    precision: int = 1
    inserted: int = 0
    deleted: int = 0
    equal_after: int = 0
    old: bytes | None = None
    new: bytes | None = None
    old_role: str = ""
    new_role: str = ""
    names: tuple[str, ...] = ()
    count: int = 1
    detail: dict[str, Any] = {}


class Cause(msgspec.Struct, kw_only=True, gc=False):
    """A named reason. `at` is a path or None for the engine's own doings; `detail` holds no prompt text."""

    code: str
    severity: Severity
    at: str | None = None
    detail: dict[str, Any] = {}


class Identity(msgspec.Struct, kw_only=True, gc=False):
    """Who sends: `scope` keyed hash of credential and tenant; `session` None until the lineage stands in."""

    scope: str
    tenant: str | None = None
    session: str | None = None
    session_source: str | None = None
    agent: str | None = None
    agent_version: str | None = None


class Verdict(msgspec.Struct, kw_only=True, gc=False):
    """What the text says about reuse, before the engine answers."""

    hit: Hit = "none"
    relation: Relation = "first"
    lineage: str = ""
    parent: Past | None = None
    reused_chunks: int = 0
    predicted_reuse: float = 0.0
    predicted_tokens: int = 0
    prompt_estimate: int = 0
    breakers: list[Breaker] = []
    intervening: str | None = None


class Measured(msgspec.Struct, kw_only=True, gc=False):
    """What the engine says it did, normalised; None is unreported. `source` as in the contract.

    `uncached_only`: `prompt_tokens` is known to leave cached tokens out (old Ollama), so it is no total.
    `written` and `written_1h` are the prompt tokens put into a cloud's cache, by lifetime; parts of the
    total.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    source: str | None = None
    field: str | None = None
    confidence: float | None = None
    completion_tokens: int | None = None
    load_ms: float | None = None
    prefill_ms: float | None = None
    uncached_only: bool = False
    written: int | None = None
    written_1h: int | None = None


class Cached(msgspec.Struct, kw_only=True, gc=False):
    """What the response cache said of a request: `verdict` as in the header.

    Where it answered: the id of the request that the backend had answered, and what that had taken.
    """

    verdict: str
    answered_by: str | None = None
    saved_tokens: int | None = None
    saved_ms: float | None = None


class Flow(msgspec.Struct, kw_only=True):
    """A request from its first byte to its row. Instants are `time.perf_counter` seconds.

    `foreseen`: `causes` are those known before the answer, if there are any.
    """

    id: str = msgspec.field(default_factory=new_id)
    received_at: int = msgspec.field(default_factory=lambda: time.time_ns() // 1_000_000)
    started: float = msgspec.field(default_factory=time.perf_counter)
    backend: Backend
    method: str
    path: str
    headers: list[tuple[bytes, bytes]] = []
    dialect: Dialect | None = None
    body_at: float | None = None
    sent_at: float | None = None
    answered_at: float | None = None
    first_byte_at: float | None = None
    relayed_at: float | None = None
    ended_at: float | None = None
    prompt: Prompt | None = None
    identity: Identity | None = None
    query: Query | None = None
    sighting: Sighting | None = None
    verdict: Verdict | None = None
    outcome: Outcome | None = None
    measured: Measured | None = None
    causes: list[Cause] = []
    foreseen: bool = False
    lost_tokens: int | None = None
    lost_ms: float | None = None
    cost: Cost | None = None
    status: str = "incomplete"
    http_status: int | None = None
    error: str | None = None
    fixes: list[str] = []
    cached: Cached | None = None
