"""Conversations: which ones the engine still holds, who took the place of the others, and what they share."""

import time
from typing import Any

import msgspec
from litestar import Request, Response, get

from services.proxy.admin.history import History
from services.proxy.admin.lineages import MOST, describe, with_hits
from services.proxy.admin.pages.site import Site
from services.proxy.admin.parts import Parts
from services.proxy.admin.recent import iso

SHOWN = 200
SHARED = 60
STATES = ("warm", "probably_evicted", "cold", "unloaded")


def routes(ctx: Parts, history: History, site: Site) -> list[Any]:
    """``/lineages``."""

    @get("/lineages", summary="Conversations as a page")
    async def lineages(request: Request[Any, Any, Any]) -> Response[str]:
        found = await ctx.state.overview(MOST)
        items = describe(found.lineages, ctx.backends, time.time_ns() // 1_000_000)
        items.sort(key=lambda item: str(item["last_request"]), reverse=True)
        counts = {state: sum(item["state"] == state for item in items) for state in STATES}
        wanted = request.query_params.get("state")
        if wanted in STATES:
            items = [item for item in items if item["state"] == wanted]
        page = await with_hits({"items": items[:SHOWN]}, history)
        return site.page(
            request,
            "lineages",
            here="lineages",
            items=page["items"],
            counts=counts,
            total=len(found.lineages),
            wanted=wanted if wanted in STATES else None,
            shared=[_shared(part) for part in found.shared[:SHARED]],
            mode=ctx.state.status().get("mode"),
        )

    return [lineages]


def _shared(part: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.structs.asdict(part)
    agents = sorted(part.agents.items(), key=lambda pair: -pair[1])
    return {**found, "first_seen": iso(part.first_seen), "last_seen": iso(part.last_seen), "agents": agents}
