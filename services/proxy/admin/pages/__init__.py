"""The pages: rendered here, with their own style sheet; nothing inline, nothing from elsewhere."""

from pathlib import Path
from typing import Any

import jinja2
from litestar import Response, Router, get
from litestar.exceptions import NotFoundException
from litestar.params import Parameter

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.health import status_of
from services.proxy.admin.history import History
from services.proxy.admin.pages.words import ago, count, milliseconds, percent
from services.proxy.admin.parts import Parts

FOLDER = Path(__file__).parent
ASSETS = {"style.css": "text/css"}
ROWS = 50


def routes(ctx: Parts, history: History) -> Router:
    """The page routes and their assets."""
    environment = _environment()

    @get("/", summary="Overview", media_type="text/html")
    async def overview() -> Response[str]:
        rows, problem = await _latest(history)
        status = await status_of(ctx, history)
        page = environment.get_template("overview.html").render(rows=rows, problem=problem, status=status)
        return Response(page, media_type="text/html")

    @get("/assets/{name:str}", summary="Style sheets of the pages", include_in_schema=False)
    async def asset(name: str = Parameter(max_length=40)) -> Response[bytes]:
        if name not in ASSETS:
            raise NotFoundException("No such asset.")
        return Response((FOLDER / name).read_bytes(), media_type=ASSETS[name])

    return Router("/", route_handlers=[overview, asset], tags=["pages"])


async def _latest(history: History) -> tuple[list[dict[str, Any]], str | None]:
    try:
        return await history.ask(_rows), None
    except HistoryUnavailable as error:
        return [], str(error)


def _rows(connection: Any) -> list[dict[str, Any]]:
    from services.history import queries  # noqa: PLC0415  # not before somebody looks

    found = queries.list_requests(connection, queries.Filters(kind="generation"), None, ROWS)
    items: list[dict[str, Any]] = found["items"]
    return items


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(percent=percent, ms=milliseconds, count=count, ago=ago)
    return environment
