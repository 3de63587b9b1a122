"""The first page: who lost the most time and why, what is under way, what ended last."""

import datetime as dt
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response, get

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.filters import one_of
from services.proxy.admin.history import History
from services.proxy.admin.pages import meanings
from services.proxy.admin.pages.language import Speech
from services.proxy.admin.pages.sentence import SPANS, headline
from services.proxy.admin.pages.site import Site
from services.proxy.admin.parts import Parts
from services.proxy.admin.underway import describe
from services.record import HITS, STATUSES

ROWS = 50
FILTERS = ("agent", "model", "hit", "cause", "status")
HOUR_S = 3_600
# What the live script says.
SAID = (
    "{n} before it",
    "about {share}",
    "{share} read",
    "{n} pieces out",
    "live",
    "not connected",
    "{n} more came too fast to be shown",
    "This is one of {n} proxy processes; the others' requests appear when the page is loaded.",
)


def routes(ctx: Parts, history: History, site: Site) -> list[Any]:
    """``/``."""

    @get("/", summary="Now: the first page")
    async def now(request: Request[Any, Any, Any]) -> Response[str]:
        say = site.speech(request)
        chosen = choices(request.query_params)
        everything = request.query_params.get("all") == "true"
        cursor = request.query_params.get("cursor") or None
        found: dict[str, Any] = {"page": {"items": [], "next": None}, "names": {}, "problem": None}
        found |= {"hour": None, "losers": [], "span": HOUR_S}
        try:
            found |= await history.ask(_look, chosen, cursor, everything)
        except HistoryUnavailable as error:
            found["problem"] = str(error)
        requests = found["hour"]["requests"] if found["hour"] else 0
        return site.page(
            request,
            "now",
            here="",
            headline=headline(found["losers"], found["span"], say, requests=requests),
            labels=labels(say),
            query=query,
            chosen=chosen,
            everything=everything,
            cursor=cursor,
            flows=describe((underway.flow for underway in ctx.live), ctx.speeds, everything=everything),
            **{name: found[name] for name in ("page", "names", "problem", "hour", "losers")},
        )

    return [now]


def choices(query: Mapping[str, str]) -> dict[str, str | None]:
    """The filters in a query; empty fields of a form are none."""
    found: dict[str, str | None] = {name: (query.get(name) or None) for name in FILTERS}
    found["hit"] = one_of("hit", found["hit"], frozenset(HITS))
    found["status"] = one_of("status", found["status"], frozenset(STATUSES))
    return found


def query(chosen: Mapping[str, str | None], everything: bool, cursor: str | None = None) -> str:
    """The same list from another place, as the query of its address."""
    named = [(name, value) for name, value in chosen.items() if value]
    named += [("all", "true")] if everything else []
    named += [("cursor", cursor)] if cursor else []
    return f"?{urlencode(named)}" if named else ""


def labels(say: Speech) -> dict[str, dict[str, str]]:
    """What the live script shows instead of codes."""
    return {
        "cause": {code: say(meaning.title) for code, meaning in meanings.CAUSES.items()},
        "hit": {code: say(text) for code, text in meanings.HITS.items()},
        "status": {code: say(text) for code, text in meanings.STATUSES.items()},
        "phase": {code: say(text) for code, text in meanings.PHASES.items()},
        "say": {text: say(text) for text in SAID},
    }


def _look(connection: Any, chosen: Mapping[str, Any], cursor: str | None, everything: bool) -> dict[str, Any]:
    from services.history import lost, queries  # noqa: PLC0415  # not before somebody looks

    conditions = queries.Filters(**chosen, kind=None if everything else "generation")
    try:
        page = queries.list_requests(connection, conditions, cursor, ROWS)
    except queries.BadCursor:
        page = queries.list_requests(connection, conditions, None, ROWS)
    found: dict[str, Any] = {"page": page, "hour": _hour(connection)}
    found["names"] = {name: lost.names(connection, name) for name in ("agent", "model")}
    for span, _ in SPANS:
        found["span"] = span
        found["losers"] = lost.losers(connection, dt.datetime.now(dt.UTC) - dt.timedelta(seconds=span))
        if found["losers"]:
            break
    else:
        found["span"] = HOUR_S
    return found


def _hour(connection: Any) -> dict[str, Any]:
    from services.history import queries, reports  # noqa: PLC0415

    since = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=HOUR_S)
    rows = reports.figures(connection, queries.Filters(kind="generation", since=since))
    return rows[0] if rows else {"requests": 0}
