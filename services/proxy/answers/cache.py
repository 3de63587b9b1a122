"""The response cache of one process: owns what requests under way ask of it, over the store that all share.

`look` says before the backend is asked what the cache has; `keep` stores what the backend answered. Neither
raises, and neither makes a request wait longer than the contract's 50 ms.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from services.proxy.answers.base import About, Looked, Stored
from services.proxy.answers.digests import CHANGING, Digests
from services.proxy.answers.eligible import refusal
from services.proxy.answers.flights import Flight, Flights
from services.proxy.answers.forms import FORMS
from services.proxy.answers.key import Place, UnkeyedError, canonical, read_body
from services.proxy.answers.recorder import Recorder, is_complete, shape_of
from services.proxy.answers.replay import Replay, replay
from services.proxy.answers.store import RedisStore
from services.proxy.answers.terms import terms_of
from services.proxy.answers.wish import Wish, wish_of
from services.proxy.flow import Flow
from services.proxy.prompt import Prompt
from services.semantic.base import Matcher, Question
from services.semantic.eligible import Asked, Bypass, asked
from services.settings import Settings

INLINE_BYTES = 256 << 10  # as for analysing (`steps`): longer bodies are read in a thread
LARGEST = 8 << 20  # of a body that gets a key; no chat is longer, and reading it takes a tenth of a second
LANDING_S = 0.05  # what a repeat waits for an answer that has come but is not stored yet
QUESTION = 2_000  # characters of the question that lists and reports show
VOLATILE = Bypass("volatile")  # live data: not even an equal question has the same answer for long
KEPT_HEADERS = frozenset({b"content-type", b"request-id", b"x-request-id"})


class Ticket(msgspec.Struct, kw_only=True):
    """One request as the cache sees it. `verdict` is what the header says.

    `replay` is the answer where there is one, of `stored`. `asked` is what of the body says how many answers
    are due, `ttl_s` how long this one is kept. `flight` is the request's own way to the backend,
    `other` an equal one under way whose answer may be shared. `turn` is the store's, for `put`.
    """

    verdict: str
    wish: Wish = msgspec.field(default_factory=Wish)
    key: str = ""
    digest: str = ""
    asked: dict[str, Any] = {}
    stream: bool = False
    usage: bool = False
    ttl_s: float = 0.0
    turn: int | None = None
    stored: Stored | None = None
    replay: Replay | None = None
    question: Question | None = None
    flight: Flight | None = None
    other: Flight | None = None

    @property
    def deserted(self) -> bool:
        """Whether the request goes on for others only."""
        return self.flight is not None and self.flight.deserted


class ResponseCache:
    """The cache as requests see it; `store` is what people ask."""

    def __init__(
        self, settings: Settings, secret: bytes, store: RedisStore, matcher: Matcher | None = None
    ) -> None:
        self.store, self.matcher = store, matcher
        self.digests = Digests()
        self.flights = Flights()
        self._secret = secret
        self._settings = settings
        self._forgetting: set[asyncio.Task[None]] = set()
        store.on_drop(self._forget)

    async def start(self) -> None:
        """Begin what goes on in the background; returns at once."""
        if self.matcher is not None:
            await self.matcher.start()

    async def look(self, flow: Flow, body: bytes, query: bytes) -> Ticket | None:
        """What the cache has for a request that was recognised; None for one that is no generation."""
        prompt = flow.prompt
        wish = wish_of(flow.headers, self._secret)
        if prompt is None:
            return Ticket(verdict="bypass:unparsed", wish=wish)
        if prompt.kind != "generation":
            return None
        reason = _unfit(prompt)
        if reason is not None:
            return Ticket(verdict=f"bypass:{reason}", wish=wish)
        try:
            return await self._asked(flow, prompt, wish, body, query)
        except UnkeyedError as error:
            return Ticket(verdict=f"bypass:{error}", wish=wish)

    async def again(self, ticket: Ticket) -> None:
        """Look once more, after an equal request that was waited for brought nothing."""
        self._found(ticket, await self.store.get(ticket.key, counted=False), "hit")
        ticket.other = self._other(ticket) if ticket.replay is None else None

    def take(self, ticket: Ticket, stored: Stored | None) -> None:
        """Take the answer of an equal request."""
        self._found(ticket, Looked(stored=stored, turn=ticket.turn), "hit")

    def begin(self, ticket: Ticket) -> None:
        """The request goes to the backend."""
        if ticket.key and ticket.wish.write:
            ticket.flight = self.flights.begin(ticket.key)

    def land(self, ticket: Ticket, stored: Stored | None = None) -> None:
        """Nothing more is to be expected of the request. Idempotent."""
        if ticket.flight is not None:
            self.flights.land(ticket.flight, stored)

    async def keep(self, ticket: Ticket, flow: Flow) -> bool:
        """Store the answer that the backend gave to its end, if it is complete; whether it was stored."""
        stored = None
        try:
            recorder = ticket.flight.recorder if ticket.flight is not None else None
            if recorder is not None and recorder.pieces and flow.http_status == 200:
                stored = await self._kept(ticket, flow, recorder)
            return stored is not None
        finally:
            self.land(ticket, stored)

    def noticed(self, flow: Flow) -> None:
        """A call that is no generation has ended; it may have changed what a model's name stands for."""
        if flow.path.startswith(CHANGING):
            self.digests.changed(flow.backend)

    def _forget(self, keys: Sequence[str]) -> None:
        """Answers were dropped; their questions need not be found any more."""
        if self.matcher is not None:
            task = asyncio.create_task(self.matcher.remove(keys))
            self._forgetting.add(task)
            task.add_done_callback(self._forgetting.discard)

    async def close(self) -> None:
        """Let go of everything but the store's connection."""
        await asyncio.gather(*self._forgetting, return_exceptions=True)
        await self.digests.close()
        if self.matcher is not None:
            await self.matcher.close()

    async def _asked(self, flow: Flow, prompt: Prompt, wish: Wish, body: bytes, query: bytes) -> Ticket:
        if len(body) > LARGEST:
            raise UnkeyedError("too_large")
        large = len(body) > INLINE_BYTES
        read, text = await asyncio.to_thread(_read, body) if large else _read(body)
        if (reason := refusal(read)) is not None:
            raise UnkeyedError(reason)
        found = asked(prompt.dialect, read, self._settings.cache_rule)
        if found == VOLATILE and wish.ttl_s is None:
            raise UnkeyedError(VOLATILE.reason)
        assert flow.identity is not None
        digest = await self.digests.of(flow.backend, prompt.model)
        target = flow.path.encode("latin-1") + (b"?" + query if query else b"")
        place = Place(
            self._secret,
            flow.backend,
            target,
            scope=flow.identity.scope,
            namespace=wish.namespace,
            digest=digest,
        )
        options = read.get("stream_options")
        ticket = Ticket(
            verdict="miss", wish=wish, key=place.key(text, flow.headers), digest=digest,
            asked={name: read[name] for name in ("n", "prompt") if isinstance(read.get(name), int | list)},
            ttl_s=wish.ttl_s or min(_life(found), self._settings.response_cache_ttl),
            stream=prompt.stream, usage=isinstance(options, dict) and options.get("include_usage") is True,
        )  # fmt: skip
        await self._look(ticket)
        if self.matcher is not None and ticket.replay is None and ticket.other is None and wish.read:
            await self._match(ticket, self.matcher, found, place, flow)
        return ticket

    async def _look(self, ticket: Ticket) -> None:
        """The answer under the very key; one that has come but is not stored yet is waited for a moment."""
        landing = self.flights.under_way(ticket.key, landing=True)
        if landing is not None:
            await asyncio.wait({landing.landed}, timeout=LANDING_S)
        looked = await self.store.get(ticket.key, counted=ticket.wish.read)
        self._found(ticket, looked, "hit")
        if ticket.replay is None and ticket.wish.read:
            ticket.other = self._other(ticket)

    def _other(self, ticket: Ticket) -> Flight | None:
        """An equal request under way whose answer this one may take."""
        if not self._settings.response_cache_single_flight or ticket.wish.only:
            return None
        return self.flights.under_way(ticket.key, landing=False)

    def _found(self, ticket: Ticket, looked: Looked, verdict: str) -> None:
        ticket.turn = looked.turn
        if not ticket.wish.read:
            ticket.verdict = "bypass:no-cache"
        elif looked.stored is not None:
            ticket.replay = replay(looked.stored, stream=ticket.stream, usage=ticket.usage)
            if ticket.replay is not None:
                ticket.stored, ticket.verdict = looked.stored, verdict

    async def _match(
        self, ticket: Ticket, matcher: Matcher, found: Asked | Bypass, place: Place, flow: Flow
    ) -> None:
        """The answer to a question that asks the same in other words."""
        if isinstance(found, Bypass):
            ticket.verdict = f"bypass:{found.reason}"
            return
        ticket.question = Question(text=found.text, group=place.group(canonical(found.rest), flow.headers))
        match = await matcher.find(ticket.question)
        if match is None:
            return
        looked = await self.store.get(match.key)
        self._found(ticket, Looked(stored=looked.stored, turn=ticket.turn), "semantic")
        if looked.stored is None and looked.turn is not None:
            await matcher.remove([match.key])

    async def _kept(self, ticket: Ticket, flow: Flow, recorder: Recorder) -> Stored | None:
        prompt, identity, pieces = flow.prompt, flow.identity, recorder.pieces
        if prompt is None or identity is None or pieces is None:
            return None
        shape = shape_of(FORMS[prompt.dialect], pieces, stream=prompt.stream)
        body = b"".join(pieces)
        if shape is None or not await _complete(prompt.dialect, shape, body, ticket.asked):
            return None
        said = _said(flow, prompt)
        stored = Stored(
            about=self._about(ticket, flow, prompt, said), shape=shape, pieces=pieces, usage=ticket.usage,
            headers=[(name, value) for name, value in recorder.headers if name in KEPT_HEADERS],
        )  # fmt: skip
        words = terms_of(self._secret, [said, _reply(flow)])
        kept = await self.store.put(ticket.key, stored, ticket.ttl_s, words, ticket.turn)
        if kept and self.matcher is not None and ticket.question is not None:
            await self.matcher.add(ticket.question, ticket.key, ticket.ttl_s)
        return stored

    def _about(self, ticket: Ticket, flow: Flow, prompt: Prompt, said: str) -> About:
        assert flow.identity is not None
        measured = flow.measured
        lasted = (flow.ended_at or flow.started) - flow.started
        return About(
            original=flow.id, at=flow.received_at, scope=flow.identity.scope, namespace=ticket.wish.namespace,
            backend=flow.backend.name, endpoint=flow.path, dialect=prompt.dialect, model=prompt.model,
            digest=ticket.digest, agent=flow.identity.agent, tags=ticket.wish.tags, question=said[:QUESTION],
            prompt_tokens=measured.prompt_tokens if measured else None,
            completion_tokens=measured.completion_tokens if measured else None,
            total_ms=round(lasted * 1e3, 3),
        )  # fmt: skip


