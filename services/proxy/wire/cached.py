"""Answering from the response cache, and remembering what the backend answers instead; owns no state.

The cache is asked before the backend, so its time budget is the request's own; what it cannot answer goes on
as if it were not there.
"""

import asyncio

from services.proxy.answers.cache import ResponseCache
from services.proxy.answers.flights import Flight
from services.proxy.answers.ticket import Ticket
from services.proxy.context import Context
from services.proxy.flow import Cached, Flow
from services.proxy.steps import recognise, report
from services.proxy.wire import errors
from services.proxy.wire.relay import Relay


async def consult(  # noqa: PLR0917 one call site, as for `Passage`
    cache: ResponseCache, ctx: Context, flow: Flow, body: bytes, query: bytes, relay: Relay
) -> Ticket | None:
    """Ask the cache about a request; None if it answered, else the request's ticket.

    Raises `RefusedError` where a client takes nothing else than a cached answer and there is none.
    """
    try:
        await recognise(flow, body, ctx)
        ticket = await cache.look(flow, body, query)
    except Exception as error:  # noqa: BLE001 the backend has the answer in any case
        report("looking into the response cache", error)
        ticket = Ticket(verdict="bypass:error")
    if ticket is None:
        return Ticket(verdict="")
    while ticket.replay is None and ticket.other is not None:
        await _share(cache, ticket, ticket.other)
    flow.cached = Cached(verdict=ticket.verdict)
    if ticket.replay is not None:
        await _serve(flow, ticket, relay)
        return None
    if ticket.control.only:
        raise errors.not_cached()
    cache.begin(ticket)
    return ticket


async def _share(cache: ResponseCache, ticket: Ticket, other: Flight) -> None:
    """Wait for an equal request; its answer is this one's too, and what it fails in is tried again."""
    other.passengers += 1
    try:
        stored = await asyncio.shield(other.answered)
    finally:
        other.leave()
    ticket.other = None
    cache.take(ticket, stored)
    if ticket.replay is None:
        await cache.again(ticket)


async def _serve(flow: Flow, ticket: Ticket, relay: Relay) -> None:
    """Send the stored answer, in the form that is asked for."""
    assert ticket.replay is not None
    assert ticket.stored is not None
    about = ticket.stored.about
    flow.cached = Cached(verdict=ticket.verdict, answered_by=about.original)
    if not ticket.control.warm:  # else nobody would have asked
        counts = [count for count in (about.prompt_tokens, about.completion_tokens) if count is not None]
        flow.cached.saved_tokens, flow.cached.saved_ms = sum(counts) if counts else None, about.total_ms
    await relay.replay(ticket.replay.headers, ticket.replay.pieces, whole=not ticket.stream)


def store(cache: ResponseCache, ctx: Context, flow: Flow, ticket: Ticket) -> None:
    """Store an answer that was relayed to its end, beside the request."""
    if ticket.flight is not None:
        ticket.flight.storing = True
        ctx.spawn(_store(cache, flow, ticket))


async def _store(cache: ResponseCache, flow: Flow, ticket: Ticket) -> None:
    try:
        await cache.keep(ticket, flow)
    except Exception as error:  # noqa: BLE001 an answer that is not stored costs a miss
        report("storing an answer", error)


def let_go(cache: ResponseCache, flow: Flow, ticket: Ticket | None) -> None:
    """A request has ended; what is not being stored by now never will be."""
    if ticket is not None and ticket.flight is not None and not ticket.flight.storing:
        cache.land(ticket)
    if flow.dialect is None:
        cache.noticed(flow)
