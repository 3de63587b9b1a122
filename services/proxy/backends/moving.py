"""Leaves the stand-in model server as soon as a real one answers on this machine.

Owns the exchange of a `Destination`: requests that are under way end where they began, later ones go to the
new server, and the old connections close when the last of them is done. Nothing restarts, no request waits.
"""

import asyncio

from services.probe import Found, find_local_backend
from services.proxy.backends.backend import Backend
from services.proxy.context import Context, Destination, open_destination
from services.settings import BackendSetting, backend_name

LOOK_S = 2.0
DRAIN_LOOK_S = 0.5


async def leave_stand_in(ctx: Context) -> None:
    """Look for a real server while a stand-in serves, and move there; until cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        for port, old in list(ctx.destinations.items()):
            if not old.backend.facts.get("stand_in"):
                continue
            found = await asyncio.to_thread(find_local_backend)
            if found is not None:
                ctx.destinations[port] = _open(*found)
                ctx.spawn(ctx.destinations[port].watcher.run())
                ctx.spawn(_retire(ctx, old))


def _open(url: str, found: Found) -> Destination:
    destination = open_destination(BackendSetting(name=backend_name(url), url=url))
    backend = destination.backend
    backend.kind, backend.version, backend.facts = found
    backend.status = "up"
    return destination


async def _retire(ctx: Context, old: Destination) -> None:
    old.watcher.retire()
    while _serves(ctx, old.backend):  # noqa: ASYNC110 - flows tell nobody when they leave
        await asyncio.sleep(DRAIN_LOOK_S)
    await old.upstream.close()


def _serves(ctx: Context, backend: Backend) -> bool:
    return any(underway.flow.backend is backend for underway in ctx.live)
