"""Relaying a WebSocket: handshake, messages and close codes, both ways.

Owns one connection to the backend for as long as the client's lasts. Compression is each side's own affair
and is not offered to the backend; pings are answered by whoever receives them.
"""

import asyncio
import contextlib
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.protocol import State
from websockets.typing import Subprotocol

from services.proxy.backends.backend import Backend
from services.proxy.wire.disconnect import Receive
from services.proxy.wire.headers import Headers, relayed_headers, sent_headers
from services.proxy.wire.relay import Send

# The library makes these itself, for its own handshake with the backend.
HANDSHAKE = frozenset(
    {
        b"host",
        b"content-length",
        b"sec-websocket-accept",
        b"sec-websocket-extensions",
        b"sec-websocket-key",
        b"sec-websocket-protocol",
        b"sec-websocket-version",
    }
)
# Messages read ahead in each direction; a message itself may be of any size, as the ends agreed on it.
READ_AHEAD = 4
# As `upstream.dial` allows for a full accept queue or a handshake.
OPEN_S = 10.0
# What a backend that answers no close frame may take: it is to be free within half a second.
CLOSE_S = 0.4
# RFC 6455 §7.4.1: said by no frame, only noted by the end that saw it.
NO_STATUS, ABNORMAL = 1005, 1006
GOING_AWAY, INTERNAL, BAD_GATEWAY = 1001, 1011, 1014


class _Connect(connect):
    """A connection attempt that goes nowhere but to the configured backend."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def relay(
    scope: dict[str, Any], receive: Receive, send: Send, backend: Backend, headers: Headers
) -> str:
    """Carry one WebSocket; `headers` are the client's, without the proxy's own token.

    Returns the row's status: ``completed``, ``client_cancelled``, ``upstream_error`` (handshake refused),
    ``upstream_unreachable`` or ``upstream_reset``.
    """
    if (await receive())["type"] != "websocket.connect":
        return "client_cancelled"
    try:
        upstream = await _open(scope, backend, headers)
    except InvalidStatus as error:
        body = bytes(error.response.body or b"")
        await refuse(scope, send, error.response.status_code, _encoded(error.response.headers), body)
        return "upstream_error"
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI):
        await refuse(scope, send, 502, [(b"x-metalanchor-error", b"upstream_unreachable")], b"")
        return "upstream_unreachable"
    try:
        answered = upstream.response.headers if upstream.response else {}
        await send(
            {"type": "websocket.accept", "subprotocol": upstream.subprotocol, "headers": _encoded(answered)}
        )
        return await _both_ways(upstream, receive, send)
    finally:
        upstream.transport.abort()


async def _open(scope: dict[str, Any], backend: Backend, headers: Headers) -> ClientConnection:
    target = backend.base_path + scope["raw_path"].decode("latin-1")
    if scope["query_string"]:
        target += "?" + scope["query_string"].decode("latin-1")
    scheme = "wss" if backend.url.startswith("https:") else "ws"
    passed = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in sent_headers(headers, b"", None)
        if name not in HANDSHAKE
    ]
    return await _Connect(
        f"{scheme}://{backend.authority}{target}",
        subprotocols=[Subprotocol(name) for name in scope.get("subprotocols") or ()] or None,
        additional_headers=passed,
        user_agent_header=None,
        compression=None,
        proxy=None,
        open_timeout=OPEN_S,
        ping_interval=None,
        close_timeout=CLOSE_S,
        max_size=None,
        max_queue=READ_AHEAD,
    )


def _encoded(headers: Any) -> Headers:
    """The backend's handshake headers as they go to the client."""
    items = [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in getattr(headers, "raw_items", dict)()
    ]
    return [header for header in relayed_headers(items) if header[0] not in HANDSHAKE]


async def refuse(scope: dict[str, Any], send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Refuse the handshake with the backend's own answer where the server can, else with its 403."""
    if "websocket.http.response" in (scope.get("extensions") or {}):
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body, "more_body": False})
    else:
        await send({"type": "websocket.close", "code": BAD_GATEWAY})


async def _both_ways(upstream: ClientConnection, receive: Receive, send: Send) -> str:
    """Relay until either side ends; the first end decides the status."""
    up = asyncio.create_task(_to_backend(upstream, receive))
    down = asyncio.create_task(_to_client(upstream, send))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        return down.result() if down.done() else up.result()
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _to_backend(upstream: ClientConnection, receive: Receive) -> str:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            code = message.get("code") or NO_STATUS
            if upstream.state is State.CLOSED:
                await _never()  # the backend ended it; `_to_client` says how
            with contextlib.suppress(ConnectionClosed):
                await _close(upstream, code, message.get("reason") or "")
            return "client_cancelled" if code == ABNORMAL else "completed"
        data = message.get("bytes")
        try:
            await upstream.send(message["text"] if data is None else data)
        except ConnectionClosed:
            await _never()  # `_to_client` tells the client how it ended


async def _never() -> None:
    """Leave the ending to the other direction, which cancels this one."""
    await asyncio.get_running_loop().create_future()


async def _close(upstream: ClientConnection, code: int, reason: str) -> None:
    if code == ABNORMAL:
        await upstream.close(GOING_AWAY)
    elif code == NO_STATUS:
        await upstream.close()
    else:
        await upstream.close(code, reason)


async def _to_client(upstream: ClientConnection, send: Send) -> str:
    try:
        while True:
            data = await upstream.recv()
            if isinstance(data, str):
                await send({"type": "websocket.send", "text": data})
            else:
                await send({"type": "websocket.send", "bytes": data})
    except ConnectionClosed as error:
        if error.sent is not None and error.rcvd_then_sent is not True:
            await _never()  # the client ended it; `_to_backend` says how
        code = upstream.close_code or ABNORMAL
        normal = code != ABNORMAL
        said = {NO_STATUS: 1000, ABNORMAL: INTERNAL}.get(code, code)
        await send({"type": "websocket.close", "code": said, "reason": upstream.close_reason or ""})
        return "completed" if normal else "upstream_reset"
