"""What happens, as it happens: ``/events``, an event stream for the dashboard and for programs.

Owns nothing but the count of its followers. Nothing is pushed by requests: each follower looks a few times a
second, takes what is new and leaves the rest, so that any number of requests makes a bounded number of
events, and a follower that reads slowly holds up nobody but itself. It shows all processes of the
installation while Redis carries what they tell (`services.proxy.admin.peers`), else this one; ``hello``
says which.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
from litestar import Request, Response, Router, get
from litestar.response import Stream

from services.proxy.admin.errors import HistoryUnavailable, failure
from services.proxy.admin.filters import All, refuse_unknown
from services.proxy.admin.history import History
from services.proxy.admin.parts import Parts
from services.proxy.admin.peers import Peers
from services.proxy.admin.recent import brief, plain
from services.proxy.admin.underway import MOST, describe

# Fast enough to look live, slow enough that a thousand requests a second are four events.
LOOK_S = 0.25
# Rows an event: more than a person can read in that time, few enough to draw within a frame.
BATCH = 50
HISTORY = 50
# A comment keeps proxies and browsers from taking a quiet stream for a dead one.
QUIET_LOOKS = 60
# Open dashboards and `top`s; each costs a look at the live flows every quarter of a second.
FOLLOWERS = 32
HISTORY_LIMIT_S = 2.0

_encode = msgspec.json.Encoder().encode


def routes(ctx: Parts, history: History, peers: Peers) -> Router:
    """``/events``."""
    followers = 0

    @get("/events", summary="Live: requests under way and ended, history first (text/event-stream)")
    async def events(request: Request[Any, Any, Any], *, all: All = False) -> Response[Any]:  # noqa: A002
        refuse_unknown(request, "all")
        if followers >= FOLLOWERS:
            return failure(503, f"{FOLLOWERS} event streams are open already.")

        async def counted() -> AsyncIterator[bytes]:
            nonlocal followers
            followers += 1
            try:
                stream = follow(ctx, history, peers, everything=all)
                with peers.watching():
                    async with contextlib.aclosing(stream):
                        async for event in stream:
                            yield event
            finally:
                followers -= 1

        return Stream(counted(), media_type="text/event-stream")

    return Router("/", route_handlers=[events], tags=["live"])


async def follow(ctx: Parts, history: History, peers: Peers, *, everything: bool) -> AsyncGenerator[bytes]:
    """Events until the proxy stops: ``hello``, ``history``, then ``underway`` and ``ended`` as they come.

    ``hello`` comes again when the other processes can be heard from now on, or no longer.
    """
    mark, heard = ctx.recent.mark, peers.mark
    shared: bool | None = None
    shown: bytes | None = None
    quiet = 0
    while not ctx.live.stopping:
        if peers.shared != shared:
            first, shared = shared is None, peers.shared
            yield event("hello", {"workers": ctx.settings.workers, "shared": shared, "look_s": LOOK_S})
            if first:
                yield event("history", {"items": await _history(ctx, history, everything=everything)})
        found, now = _underway(ctx, peers, everything=everything)
        if found != shown:
            shown, quiet = found, 0
            yield now
        news, more = ctx.recent.since(mark, BATCH), peers.since(heard, BATCH)
        mark, heard = news.mark, peers.mark
        rows = sorted([*(brief(plain(record)) for record in news.records), *more.rows], key=_by_id)
        items = [row for row in rows if everything or _is_shown(row)][-BATCH:]
        if items:
            quiet = 0
            missed = news.missed + more.missed + max(0, len(rows) - BATCH)
            yield event("ended", {"items": items, "missed": missed})
        quiet += 1
        if quiet >= QUIET_LOOKS:
            quiet = 0
            yield b": quiet\n\n"
        await asyncio.sleep(LOOK_S)


def event(name: str, data: Any) -> bytes:
    """One event as it goes over the wire."""
    return b"event: " + name.encode() + b"\ndata: " + _encode(data) + b"\n\n"


def _underway(ctx: Parts, peers: Peers, *, everything: bool) -> tuple[bytes, bytes]:
    """What is under way, without the time that passes, to notice a change; and the event that tells it."""
    items = describe((underway.flow for underway in ctx.live), ctx.speeds, everything=everything)
    theirs, more = peers.underway()
    items += [flow for flow in theirs if everything or flow.kind == "generation"]
    items = sorted(items, key=lambda flow: flow.received_at)[:MOST]
    sent = event("underway", {"items": items, "total": len(ctx.live) + more})
    return _encode([msgspec.structs.replace(item, elapsed_ms=0) for item in items]), sent


async def _history(ctx: Parts, history: History, *, everything: bool) -> list[dict[str, Any]]:
    """The rows before now, oldest first: from the database, and what this process has that is newer."""
    rows: dict[str, dict[str, Any]] = {}
    with contextlib.suppress(HistoryUnavailable):
        stored = await history.ask(_stored, None if everything else "generation", limit_s=HISTORY_LIMIT_S)
        rows = {row["id"]: brief(row) for row in stored}
    for record in ctx.recent.since(0, HISTORY).records:
        row = brief(plain(record))
        if everything or _is_shown(row):
            rows[record.id] = row
    return [rows[key] for key in sorted(rows)][-HISTORY:]


def _stored(connection: Any, kind: str | None) -> list[dict[str, Any]]:
    from services.history import queries  # noqa: PLC0415  # not before somebody looks

    found = queries.list_requests(connection, queries.Filters(kind=kind), None, HISTORY)
    items: list[dict[str, Any]] = found["items"]
    return items


def _is_shown(row: dict[str, Any]) -> bool:
    return bool(row["kind"] == "generation")


def _by_id(row: dict[str, Any]) -> str:
    return str(row["id"])
