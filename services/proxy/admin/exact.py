"""The route that has the backend itself say at which token a prefix broke; owns the turn of who may ask.

One question at a time: it makes the backend work, beside its users' requests.
"""

import asyncio
import http.client
import json
from typing import Any

from litestar import Response, Router, post
from litestar.exceptions import NotFoundException

from services.probe import connection_to
from services.proxy.admin.errors import failure
from services.proxy.admin.parts import Parts
from services.proxy.backends.backend import Backend
from services.proxy.settling.exact import Inexact, exact

TIMEOUT_S = 30.0  # Ollama loads the model before it renders
ANSWER_MAX = 64 << 20  # the tokens of 16 MiB of text


def routes(ctx: Parts) -> Router:
    """``/requests/{id}/exact``, below ``/api``."""
    turn = asyncio.Lock()

    @post(
        "/requests/{request_id:str}/exact",
        status_code=200,
        summary="At which token the prefix broke, by the backend's own template and tokeniser",
    )
    async def run(request_id: str) -> Response[dict[str, Any]]:
        if turn.locked():
            return failure(429, "Another prompt is being rendered; try again in a moment.")
        async with turn:
            try:
                return Response(await asyncio.to_thread(_exact, ctx, request_id))
            except Inexact as error:
                return failure(error.status, str(error))

    return Router("/", route_handlers=[run], tags=["history"])


def _exact(ctx: Parts, request_id: str) -> dict[str, Any]:
    new = ctx.explanations.made(request_id)
    if new is None:
        raise NotFoundException("This process has not answered that request, or no longer remembers it.")
    if new.parent is None:
        raise Inexact(422, "The request was compared with nothing, so there is no prefix that could break.")
    old = ctx.explanations.made(new.parent)
    if old is None:
        raise Inexact(410, "The request it is compared with is no longer in this process's memory.")
    backend = next((backend for backend in ctx.backends if backend.name == new.backend), None)
    if backend is None:  # a stand-in that has made way for a real server
        raise Inexact(410, "The model server that answered the request is no longer in use here.")

    def ask(path: str, body: bytes) -> Any:
        return _post(backend, path, body)

    found = exact(old, new, ctx.texts, backend.kind, ask)
    return {"id": request_id, "parent_id": new.parent, "backend_kind": backend.kind, **found}


def _post(backend: Backend, path: str, body: bytes) -> Any:
    """A JSON answer of the backend; its words are never passed on, since they may repeat the prompt."""
    connection = connection_to(backend.url, TIMEOUT_S)
    try:
        connection.request(
            "POST",
            backend.base_path + path,
            body,
            {"Content-Type": "application/json", "Accept": "application/json"},
        )
        response = connection.getresponse()
        text = response.read(ANSWER_MAX)
    except (OSError, http.client.HTTPException):
        raise Inexact(502, "The backend did not answer.") from None
    finally:
        connection.close()
    if response.status != 200:
        raise Inexact(502, f"The backend refused to render or tokenise the prompt (HTTP {response.status}).")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Inexact(502, "The backend answered with something that is no JSON.") from None
