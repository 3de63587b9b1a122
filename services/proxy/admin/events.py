"""What happens, as it happens: ``/events``, an event stream for the dashboard and for programs.

Owns nothing but the count of its followers. Nothing is pushed by requests: each follower looks a few times a
second, takes what is new and leaves the rest, so that any number of requests makes a bounded number of
events, and a follower that reads slowly holds up nobody but itself. It shows this process; where several
serve one port, ``hello`` says so.
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
from services.proxy.admin.recent import plain
from services.proxy.admin.underway import describe
from services.record import Record

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
SHOWN = (
    "id", "received_at", "agent", "session", "model", "backend", "endpoint", "kind", "hit", "relation",
    "predicted_reuse", "prompt_tokens", "cached_tokens", "cached_source", "completion_tokens", "cause",
    "diverged_at", "lost_tokens", "lost_ms", "ttft_ms", "total_ms", "status", "http_status",
)  # fmt: skip

_encode = msgspec.json.Encoder().encode


def routes(ctx: Parts, history: History) -> Router:
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
                async with contextlib.aclosing(follow(ctx, history, everything=all)) as stream:
                    async for event in stream:
                        yield event
            finally:
                followers -= 1

        return Stream(counted(), media_type="text/event-stream")

    return Router("/", route_handlers=[events], tags=["live"])


async def follow(ctx: Parts, history: History, *, everything: bool) -> AsyncGenerator[bytes]:
    """Events until the proxy stops: ``hello``, ``history``, then ``underway`` and ``ended`` as they come."""
    mark = ctx.recent.mark
    yield event("hello", {"workers": ctx.settings.workers, "look_s": LOOK_S})
    yield event("history", {"items": await _history(ctx, history, everything=everything)})
    shown: bytes | None = None
    quiet = 0
    while not ctx.live.stopping:
        found, now = _underway(ctx, everything=everything)
        if found != shown:
            shown, quiet = found, 0
            yield now
        news = ctx.recent.since(mark, BATCH)
        mark = news.mark
        items = [_row(plain(record)) for record in news.records if everything or _is_shown(record)]
        if items:
            quiet = 0
            yield event("ended", {"items": items, "missed": news.missed})
        quiet += 1
        if quiet >= QUIET_LOOKS:
            quiet = 0
            yield b": quiet\n\n"
        await asyncio.sleep(LOOK_S)


def event(name: str, data: Any) -> bytes:
    """One event as it goes over the wire."""
    return b"event: " + name.encode() + b"\ndata: " + _encode(data) + b"\n\n"


def _underway(ctx: Parts, *, everything: bool) -> tuple[bytes, bytes]:
    """What is under way, without the time that passes, to notice a change; and the event that tells it."""
    items = describe((underway.flow for underway in ctx.live), ctx.speeds, everything=everything)
    sent = event("underway", {"items": items, "total": len(ctx.live)})
    for item in items:
        item.elapsed_ms = 0
    return _encode(items), sent


async def _history(ctx: Parts, history: History, *, everything: bool) -> list[dict[str, Any]]:
    """The rows before now, oldest first: from the database, and what this process has that is newer."""
    rows: dict[str, dict[str, Any]] = {}
    with contextlib.suppress(HistoryUnavailable):
        stored = await history.ask(_stored, None if everything else "generation", limit_s=HISTORY_LIMIT_S)
        rows = {row["id"]: _row(row) for row in stored}
    for record in ctx.recent.since(0, HISTORY).records:
        if everything or _is_shown(record):
            rows[record.id] = _row(plain(record))
    return [rows[key] for key in sorted(rows)][-HISTORY:]


def _stored(connection: Any, kind: str | None) -> list[dict[str, Any]]:
    from services.history import queries  # noqa: PLC0415  # not before somebody looks

    found = queries.list_requests(connection, queries.Filters(kind=kind), None, HISTORY)
    items: list[dict[str, Any]] = found["items"]
    return items


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in SHOWN}


def _is_shown(record: Record) -> bool:
    return record.kind == "generation"
