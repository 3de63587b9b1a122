"""The pages: rendered here, with their own style sheet and scripts; nothing is inline or from elsewhere."""

from typing import Any

from litestar import Request, Response, Router
from litestar.exceptions import HTTPException

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.history import History
from services.proxy.admin.pages import cache, console, gate, health, lineages, now, one, trends
from services.proxy.admin.pages.site import Site
from services.proxy.admin.parts import Parts

# A form of ours holds a token or a statement.
LARGEST_FORM = 256 << 10


def routes(ctx: Parts, history: History, site: Site) -> Router:
    """The page routes and their assets."""

    def on_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[str]:
        return site.page(request, "error", status=error.status_code, message=error.detail)

    def on_history(request: Request[Any, Any, Any], error: HistoryUnavailable) -> Response[str]:
        return site.page(request, "error", status=503, message=str(error))

    return Router(
        "/",
        route_handlers=[
            *now.routes(ctx, history, site),
            *one.routes(ctx, history, site),
            *lineages.routes(ctx, history, site),
            *trends.routes(history, site),
            *cache.routes(ctx, history, site),
            *console.routes(history, site),
            *health.routes(ctx, history, site),
            *gate.routes(site),
        ],
        exception_handlers={HTTPException: on_http, HistoryUnavailable: on_history},
        request_max_body_size=LARGEST_FORM,
        tags=["pages"],
    )
