"""Runs the scenarios in order and collects one sample a request. The only module here that waits and talks.

Each scenario ends with its last prompt sent again behind a fresh prefix (the cold twins), so that cold and
warm are compared at one length. Every so many requests the same bytes go once more directly to the backend
and once more through the proxy, in alternating order: both are exact repeats of what the engine has just
worked on, so their difference is the proxy, and a backend with a single slot loses nothing by it.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from services.evidence.conversation import Conversation, encoded
from services.evidence.exchange import ExchangeError, Reply, send
from services.evidence.scenarios import Book, Scenario

COLD_TWINS = 2
PAIRS = 24
ROW_S = 10.0  # a row is at hand as soon as the answer has ended; this is for a machine that is very busy

Role = Literal["scenario", "cold_twin", "pair_proxied", "pair_direct"]
LookUp = Callable[[str], dict[str, Any] | None]


class Target(msgspec.Struct, frozen=True):
    """Where to send: `proxy` and `direct` are base addresses, `look_up` reads a request's row by its id."""

    proxy: str
    direct: str
    model: str
    look_up: LookUp
    proxy_headers: dict[str, str]
    direct_headers: dict[str, str]


class Sample(msgspec.Struct, frozen=True):
    """One request: what this side timed, and its row (empty for a direct one)."""

    scenario: str
    role: Role
    number: int
    turn: int
    pair: int | None
    ttft_ms: float | None
    row: dict[str, Any]


class Runner:
    """One run; `told` is called after each request."""

    def __init__(
        self, target: Target, book: Book, seed: int, salt: str, told: Callable[[Sample], None]
    ) -> None:
        self._target, self._book, self._seed, self._salt, self._told = target, book, seed, salt, told
        self._pair_every = max(4, sum(s.requests for s in book.scenario) // PAIRS)
        self._count = 0
        self._pairs = 0
        self._server: str | None = None

    def run(self) -> list[Sample]:
        """All scenarios; raises `ExchangeError` when the backend refuses."""
        samples = []
        for scenario in self._book.scenario:
            for sample in self._scenario(scenario):
                self._told(sample)
                samples.append(sample)
        return samples

    def total(self) -> int:
        """How many requests will be sent, the paired ones and the cold twins included."""
        own = sum(scenario.requests for scenario in self._book.scenario)
        return own + 2 * (own // self._pair_every) + COLD_TWINS * len(self._book.scenario)

    def _scenario(self, scenario: Scenario) -> Iterator[Sample]:
        for number in range(scenario.sessions):
            talk = Conversation(scenario, self._seed, self._salt, number)
            for turn in range(scenario.turns):
                reply, sample = self._through(talk, "scenario", number, turn)
                yield sample
                self._count += 1
                if self._count % self._pair_every == 0:
                    yield from self._pair(talk, number, turn)
                if turn + 1 < scenario.turns:
                    talk.hear(reply)
        for twin in range(COLD_TWINS):
            cold = talk.cold_twin(f"cold{twin}")
            yield self._through(cold, "cold_twin", twin, scenario.turns - 1)[1]

    def _pair(self, talk: Conversation, number: int, turn: int) -> Iterator[Sample]:
        self._pairs += 1
        ways = [self._through, self._directly]
        for way in ways if self._pairs % 2 else reversed(ways):
            role: Role = "pair_proxied" if way == self._through else "pair_direct"
            yield msgspec.structs.replace(way(talk, role, number, turn)[1], pair=self._pairs)

    def _through(self, talk: Conversation, role: Role, number: int, turn: int) -> tuple[Reply, Sample]:
        headers = {**self._target.proxy_headers, "X-MetalAnchor-Session": talk.session}
        reply = send(self._target.proxy, self._bytes(talk), headers)
        row = self._row(reply.request_id)
        self._server = self._server or row.get("backend")
        if row and row["backend"] != self._server:
            raise ExchangeError(f"the proxy has moved from {self._server} to {row['backend']} meanwhile")
        return reply, Sample(talk.scenario.name, role, number, turn, None, reply.ttft_ms, row)

    def _directly(self, talk: Conversation, role: Role, number: int, turn: int) -> tuple[Reply, Sample]:
        reply = send(self._target.direct, self._bytes(talk), self._target.direct_headers)
        return reply, Sample(talk.scenario.name, role, number, turn, None, reply.ttft_ms, {})

    def _bytes(self, talk: Conversation) -> bytes:
        return encoded(talk.body(self._target.model, self._book.max_tokens))

    def _row(self, request_id: str | None) -> dict[str, Any]:
        until = time.monotonic() + ROW_S
        while request_id and time.monotonic() < until:
            if row := self._target.look_up(request_id):
                return row
            time.sleep(0.02)
        return {}
