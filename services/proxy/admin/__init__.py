"""The proxy's own routes below ``/metalanchor``: health, history, explanations, metrics, pages.

Mounted by the gate, which decides by the raw path and checks Host, Origin and token beforehand.
"""

from importlib.metadata import version

from litestar import Litestar, Router
from litestar.datastructures import ResponseHeader
from litestar.exceptions import HTTPException

from services.proxy.admin import (
    bodies,
    cache,
    events,
    exact,
    health,
    lineages,
    pages,
    reference,
    report,
    rows,
    samples,
    sql,
)
from services.proxy.admin.document import DocumentConfig
from services.proxy.admin.errors import HistoryUnavailable, on_bug, on_depth, on_history, on_http
from services.proxy.admin.hardening import HEADERS
from services.proxy.admin.history import History
from services.proxy.admin.login import Door
from services.proxy.admin.pages import trends
from services.proxy.admin.pages.site import Site
from services.proxy.admin.parts import Parts
from services.proxy.admin.peers import Peers

__all__ = ["create_admin"]

PREFIX = "/metalanchor"


def create_admin(ctx: Parts) -> Litestar:
    """The admin application; `ctx` is the process's `Context`."""
    history = History(ctx.settings.database)
    peers = Peers(ctx)
    site = Site(Door(ctx.key, ctx.settings.token))
    parts = [
        rows.routes(ctx, history),
        exact.routes(ctx),
        bodies.routes(ctx, history),
        lineages.routes(ctx, history),
        sql.routes(history),
        report.routes(ctx, history),
        *trends.data_routes(history),
        *samples.routes(history),
        cache.routes(ctx, history),
    ]
    api = Router("/api", route_handlers=parts)
    return Litestar(
        path=PREFIX,
        route_handlers=[
            health.routes(ctx, history),
            events.routes(ctx, history, peers),
            api,
            pages.routes(ctx, history, site),
        ],
        openapi_config=DocumentConfig(
            title="MetalAnchor",
            version=version("metalanchor"),
            description="Health, history and explanations of the proxy.",
            openapi_router=reference.router(),
            render_plugins=[
                reference.ReferencePage(
                    lambda request, operations: site.page(request, "reference", operations=operations)
                )
            ],
        ),
        exception_handlers={
            HTTPException: on_http,
            HistoryUnavailable: on_history,
            RecursionError: on_depth,
            Exception: on_bug,
        },
        response_headers=[ResponseHeader(name=name, value=value) for name, value in HEADERS.items()],
        on_startup=[peers.start],
        on_shutdown=[history.close, peers.close],
        logging_config=None,
        debug=False,
    )
