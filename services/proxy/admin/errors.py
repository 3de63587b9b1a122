"""Errors of the admin routes: short JSON of one shape, never a traceback, never a value from a prompt."""

import logging
import traceback
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from services.proxy.admin.hardening import HEADERS

log = logging.getLogger("metalanchor.admin")


class HistoryUnavailable(Exception):  # noqa: N818
    """The history cannot be read now; the text says what to do."""


def on_http(_: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, Any]]:
    """Refusals: what was wrong, by name."""
    message = _detail(error) if isinstance(error, ValidationException) else error.detail
    return failure(error.status_code, message, headers=error.headers)


def on_history(_: Request[Any, Any, Any], error: HistoryUnavailable) -> Response[dict[str, Any]]:
    """The database is away; requests to the model pass all the same."""
    return failure(503, str(error))


def on_depth(_: Request[Any, Any, Any], error: RecursionError) -> Response[dict[str, Any]]:
    """A body that is nested deeper than any reader follows."""
    del error
    return failure(400, "The body is nested too deeply.")


def on_bug(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, Any]]:
    """A bug: frames go to the log, no values, since they may hold what a user typed."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s failed: %s\n%s", request.url.path, type(error).__name__, frames)
    return failure(500, "Internal error; the proxy's log has the details.")


def failure(status: int, message: str, headers: dict[str, str] | None = None) -> Response[dict[str, Any]]:
    """An error of the admin routes: ``{"error": {"code": ..., "message": ...}}``."""
    code = HTTPStatus(status).phrase.lower().replace(" ", "_")
    content = {"error": {"code": code, "message": message}}
    return Response(
        content,
        status_code=status,
        headers={**HEADERS, "X-MetalAnchor-Error": "admin", **(headers or {})},
        media_type="application/json",
    )


def _detail(error: ValidationException) -> str:
    extra = error.extra if isinstance(error.extra, list) else []
    parts = [f"{item.get('key', 'body')}: {item.get('message')}" for item in extra if isinstance(item, dict)]
    return "; ".join(parts) or error.detail
