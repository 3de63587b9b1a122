"""The conversations whose cache may still be warm, from the hit state, and what they share.

Whether an engine still holds a conversation cannot be asked of most engines. It is judged as the causes are:
by how many other conversations used the model since, against its slots, and by how long it stood idle.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from litestar import Request, Router, get

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.filters import Cursor, Limit, refuse_unknown
from services.proxy.admin.history import History
from services.proxy.admin.parts import Parts
from services.proxy.admin.recent import iso
from services.proxy.backends.backend import Backend
from services.proxy.causes.residency import KEEP_ALIVE_S
from services.proxy.causes.scene import same_model, slots_of
from services.proxy.state.base import Live

MOST = 1_000
# A request that has not ended after this long is taken to have no proxy any more.
RUNNING_MS = 3_600_000
ANSWERED = frozenset({"completed", "incomplete", "client_cancelled", "error_midstream", "proxy_stopped"})


def routes(ctx: Parts, history: History) -> Router:
    """``/lineages`` and ``/shared``, below ``/api``."""

    @get("/lineages", summary="Conversations and whether the engine still holds them")
    async def list_lineages(
        request: Request[Any, Any, Any], cursor: Cursor = None, limit: Limit = 100
    ) -> dict[str, Any]:
        refuse_unknown(request, "cursor", "limit")
        found = await ctx.state.overview(MOST)
        items = describe(found.lineages, ctx.backends, time.time_ns() // 1_000_000)
        items.sort(key=lambda item: item["last_request"], reverse=True)
        return await with_hits(_page(items, lambda item: str(item["last_request"]), cursor, limit), history)

    @get("/shared", summary="System prompts and tool lists that requests share, and who sends them")
    async def list_shared(
        request: Request[Any, Any, Any], cursor: Cursor = None, limit: Limit = 100
    ) -> dict[str, Any]:
        refuse_unknown(request, "cursor", "limit")
        found = await ctx.state.overview(MOST)
        items = [{**msgspec.structs.asdict(part), "first_seen": iso(part.first_seen),
                  "last_seen": iso(part.last_seen)} for part in found.shared]  # fmt: skip
        return _page(items, lambda item: f"{item['last_seen']}/{item['kind']}/{item['hash']}", cursor, limit)

    return Router("/", route_handlers=[list_lineages, list_shared], tags=["state"])


def describe(lineages: Sequence[Live], backends: Sequence[Backend], now: int) -> list[dict[str, Any]]:
    """Each lineage by its latest request, with `state` warm, probably_evicted, cold or unloaded. Pure."""
    known = {backend.name: backend for backend in backends}
    return [_item(live, lineages, known.get(live.backend), now) for live in lineages]


def _item(live: Live, lineages: Sequence[Live], backend: Backend | None, now: int) -> dict[str, Any]:
    node, settled = live.past.node, live.past.settled
    state, taker = state_of(live, lineages, backend, now)
    return {
        "lineage": node.lineage,
        "session": node.session,
        "agent": node.agent,
        "backend": live.backend,
        "model": live.model,
        "state": state,
        "evicted_by": _taker(taker, node.scope) if taker else None,
        "last_request": node.id,
        "last_at": iso(node.at),
        "requests": live.requests,
        "estimated_tokens": node.estimate,
        "prompt_tokens": settled.prompt_tokens if settled else None,
        "cached_tokens": settled.cached_tokens if settled else None,
        "status": settled.status if settled else None,
        "digest": {
            "params": node.params,
            "tools": node.tools,
            "system": node.system,
            "first_message": node.first,
            "request": node.request,
        },
    }


def state_of(
    live: Live, lineages: Sequence[Live], backend: Backend | None, now: int
) -> tuple[str, Live | None]:
    """Whether the engine still holds a lineage, and the lineage that took its place, if one did. Pure."""
    settled = live.past.settled
    if settled is None and now - live.past.node.at > RUNNING_MS:
        return "cold", None
    if settled is not None and settled.status not in ANSWERED:
        return "cold", None
    if backend is not None and backend.status == "down":
        return "unloaded", None
    same = [
        other for other in lineages if other.backend == live.backend and same_model(other.model, live.model)
    ]
    if backend is not None and backend.kind == "ollama":
        last = max(_until(other) for other in same)
        if now - last > KEEP_ALIVE_S * 1_000:
            return "unloaded", None
    slots = slots_of(backend) if backend is not None else 1
    takers = sorted((other for other in same if _until(other) > _until(live)), key=_until)
    if slots is not None and len(takers) >= slots:
        return "probably_evicted", takers[slots - 1]
    return "warm", None


def _until(live: Live) -> int:
    """When a lineage last held the engine, epoch milliseconds."""
    return live.past.settled.ended if live.past.settled else live.past.node.at


def _taker(live: Live, scope: str) -> dict[str, Any]:
    node = live.past.node
    session = node.session if node.scope == scope else None
    return {"request": node.id, "agent": node.agent, "session": session}


async def with_hits(page: dict[str, Any], history: History) -> dict[str, Any]:
    """Add what the history knows of each latest request; without a database these stay unknown."""
    ids = [item["last_request"] for item in page["items"]]
    try:
        rows = await history.ask(_rows, ids)
    except HistoryUnavailable:
        rows = {}
    for item in page["items"]:
        row = rows.get(item["last_request"]) or {}
        item["last_hit"], item["last_cause"] = row.get("hit"), row.get("cause")
    return page


def _rows(connection: Any, ids: list[str]) -> dict[str, dict[str, Any] | None]:
    from services.history import queries  # noqa: PLC0415  # not before somebody looks

    return {request_id: queries.get_request(connection, request_id) for request_id in ids}


def _page(
    items: list[dict[str, Any]], key: Callable[[dict[str, Any]], str], cursor: str | None, limit: int
) -> dict[str, Any]:
    rest = [item for item in items if cursor is None or key(item) < cursor]
    page = rest[:limit]
    return {"items": page, "next": key(page[-1]) if len(rest) > limit else None}
