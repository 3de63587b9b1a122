"""A request's entry in the books: from when it is seen, until its row is on its way. Owns no state itself.

The outbox knows of it before anything else happens, so that it has its row even if this process is killed.
"""

import time
from collections.abc import Callable
from typing import Any

from services.proxy.context import Context, Destination
from services.proxy.flow import Flow
from services.proxy.identity import identify
from services.proxy.live import LiveFlow
from services.proxy.settling.row import record_of
from services.proxy.steps import report
from services.record import Record

Scope = dict[str, Any]


def enter(ctx: Context, to: Destination, scope: Scope, close: Callable[[], None]) -> LiveFlow:
    """Note that a request for `to` was received; the current task carries it, `close` ends it by force."""
    flow = Flow(
        backend=to.backend,
        method=scope.get("method", "GET"),
        path=scope["raw_path"].decode("latin-1"),
        headers=scope["headers"],
    )
    return ctx.live.enter(flow, close)


def leave(ctx: Context, flow: Flow, body_bytes: int) -> None:
    """Hand over the row of a flow that has ended; never raises, as rows of other flows come after it."""
    record = _record(ctx, flow)
    record.request_bytes = body_bytes
    ctx.outbox.put(record)
    try:
        ctx.metrics.observe(record)
        ctx.recent.put(record)
        ctx.strips.put(flow)
    except Exception as error:  # noqa: BLE001 the row is on its way, which is what counts
        report("showing a row", error)


def _record(ctx: Context, flow: Flow) -> Record:
    try:
        if flow.identity is None:
            flow.identity = identify(flow.headers, None, ctx.key, ctx.settings.tenant_header)
        return record_of(flow)
    except Exception as error:  # noqa: BLE001 a row with little in it is still the row of this request
        report("writing a row", error)
        lasted = ((flow.ended_at or time.perf_counter()) - flow.started) * 1e3
        return Record(id=flow.id, received_at=flow.received_at, status=flow.status, total_ms=round(lasted, 3))
