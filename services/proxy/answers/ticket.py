"""One request as the cache sees it: its key, what its client asks for, or why it has no key.

Waits for nobody but for the backend's first word on its models.
"""

import asyncio
import math
from typing import Any

import msgspec

from services.proxy.answers.base import Stored
from services.proxy.answers.control import CacheControl, control_of
from services.proxy.answers.digests import Digests
from services.proxy.answers.eligible import refusal
from services.proxy.answers.flights import Flight
from services.proxy.answers.forms import FORMS
from services.proxy.answers.key import Place, UnkeyedError, canonical, read_body
from services.proxy.answers.replay import Replay
from services.proxy.flow import Flow
from services.proxy.prompt import Prompt
from services.semantic.base import Question
from services.semantic.eligible import Asked, Bypass, asked
from services.settings import Settings

INLINE_BYTES = 256 << 10  # as for analysing (`steps`): longer bodies are read in a thread
LARGEST = 8 << 20  # of a body that gets a key; no chat is longer, and reading it takes a tenth of a second
VOLATILE = Bypass("volatile")  # live data: not even an equal question has the same answer for long


class Ticket(msgspec.Struct, kw_only=True):
    """One request as the cache sees it. `verdict` is what the header says.

    `due` is what of the body says how many answers are due, `ttl_s` how long this one is kept. `question` is
    what may be matched by meaning, `unmatched` why nothing may; both None where meaning does not count.
    `replay` is the answer where there is one, of `stored`. `flight` is the request's own way to the backend,
    `other` an equal one under way whose answer may be shared. `turn` is the store's, for `put`.
    """

    verdict: str
    control: CacheControl = msgspec.field(default_factory=CacheControl)
    key: str = ""
    digest: str = ""
    due: dict[str, Any] = {}
    stream: bool = False
    usage: bool = False
    ttl_s: float = 0.0
    question: Question | None = None
    unmatched: str | None = None
    turn: int | None = None
    stored: Stored | None = None
    replay: Replay | None = None
    flight: Flight | None = None
    other: Flight | None = None

    @property
    def deserted(self) -> bool:
        """Whether the request goes on for others only."""
        return self.flight is not None and self.flight.deserted


class Desk:
    """Issues tickets. `secret` is the installation's hashing key."""

    def __init__(self, settings: Settings, secret: bytes) -> None:
        self.digests = Digests()
        self._settings, self._secret = settings, secret

    async def issue(self, flow: Flow, body: bytes, query: bytes) -> Ticket | None:
        """The ticket of a request that was recognised; without a key where it has none.

        None for one that is no generation.
        """
        prompt = flow.prompt
        control = control_of(flow.headers, self._secret)
        if prompt is None:
            return Ticket(verdict="bypass:unparsed", control=control)
        if prompt.kind != "generation":
            return None
        try:
            read, text = await _read(prompt, body)
            return await self._keyed(flow, prompt, control, query, read, text)
        except UnkeyedError as error:
            return Ticket(verdict=f"bypass:{error}", control=control)

    async def _keyed(  # noqa: PLR0917 one call site
        self,
        flow: Flow,
        prompt: Prompt,
        control: CacheControl,
        query: bytes,
        read: dict[str, Any],
        text: bytes,
    ) -> Ticket:
        found = asked(prompt.dialect, read, self._settings.cache_rule)
        if found == VOLATILE and control.ttl_s is None:
            raise UnkeyedError(VOLATILE.reason)
        assert flow.identity is not None
        target = flow.path.encode("latin-1") + (b"?" + query if query else b"")
        digest = await self.digests.of(flow.backend, prompt.model)
        place = Place(
            self._secret, flow.backend, target, scope=flow.identity.scope, namespace=control.namespace,
            digest=digest,
        )  # fmt: skip
        options = read.get("stream_options")
        ticket = Ticket(
            verdict="miss", control=control, key=place.key(text, flow.headers), digest=digest,
            due={name: read[name] for name in ("n", "prompt") if isinstance(read.get(name), int | list)},
            ttl_s=control.ttl_s or min(_life(found), self._settings.response_cache_ttl),
            stream=prompt.stream, usage=isinstance(options, dict) and options.get("include_usage") is True,
        )  # fmt: skip
        if self._settings.response_cache == "semantic":
            if isinstance(found, Asked):
                group = place.group(canonical(found.rest), flow.headers)
                ticket.question = Question(text=found.text, group=group)
            else:
                ticket.unmatched = found.reason
        return ticket


async def _read(prompt: Prompt, body: bytes) -> tuple[dict[str, Any], bytes]:
    """The body as Python values and in its canonical form. Raises `UnkeyedError`."""
    if prompt.dialect not in FORMS:
        raise UnkeyedError("endpoint")
    if not prompt.chunks or prompt.engine.load or prompt.engine.unload:
        raise UnkeyedError("no_prompt")
    if len(body) > LARGEST:
        raise UnkeyedError("too_large")
    read, text = await asyncio.to_thread(_both, body) if len(body) > INLINE_BYTES else _both(body)
    if (reason := refusal(read)) is not None:
        raise UnkeyedError(reason)
    return read, text


def _both(body: bytes) -> tuple[dict[str, Any], bytes]:
    read = read_body(body)
    return read, canonical(read)


def _life(found: Asked | Bypass) -> float:
    """Seconds for which the answer to a question stays true, as far as its words tell."""
    life_s = found.life_s if isinstance(found, Asked) else None
    return math.inf if life_s is None else life_s