def _read(body: bytes) -> tuple[dict[str, Any], bytes]:
    read = read_body(body)
    return read, canonical(read)


async def _complete(dialect: str, shape: Any, body: bytes, request: dict[str, Any]) -> bool:
    if len(body) <= INLINE_BYTES:
        return is_complete(dialect, shape, body, request)
    return await asyncio.to_thread(is_complete, dialect, shape, body, request)


def _life(found: Asked | Bypass) -> float:
    """Seconds for which the answer to a question stays true, as far as its words tell."""
    life_s = found.life_s if isinstance(found, Asked) else None
    return math.inf if life_s is None else life_s


def _unfit(prompt: Prompt) -> str | None:
    """Why a generation is none that the cache can know an answer to."""
    if prompt.dialect not in FORMS:
        return "endpoint"
    if not prompt.chunks or prompt.engine.load or prompt.engine.unload:
        return "no_prompt"
    return None


def _said(flow: Flow, prompt: Prompt) -> str:
    """The last thing the user said."""
    asked_for = [chunk for chunk in prompt.chunks if chunk.kind == "prompt" or chunk.role == "user"]
    if not asked_for or flow.dialect is None:
        return ""
    sections = flow.dialect.sections(asked_for[-1].kind, asked_for[-1].raw)
    return "\n".join(
        section.text.decode("utf-8", "replace") for section in sections if section.kind == "text"
    )


def _reply(flow: Flow) -> str:
    reply = flow.outcome.reply if flow.outcome is not None else None
    sections = reply.sections if reply is not None else []
    return "\n".join(section.text.decode("utf-8", "replace") for section in sections)
