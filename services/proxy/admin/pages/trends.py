"""Trends: first token, reuse and losses over a span, for an agent, a model or all; and the charts' data."""

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.exceptions import ClientException
from litestar.params import Parameter

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.filters import Name, refuse_unknown
from services.proxy.admin.history import History
from services.proxy.admin.pages import meanings
from services.proxy.admin.pages.language import Speech
from services.proxy.admin.pages.site import Site

# A span in seconds, the length of its steps, and its name; some 60 to 170 points a chart.
SPANS: dict[str, tuple[int, int, str]] = {
    "1h": (3_600, 60, "last hour"),
    "6h": (6 * 3_600, 300, "last 6 hours"),
    "24h": (86_400, 900, "last 24 hours"),
    "7d": (7 * 86_400, 3_600, "last 7 days"),
    "30d": (30 * 86_400, 6 * 3_600, "last 30 days"),
}
USUAL = "24h"
# What the charts' script says.
SAID = (
    "predicted", "measured", "other", "time", "requests", "p50", "p95", "p99", "Nothing in this span.",
    "The figures could not be fetched.",
)  # fmt: skip
Span = Annotated[
    str, Parameter(description="One of: " + ", ".join(SPANS), schema_extra={"enum": list(SPANS)})
]


def routes(history: History, site: Site) -> list[Any]:
    """``/trends``."""

    @get("/trends", summary="Trends as a page")
    async def trends(request: Request[Any, Any, Any]) -> Response[str]:
        say = site.speech(request)
        query = request.query_params
        span = query.get("span") if query.get("span") in SPANS else USUAL
        chosen = {name: query.get(name) or None for name in ("agent", "model")}
        found: dict[str, Any] = {"names": {}, "agents": [], "causes": [], "error": 0.0, "problem": None}
        try:
            found |= await history.ask(_tables, span, chosen)
        except HistoryUnavailable as error:
            found["problem"] = str(error)
        return site.page(
            request, "trends", here="trends", span=span, spans=SPANS, chosen=chosen, texts=texts(say), **found
        )

    return [trends]


def data_routes(history: History) -> list[Any]:
    """``/series``, below ``/api``."""

    @get("/series", summary="Figures over time, in equal steps, for charts", tags=["history"])
    async def series(
        request: Request[Any, Any, Any], span: Span = USUAL, agent: Name = None, model: Name = None
    ) -> dict[str, Any]:
        refuse_unknown(request, "span", "agent", "model")
        if span not in SPANS:
            raise ClientException(f"span: {span[:20]!r} is not one of {', '.join(SPANS)}.")
        return await history.ask(_series, span, {"agent": agent or None, "model": model or None})

    return [series]


def texts(say: Speech) -> dict[str, str]:
    """What the charts' script says."""
    causes = {code: say(meaning.title) for code, meaning in meanings.CAUSES.items()}
    return {**causes, **{text: say(text) for text in SAID}}


def _filters(span: str, chosen: Mapping[str, Any]) -> Any:
    from services.history import queries  # noqa: PLC0415  # not before somebody looks

    since = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=SPANS[span][0])
    return queries.Filters(**chosen, kind="generation", since=since)


def _series(connection: Any, span: str, chosen: dict[str, str | None]) -> dict[str, Any]:
    from services.history import series  # noqa: PLC0415

    now = dt.datetime.now(dt.UTC)
    return series.series(connection, _filters(span, chosen), SPANS[span][1], now)


def _tables(connection: Any, span: str, chosen: dict[str, str | None]) -> dict[str, Any]:
    from services.history import lost, reports  # noqa: PLC0415

    filters = _filters(span, chosen)
    return {
        "names": {name: lost.names(connection, name) for name in ("agent", "model")},
        "agents": reports.figures(connection, filters, "agent"),
        "causes": reports.losses(connection, filters),
        "error": reports.percentile_error(connection, filters),
    }
