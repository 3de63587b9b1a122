"""The response cache as a page: what it holds and saved, why a question missed, and dropping answers.

Dropping takes two steps: the first only counts. Questions are posted, so that no address holds their text.
"""

import math
from typing import Any

from litestar import Request, Response, get, post
from litestar.exceptions import ClientException, HTTPException

from services.proxy.admin import cache
from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.history import History
from services.proxy.admin.pages.site import Site
from services.proxy.admin.parts import Parts

ROWS = 50
MOST = 20_000  # characters of a question that the page takes
HOUR_S = 3_600.0
# How answers may be chosen, in the order of the list, with what is to be typed.
CHOICES = {
    "keyword": "words of question or answer",
    "model": "a model",
    "tag": "a tag",
    "namespace": "a namespace",
    "older": "older than so many hours",
    "key": "a key",
    "everything": "everything",
}
UNSAID, NO_AGE = "Say which answers are meant.", "An age is a number of hours."
# What may be wrong with what was typed; the store words the last two.
SAID = (
    UNSAID, NO_AGE, cache.UNKNOWN, "The keyword has no letters or digits.", "A key is 32 hexadecimal digits.",
)  # fmt: skip


def routes(ctx: Parts, history: History, site: Site) -> list[Any]:
    """``/cache`` and what its forms post to."""

    @get("/cache", summary="The response cache as a page")
    async def show(request: Request[Any, Any, Any]) -> Response[str]:
        return await _page(ctx, site, request)

    @post("/cache/explain", summary="Why a question missed, as a page", status_code=200)
    async def explain(request: Request[Any, Any, Any]) -> Response[str]:
        about = str((await request.form()).get("about") or "").strip()[:MOST]
        found, problem = None, None
        try:
            found = await cache.explained(ctx, history, cache.Asked(about=about)) if about else None
        except (HTTPException, HistoryUnavailable) as error:
            problem = error.detail if isinstance(error, HTTPException) else str(error)
        return await _page(ctx, site, request, about=about, explained=found, unexplained=problem)

    @post("/cache/invalidate", summary="Count answers, then drop them, as a page", status_code=200)
    async def invalidate(request: Request[Any, Any, Any]) -> Response[str]:
        form = await request.form()
        fields = {name: str(form.get(name) or "").strip()[:500] for name in ("by", "value", "sure")}
        dropped, problem = None, None
        try:
            wanted = selected(fields["by"], fields["value"], dry_run=fields["sure"] != "yes")
            dropped = await cache.invalidated(ctx, wanted)
        except HTTPException as error:
            problem = error.detail
        return await _page(ctx, site, request, chosen=fields, dropped=dropped, undropped=problem)

    @post("/cache/revoke", summary="Drop a learned alias, as a page", status_code=200)
    async def revoke(request: Request[Any, Any, Any]) -> Response[str]:
        await cache.revoked(ctx, [str((await request.form()).get("id") or "")[:40]])
        return await _page(ctx, site, request)

    return [show, explain, invalidate, revoke]


def selected(by: str, value: str, *, dry_run: bool) -> cache.Invalidation:
    """What the form selects; 400 where that is nothing."""
    if by == "everything":
        return cache.Invalidation(dry_run=dry_run, everything=True)
    if by not in CHOICES or not value:
        raise ClientException(UNSAID)
    if by != "older":
        named: dict[str, Any] = {by: value}
        return cache.Invalidation(dry_run=dry_run, **named)
    try:
        hours = float(value)
    except ValueError:
        hours = math.nan
    if math.isnan(hours):
        raise ClientException(NO_AGE)
    return cache.Invalidation(dry_run=dry_run, older_than_s=min(max(hours, 0.0), 1e5) * HOUR_S)


async def _page(ctx: Parts, site: Site, request: Request[Any, Any, Any], **found: Any) -> Response[str]:
    """The page, with what one of its forms found."""
    cursor = request.query_params.get("cursor") or None
    values: dict[str, Any] = {
        "stats": None,
        "page": {"items": [], "next": None},
        "aliases": [],
        "away": False,
    }
    values |= {"about": "", "explained": None, "unexplained": None}
    values |= {"chosen": {"by": "keyword", "value": "", "sure": ""}, "dropped": None, "undropped": None}
    if ctx.answers is not None:
        try:
            values["stats"] = await cache.stats_of(ctx)
            values["page"] = await cache.entries_of(ctx, cursor if cache.is_cursor(cursor) else None, ROWS)
            values["aliases"] = await cache.aliases_of(ctx) if cache.learns(ctx) else None
        except HTTPException:
            values["away"] = True
    mode = ctx.settings.response_cache
    return site.page(
        request, "cache", here="cache", mode=mode, choices=CHOICES, cursor=cursor, **values | found
    )
