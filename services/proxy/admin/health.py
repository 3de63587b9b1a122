"""How the proxy and everything it leans on are: `/healthz`, `/status`, `/metrics`.

Nothing here waits for a hung dependency: queue figures are as of the outbox's last look, the database is
asked with a short limit.
"""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from litestar import Response, Router, get

from services.proxy.admin import counters
from services.proxy.admin.cache_metrics import CacheMetrics
from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.history import History
from services.proxy.admin.metrics import CONTENT_TYPE, Family, outbox_families, state_families
from services.proxy.admin.parts import Parts
from services.proxy.admin.recent import iso
from services.proxy.backends.backend import Backend
from services.settings import backend_name

DATABASE_LIMIT_S = 1.5


def routes(ctx: Parts, history: History) -> Router:
    """The health routes."""
    ctx.metrics.attach(lambda: _families(ctx))
    cache_metrics = CacheMetrics(ctx.answers)
    ctx.metrics.attach(cache_metrics.families)
    if ctx.answers is not None:
        ctx.answers.on_lookup(ctx.metrics.looked)

    @get("/healthz", summary="Whether this process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @get("/status", summary="Each dependency, queue, spool, drops, backend")
    async def status() -> dict[str, Any]:
        return await status_of(ctx, history)

    @get("/metrics", summary="Prometheus metrics", media_type=CONTENT_TYPE)
    async def metrics() -> Response[bytes]:
        await cache_metrics.refresh()
        return Response(ctx.metrics.render(), media_type=CONTENT_TYPE)

    return Router("/", route_handlers=[healthz, status, metrics], tags=["health"])


async def status_of(ctx: Parts, history: History) -> dict[str, Any]:
    """The state of everything, in the shape of the contract, with a few figures more."""
    outbox = ctx.outbox.status()
    beats = outbox.pop("workers")
    seen, totals = outbox.pop("worker_seen"), outbox.pop("worker_totals")
    sampled = counters.latest(beats)
    backends = [
        {
            **backend_status(backend),
            "sampled": counters.status_of(sampled.get(backend.name), ctx.settings.alarm_hit_rate),
        }
        for backend in ctx.backends
    ]
    state = ctx.state.status()
    found: dict[str, Any] = {
        "version": version("metalanchor"),
        **outbox,
        "state": state,
        "worker": {
            "alive": bool(beats),
            "last_seen": None if seen is None else iso(round(seen * 1e3)),
            "workers": [{"name": b.name, "state": b.state, "stored": b.stored} for b in beats],
            "totals": totals,
        },
        "database": await _database(history),
        "backend": backends[0] if backends else None,
        "backends": backends,
        "estimates": ctx.estimator.status(),
        "prices": ctx.billing.status(),
        "breakpoints": ctx.breakpoints.status() if ctx.breakpoints else None,
    }
    return {"status": overall(found), **found}


def overall(found: dict[str, Any]) -> str:
    """``down`` when no backend answers, ``degraded`` when requests pass but something else is amiss."""
    backends = found["backends"]
    if backends and all(backend["status"] == "down" for backend in backends):
        return "down"
    fine = (
        found["redis"]["status"] == "up"
        and found["state"].get("mode") == "redis"
        and found["database"]["status"] == "up"
        and found["worker"]["alive"]
        and not found["spool"]["records"]
        and not found["queue"]["full"]
        and all(backend["status"] != "down" for backend in backends)
    )
    return "ok" if fine else "degraded"


def backend_status(backend: Backend) -> dict[str, Any]:
    """A backend without the credentials its address may carry."""
    scheme = backend.url.partition("://")[0]
    return {
        "name": backend.name,
        "url": f"{scheme}://{backend_name(backend.url)}{backend.base_path}",
        "kind": backend.kind,
        "version": backend.version,
        "status": backend.status,
    }


async def _database(history: History) -> dict[str, Any]:
    kind = history.url.partition("://")[0].partition("+")[0]
    try:
        await history.ask(_touch, limit_s=DATABASE_LIMIT_S)
    except HistoryUnavailable as error:
        return {"status": "down", "kind": kind, "error": str(error)}
    return {"status": "up", "kind": kind, "error": None}


def _touch(connection: Any) -> None:
    connection.exec_driver_sql("SELECT 1 FROM requests LIMIT 1").first()


def _families(ctx: Parts) -> Iterable[Family]:
    outbox = ctx.outbox.status()
    yield from outbox_families(outbox)
    yield from counters.families(outbox["workers"], ctx.settings.alarm_hit_rate)
    yield from state_families(ctx.state.status())
