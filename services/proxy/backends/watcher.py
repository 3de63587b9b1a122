"""Keeps a `Backend` true: asks what it is at the start, whenever it comes back, and while requests expect it.

`BackendWatcher` owns one task a backend and is the only writer of a `Backend`'s kind, version, status, facts
and restarts; when a server does not answer, the last known kind stays and the status says down.
"""

import asyncio
import time
from typing import Any

from services.probe import Found, brief, probe_blocking, refused
from services.proxy.backends.backend import Backend
from services.proxy.backends.restarts import Life, Restart
from services.proxy.backends.template import template_of

UP_S = 30.0
DOWN_S = 2.0
BURST_S = 0.2  # failures that come together are one question
GLANCE_S = 1.0  # between two looks for the sake of requests: one GET that a server answers from memory
RESTARTS = 8  # remembered: a cause asks for those since a conversation's last request


class BackendWatcher:
    """Asks again every half minute, at once when the wire failed, and briefly as requests come."""

    def __init__(self, backend: Backend, kind: str = "auto") -> None:
        self._backend = backend
        self._kind = kind
        self._wake = asyncio.Event()
        self._retired = False
        self._looked = float("-inf")
        self._glancing = False
        self._life = Life()
        self._template: tuple[Any, dict[str, float] | None] | None = None

    def notice(self) -> None:
        """The wire failed (unreachable, reset): ask again now instead of in half a minute."""
        self._wake.set()

    def glance(self) -> None:
        """A prompt is on its way whose head the server may hold: see whether it is still the same process.

        Only of servers that say so, and once a second; the answer is there before a cold prefill has ended.
        """
        if self._backend.facts.get("chat_template") is None or time.monotonic() - self._looked < GLANCE_S:
            return
        self._glancing = True
        self._wake.set()

    def retire(self) -> None:
        """Nobody uses this backend any more: `run` returns."""
        self._retired = True
        self._wake.set()

    async def run(self) -> None:
        """Watch until cancelled or retired; never raises otherwise."""
        while not self._retired:
            self._wake.clear()  # before looking: what happens meanwhile is looked at again
            await self.look()
            pause = UP_S if self._backend.status == "up" else DOWN_S
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue
            if not self._glancing:
                await asyncio.sleep(BURST_S)

    async def look(self) -> None:
        """Ask once, write down the answer. A busy server keeps what was known of it and is ``degraded``."""
        backend, glancing = self._backend, self._glancing
        self._glancing, self._looked = False, time.monotonic()
        asked = _now()
        found = await asyncio.to_thread(brief, backend.url, backend.kind) if glancing else None
        if found is None:
            found = await asyncio.to_thread(probe_blocking, backend.url, self._kind, backend.kind)
        if found is None:
            backend.status = "down"
            if await asyncio.to_thread(refused, backend.url):
                self._life.refused(_now())
        elif found.facts.get("busy"):
            backend.status = "degraded"
            backend.kind = backend.kind or found.kind
        else:
            self._write(found, self._life.seen({**found.facts, "version": found.version}, asked, _now()))
            await self._ask_template()

    def _write(self, found: Found, restart: Restart | None) -> None:
        backend = self._backend
        backend.status = "up"
        kept = {name: value for name, value in backend.facts.items() if name == "template"}
        backend.facts = {**found.facts, **kept}
        backend.kind, backend.version = found.kind or backend.kind, found.version or backend.version
        if restart is not None:
            backend.restarts = [*backend.restarts, restart][-RESTARTS:]

    async def _ask_template(self) -> None:
        """What the chat template writes, once a template; only a server that shows one can be asked."""
        backend = self._backend
        template = backend.facts.get("chat_template"), backend.facts.get("model")
        if template[0] is None or (self._template is not None and self._template[0] == template):
            return
        self._template = template, await asyncio.to_thread(template_of, backend.url)
        told = {name: value for name, value in backend.facts.items() if name != "template"}
        backend.facts = told | ({"template": self._template[1]} if self._template[1] else {})


def _now() -> int:
    return time.time_ns() // 1_000_000
