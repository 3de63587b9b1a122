"""The report of a span of time over HTTP, as JSON, Markdown, CSV or one page of HTML."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from litestar import Request, Response, Router, get
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.params import Parameter

from services.costs.prices import Prices
from services.proxy.admin.filters import All, Name, When, moment, refuse_unknown
from services.proxy.admin.history import History

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


def routes(history: History, prices: Prices) -> Router:
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
        return await history.ask(_report, conditions, by, format, prices, limit_s=LIMIT_S)

    return Router("/", route_handlers=[report], tags=["history"])


def _report(
    connection: Any, conditions: dict[str, Any], by: str | None, form: str, prices: Prices
) -> Response[Any]:
    from services.history.queries import Filters  # noqa: PLC0415  # not before somebody looks
    from services.report.document import document  # noqa: PLC0415

    found = document(connection, Filters(**conditions), by, prices)
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
