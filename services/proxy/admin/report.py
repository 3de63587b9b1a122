"""The report of a span of time over HTTP, as JSON, Markdown, CSV or one page of HTML."""

import contextlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from litestar import Request, Response, Router, get
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.params import Parameter

from services.costs.prices import Prices
from services.proxy.admin.filters import All, Name, When, moment, refuse_unknown
from services.proxy.admin.history import History
from services.proxy.admin.missed import newest
from services.proxy.admin.parts import Parts
from services.proxy.answers.base import AwayError
from services.proxy.answers.cache import ResponseCache

By = Literal["agent", "session", "model", "cause", "hit", "hour"]
Form = Literal["json", "md", "csv", "html"]
TYPES = {"md": "text/markdown", "csv": "text/csv", "html": "text/html"}
# A report over a long span reads every row of it.
LIMIT_S = 60.0


@dataclass
class ReportOperation(Operation):
    """The operation with all of its media types."""

    def __post_init__(self) -> None:
        """Add those beside JSON."""
        found = (self.responses or {})["200"]
        assert isinstance(found, OpenAPIResponse)
        assert found.content is not None
        text = OpenAPIMediaType(schema=Schema(type=OpenAPIType.STRING))
        found.content |= dict.fromkeys(TYPES.values(), text)


def routes(ctx: Parts, history: History) -> Router:
    """``/report``, below ``/api``."""

    @get(
        "/report",
        summary="Hits, reuse, times and losses of a span of time",
        operation_class=ReportOperation,
    )
    async def report(
        request: Request[Any, Any, Any],
        *,
        since: When = "7d",
        until: When = None,
        by: Annotated[By | None, Parameter(description="Figures of each of these, too")] = None,
        agent: Name = None,
        session: Name = None,
        model: Name = None,
        all: All = False,  # noqa: A002  # its name on the wire
        format: Annotated[Form, Parameter(description="json, md, csv or html")] = "json",  # noqa: A002
    ) -> Response[Any]:
        refuse_unknown(request, "since", "until", "by", "agent", "session", "model", "all", "format")
        conditions = {
            "since": moment("since", since), "until": moment("until", until), "agent": agent,
            "session": session, "model": model, "kind": None if all else "generation",
        }  # fmt: skip
        found = await history.ask(_report, conditions, by, ctx.billing.prices, limit_s=LIMIT_S)
        if ctx.answers is not None and _asks_for_words(found):
            await _put_words(found, ctx.answers)
        return _answer(found, format)

    return Router("/", route_handlers=[report], tags=["history"])


def _report(connection: Any, conditions: dict[str, Any], by: str | None, prices: Prices) -> dict[str, Any]:
    from services.history.queries import Filters  # noqa: PLC0415  # not before somebody looks
    from services.report.document import document  # noqa: PLC0415

    return document(connection, Filters(**conditions), by, prices)


def _asks_for_words(found: dict[str, Any]) -> bool:
    from services.report.document import asks_for_words  # noqa: PLC0415

    return asks_for_words(found)


async def _put_words(found: dict[str, Any], cache: ResponseCache) -> None:
    """Say the questions that the report names; while Redis is away they stay hashes."""
    from services.report.document import put_words  # noqa: PLC0415

    with contextlib.suppress(AwayError):
        entries = await newest(cache)
        put_words(found, {entry.about.original: entry.about.question for entry in entries})


def _answer(found: dict[str, Any], form: str) -> Response[Any]:
    if form == "json":
        return Response(found, media_type="application/json")
    headers = {}
    if form == "html":
        from services.report.page import CSP, page  # noqa: PLC0415

        text, headers = page(found), {"Content-Security-Policy": CSP}
    else:
        from services.report import text as texts  # noqa: PLC0415

        text = texts.comma_separated(found) if form == "csv" else texts.markdown(found)
    return Response(text, media_type=TYPES[form], headers=headers)
