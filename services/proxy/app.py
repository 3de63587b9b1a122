"""The outermost application: decides once, on the raw path, whether a request is ours or the backend's.

Litestar serves what lies below the reserved prefix. Everything else is carried by `forward` without a router
in between: that path is what the product is measured by.
"""

import contextlib
import re
import time
from collections.abc import AsyncIterator

from litestar import Litestar

from services.proxy.admin import create_admin
from services.proxy.admin.login import Door, wants_page
from services.proxy.backends.moving import leave_stand_in
from services.proxy.context import Context, Destination, close_context, open_context
from services.proxy.wire import errors
from services.proxy.wire.disconnect import Receive
from services.proxy.wire.entry import Scope
from services.proxy.wire.errors import RefusedError
from services.proxy.wire.forward import Passage
from services.proxy.wire.guard import Guard
from services.proxy.wire.headers import Headers
from services.proxy.wire.relay import Send
from services.proxy.wire.sockets import carry_socket
from services.settings import Settings

PREFIX = b"/metalanchor"
# One spelling reaches our own routes: no escapes, no empty or dot segments, which a router might tidy up.
PLAIN = re.compile(rb"/metalanchor(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+)*/?\Z")
STOP_S = 2.0


class Gate:
    """The ASGI application over an open context."""

    def __init__(self, ctx: Context, admin: Litestar) -> None:
        self._ctx, self._admin = ctx, admin
        self._guard = Guard(ctx.settings)
        self._door = Door(ctx.key, ctx.settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        raw: bytes = scope["raw_path"]
        if raw.startswith(PREFIX) and raw[len(PREFIX) : len(PREFIX) + 1] in (b"", b"/"):
            await self._serve_own(scope, receive, send)
        elif scope["type"] == "http":
            await Passage(self._ctx, self._guard, self._destination(scope), scope, receive, send).run()
        else:
            await carry_socket(self._ctx, self._guard, self._destination(scope), scope, receive, send)

    def _destination(self, scope: Scope) -> Destination:
        """The backend of the port that the request came in on."""
        destinations = self._ctx.destinations
        first = next(iter(destinations.values()))
        if len(destinations) == 1 or not scope.get("server"):
            return first
        return destinations.get(int(scope["server"][1]), first)

    async def _serve_own(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._ctx.later.flush()
        try:
            headers = self._admit_own(scope)
        except RefusedError as error:
            if error.status == 401 and wants_page(scope.get("method", ""), scope["headers"]):
                await _send_to_login(scope, send)
            else:
                await _refuse(error, scope, send)
            return
        scope["headers"] = headers
        await self._admin(scope, receive, send)  # type: ignore[arg-type]

    def _admit_own(self, scope: Scope) -> Headers:
        """The headers of a request that may use our own routes, without the token."""
        headers = scope["headers"]
        self._guard.check_host(headers)
        self._guard.check_origin(headers)
        if self._door.opens(scope.get("method", ""), scope["raw_path"], headers, time.time()):
            headers = self._guard.strip(headers)
        else:
            headers = self._guard.admit(headers)
        if scope["type"] != "http" or not PLAIN.match(scope["raw_path"]):
            raise RefusedError(404, "not_found", "There is no such route.")
        return headers


async def _send_to_login(scope: Scope, send: Send) -> None:
    """Where a browser finds the form; it comes back to a page of ours, or to the first."""
    path: bytes = scope["raw_path"]
    target = b"/metalanchor/login" + (b"?next=" + path if PLAIN.match(path) else b"")
    headers = [(b"location", target), (b"cache-control", b"no-store"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _refuse(error: RefusedError, scope: Scope, send: Send) -> None:
    if scope["type"] != "http":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers, body = errors.answer(error, "")
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


@contextlib.asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[tuple[Gate, Context]]:
    """The application with all its parts open; leaving it ends live flows and carries out their rows.

    Raises `SettingsError` where the configuration cannot be used.
    """
    ctx = await open_context(settings)
    try:
        admin = create_admin(ctx)
        async with admin.lifespan():
            if settings.embedded_engine != "always":  # else it was asked for, and is no makeshift
                ctx.spawn(leave_stand_in(ctx))
            yield Gate(ctx, admin), ctx
    finally:
        await close_context(ctx, STOP_S)
