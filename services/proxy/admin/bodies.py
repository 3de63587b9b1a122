"""Bodies of one request as JSON, where the user has them kept."""

from typing import Any

from litestar import Router, get
from litestar.exceptions import NotFoundException

from services.proxy.admin.history import History
from services.proxy.admin.parts import Parts


def routes(ctx: Parts, history: History) -> Router:
    """``/requests/{id}/bodies``, below ``/api``."""

    @get("/requests/{request_id:str}/bodies", summary="What was asked and answered, where bodies are kept")
    async def bodies(request_id: str) -> dict[str, Any]:
        found = await history.ask(_read, request_id)
        if found is None:
            raise NotFoundException(_absent(ctx))
        return found

    return Router("/", route_handlers=[bodies], tags=["history"])


def _read(connection: Any, request_id: str) -> dict[str, Any] | None:
    from services.history.bodies import get_bodies  # noqa: PLC0415  # not before somebody looks

    return get_bodies(connection, request_id[:36])


def _absent(ctx: Parts) -> str:
    if ctx.settings.store_bodies:
        return "No bodies are kept of that request, or the worker has not stored them yet."
    return "No bodies are kept of that request: METALANCHOR_STORE_BODIES is off."
