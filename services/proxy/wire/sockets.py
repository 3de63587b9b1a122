"""A WebSocket through the proxy: let in like any request, relayed, and one row of kind `other`."""

import asyncio
import time

from services.proxy.context import Context, Destination
from services.proxy.flow import Flow
from services.proxy.wire import errors, websocket
from services.proxy.wire.disconnect import Receive
from services.proxy.wire.entry import Scope, enter, leave
from services.proxy.wire.errors import RefusedError
from services.proxy.wire.guard import Guard
from services.proxy.wire.relay import Send

# The handshake's statuses as HTTP has them: it was accepted, or nobody was there to accept it.
HANDSHAKES = {"completed": 101, "client_cancelled": 101, "upstream_reset": 101, "upstream_unreachable": 502}


async def carry_socket(  # noqa: PLR0917 one call site, as for `Passage`
    ctx: Context, guard: Guard, to: Destination, scope: Scope, receive: Receive, send: Send
) -> None:
    """Carry one WebSocket from its handshake to its row."""

    def close() -> None:
        if flow.ended_at is None:
            flow.ended_at = time.perf_counter()
            ctx.live.leave(flow)
            leave(ctx, flow, 0)

    underway = enter(ctx, to, scope, close)
    flow = underway.flow
    ctx.outbox.open(flow)
    try:
        flow.headers = _admit(ctx, guard, flow)
        flow.status = await websocket.relay(scope, receive, send, to.backend, flow.headers)
        flow.http_status = HANDSHAKES.get(flow.status)
    except RefusedError as error:
        flow.status, flow.error, flow.http_status = error.row, error.code, error.status
        headers, body = errors.answer(error, flow.path, flow.id)
        await websocket.refuse(scope, send, error.status, headers, body)
    except asyncio.CancelledError:
        flow.status = underway.ending or "proxy_stopped"
        raise
    finally:
        close()


def _admit(ctx: Context, guard: Guard, flow: Flow) -> list[tuple[bytes, bytes]]:
    guard.check_host(flow.headers)
    if ctx.live.stopping:
        raise errors.stopping()
    return guard.admit(flow.headers)
