"""The step between placing and forwarding: a request on its way out, with the bytes that a fix puts in.

Owns which models are given no more breakpoints by this process, because their service refused them or nothing
that was written was ever read. Whatever goes wrong here, the request goes out as it was received.
"""

import time
from typing import Any

import msgspec

from services.costs.prices import Prices
from services.proxy.flow import Flow
from services.proxy.placing.tokens import Estimator, model_key
from services.proxy.splicing.breakpoints import Point, Seen, choose
from services.proxy.splicing.places import Places, places_of
from services.proxy.splicing.splice import Splice, apply
from services.proxy.splicing.tempo import Tempos

MISSES = 3  # turns in a row that read nothing of what the turn before wrote: more is paying for nothing


class Breakpoints:
    """Puts cache breakpoints into requests to Anthropic that have none."""

    def __init__(self, prices: Prices, estimator: Estimator) -> None:
        self._prices, self._estimator = prices, estimator
        self._refused: dict[tuple[str, str], str] = {}
        self._misses: dict[tuple[str, str], int] = {}
        self._tempos = Tempos()

    @staticmethod
    def applies(flow: Flow) -> bool:
        """Whether a request may get any; known before its body is read."""
        return (
            flow.backend.kind == "anthropic" and flow.dialect is not None and flow.dialect.name == "anthropic"
        )

    def fixed(self, flow: Flow, body: bytes) -> bytes:
        """The body with what the sections seen so far are worth; fills `flow.fixes`."""
        prompt, sighting, verdict = flow.prompt, flow.sighting, flow.verdict
        if prompt is None or sighting is None or verdict is None or _key(flow) in self._refused:
            return body
        if not self._tempos.turn(verdict.lineage, flow.received_at):
            return body
        price = self._prices.find("anthropic", prompt.model)
        seen = Seen(prompt, sighting, verdict, flow.received_at)
        name = model_key(flow.backend.name, prompt.model)
        points = choose(seen, self._estimator, name, price.minimum if price else None)
        places = places_of(body) if points else None
        if places is None:
            return body
        splices, made = _made(points, places)
        flow.fixes += [f"breakpoint:{name}" for name in made]
        return apply(body, splices) if splices else body

    def refuse(self, flow: Flow) -> None:
        """The service took the request only without what was put in: this model gets no more of it."""
        self._refused[_key(flow)] = "refused"

    def learn(self, flow: Flow) -> None:
        """What an answer shows of the breakpoints that its request was given."""
        measured, verdict = flow.measured, flow.verdict
        if not flow.fixes or verdict is None or measured is None or measured.cached_tokens is None:
            return
        key, read = _key(flow), measured.cached_tokens
        lasted = (flow.ended_at or time.perf_counter()) - flow.started
        ended = flow.received_at + round(lasted * 1e3)
        missed = self._tempos.answered(verdict.lineage, flow.received_at, ended, read)
        if read:
            self._misses.pop(key, None)
        elif missed:
            self._misses[key] = self._misses.get(key, 0) + 1
            if self._misses[key] >= MISSES:
                self._refused[key] = "never_read"

    def status(self) -> dict[str, Any]:
        """Models that get no more breakpoints, and why: ``refused`` or ``never_read``."""
        rows = [{"backend": b, "model": m, "reason": why} for (b, m), why in self._refused.items()]
        return {"stopped": rows}


def _made(points: list[Point], places: Places) -> tuple[list[Splice], list[str]]:
    """The splices of those points that have a place, and the points' names; one place is used once."""
    splices: list[Splice] = []
    made = []
    for point in points:
        try:
            found = _at(point, places)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # a section of a shape that the API does not know
        if found and not set(found) & set(splices):
            splices += found
            made.append(point.name)
    return splices, made


def _at(point: Point, places: Places) -> list[Splice]:
    if point.name == "tools":
        return places.tools()
    return places.system() if point.name == "system" else places.message(point.message)


def _key(flow: Flow) -> tuple[str, str]:
    return flow.backend.name, flow.prompt.model if flow.prompt else ""
