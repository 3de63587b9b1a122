"""The response cache of one process: owns what requests under way ask of it, over the store that all share.

`look` says before the backend is asked what the cache has; `keep` stores what the backend answered. Neither
makes a request wait longer than 50 ms.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence

from services.proxy.answers.base import Looked, Stored
from services.proxy.answers.digests import CHANGING
from services.proxy.answers.flights import Flight, Flights
from services.proxy.answers.keeping import said, stored_of
from services.proxy.answers.replay import replay
from services.proxy.answers.store import RedisStore
from services.proxy.answers.terms import terms_of
from services.proxy.answers.ticket import Desk, Ticket
from services.proxy.flow import Flow
from services.semantic.base import Match, Matcher, Question
from services.semantic.spoken import spoken
from services.settings import Settings

LANDING_S = 0.05  # what a repeat waits for an answer that has come but is not stored yet


class ResponseCache:
    """The cache as requests see it; `store` is what people ask."""

    def __init__(self, settings: Settings, secret: bytes, store: RedisStore, matcher: Matcher | None) -> None:
        self.store, self.matcher = store, matcher
        self.desk = Desk(settings, secret)
        self.flights = Flights()
        self._secret = secret
        self._shares = settings.response_cache_single_flight
        self._told: Callable[[Match | None, float], None] | None = None
        self._forgetting: set[asyncio.Task[None]] = set()
        store.on_drop(self._forget)

    async def start(self) -> None:
        """Begin what goes on in the background; returns at once."""
        if self.matcher is not None:
            await self.matcher.start()
            self.matcher.learn(self._text)

    async def _text(self, key: str) -> str | None:
        """What a stored answer says, for the model that compares near misses."""
        stored = (await self.store.get(key, counted=False)).stored
        whole = replay(stored, stream=False, usage=False) if stored is not None else None
        return spoken(json.loads(b"".join(whole.pieces))) if whole is not None else None

    def on_lookup(self, told: Callable[[Match | None, float], None]) -> None:
        """Have `told` called with what each look for an equal question brought, and its seconds."""
        self._told = told

    async def close(self) -> None:
        """Let go of everything but the store's connection."""
        await asyncio.gather(*self._forgetting, return_exceptions=True)
        await self.desk.digests.close()
        if self.matcher is not None:
            await self.matcher.close()

    async def look(self, flow: Flow, body: bytes, query: bytes) -> Ticket | None:
        """What the cache has for a request that was recognised; None for one that is no generation."""
        ticket = await self.desk.issue(flow, body, query)
        if ticket is None or not ticket.key:
            return ticket
        ahead = self._other(ticket) if ticket.control.read else None
        landing = self.flights.under_way(ticket.key, landing=True)
        if landing is not None:
            await asyncio.wait({landing.landed}, timeout=LANDING_S)
            if not landing.landed.done():  # Redis is slow, and the time is up
                ticket.other = ahead
                return ticket
        self._found(ticket, await self.store.get(ticket.key, counted=ticket.control.counted), "hit")
        if ticket.control.read:
            if ticket.replay is None and ahead is None and self._other(ticket) is None:
                await self._match(ticket)
            if ticket.replay is None:  # no waiting from here to `begin`, else two could set out at once
                ticket.other = self._other(ticket) or ahead  # which may have landed meanwhile
        return ticket

    async def again(self, ticket: Ticket) -> None:
        """Look once more, after an equal request that was waited for brought nothing."""
        self._found(ticket, await self.store.get(ticket.key, counted=False), "hit")
        ticket.other = self._other(ticket) if ticket.replay is None else None

    def take(self, ticket: Ticket, stored: Stored | None) -> None:
        """Take the answer of an equal request."""
        self._found(ticket, Looked(stored=stored, turn=ticket.turn), "hit")

    def begin(self, ticket: Ticket) -> None:
        """The request goes to the backend."""
        if ticket.key and ticket.control.write:
            ticket.flight = self.flights.begin(ticket.key)

    def land(self, ticket: Ticket) -> None:
        """Nothing more is to be expected of the request. Idempotent."""
        if ticket.flight is not None:
            self.flights.land(ticket.flight)

    async def keep(self, ticket: Ticket, flow: Flow) -> None:
        """Store the answer that the backend gave to its end, if it is complete."""
        flight = ticket.flight
        try:
            if flight is None or flight.recorder is None:
                return
            stored = await stored_of(ticket, flow, flight.recorder)
            if stored is None:
                return
            self.flights.tell(flight, stored)
            words = terms_of(self._secret, said(flow))
            kept = await self.store.put(ticket.key, stored, ticket.ttl_s, words, ticket.turn)
            if kept and self.matcher is not None and ticket.question is not None:
                await self.matcher.add(ticket.question, ticket.key, ticket.ttl_s)
        finally:
            self.land(ticket)

    def noticed(self, flow: Flow) -> None:
        """A call that is no generation has ended; it may have changed what a model's name stands for."""
        if flow.path.startswith(CHANGING):
            self.desk.digests.changed(flow.backend)

    def _other(self, ticket: Ticket) -> Flight | None:
        """An equal request under way whose answer this one may take."""
        if not self._shares or ticket.control.only:
            return None
        return self.flights.under_way(ticket.key, landing=False)

    def _found(self, ticket: Ticket, looked: Looked, verdict: str) -> None:
        ticket.turn = looked.turn
        if not ticket.control.read:
            ticket.verdict = "bypass:no-cache"
        elif looked.stored is not None:
            ticket.replay = replay(looked.stored, stream=ticket.stream, usage=ticket.usage)
            if ticket.replay is not None:
                ticket.stored, ticket.verdict = looked.stored, verdict

    async def _match(self, ticket: Ticket) -> None:
        """The answer to a question that asks the same in other words."""
        if ticket.unmatched is not None:
            ticket.verdict = f"bypass:{ticket.unmatched}"
        elif self.matcher is not None and ticket.question is not None:
            await self._nearest(ticket, self.matcher, ticket.question)

    async def _nearest(self, ticket: Ticket, matcher: Matcher, question: Question) -> None:
        began = time.perf_counter()
        match = await matcher.find(question)
        if self._told is not None:
            self._told(match, time.perf_counter() - began)
        if match is None:
            return
        looked = await self.store.get(match.key, counted=ticket.control.counted, missed=True)
        self._found(ticket, Looked(stored=looked.stored, turn=ticket.turn), "semantic")
        if looked.stored is None and looked.turn is not None:
            await matcher.remove([match.key])

    def _forget(self, keys: Sequence[str]) -> None:
        """Answers were dropped; their questions need not be found any more."""
        if self.matcher is not None:
            task = asyncio.create_task(self.matcher.remove(keys))
            self._forgetting.add(task)
            task.add_done_callback(self._forgetting.discard)
