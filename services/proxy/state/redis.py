"""The state that all proxies of an installation share, in Redis; owns what of it is on its way.

Every call goes to this process's own memory too, and its answer stands in when Redis does not answer in time.
"""

import secrets
import time
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

from redis.exceptions import RedisError

from services.proxy.key import fingerprint
from services.proxy.state import layout
from services.proxy.state.base import Marks, Node, Overview, Query, Settled, Sighting
from services.proxy.state.breaker import CircuitBreaker
from services.proxy.state.client import BUDGET_S, Client
from services.proxy.state.connection import SILENT_S, Connection
from services.proxy.state.local import LocalState
from services.proxy.state.merge import adds_nothing, merge

MARKS_BUDGET_S = 0.01
STRANGER_S = 86_400


class RedisState:
    """The shared state in Redis, over this process's own; `client` is the way there, for others too."""

    def __init__(self, url: str, key: bytes, local: LocalState) -> None:
        self.local = local
        self.client = Client(url, self._sign)
        self._name = fingerprint(key)
        self._strangers: list[str] = []
        self._me = secrets.token_bytes(layout.PROCESS)
        self._sha = self.client.script(files(__package__).joinpath("script.lua").read_bytes())

    @property
    def breaker(self) -> CircuitBreaker:
        """Whether Redis is asked."""
        return self.client.breaker

    @property
    def _connection(self) -> Connection | None:
        return self.client.connection

    async def start(self) -> None:
        """Connect in the background; waits half a second at most, so that the first request finds it done."""
        await self.client.start()

    async def close(self) -> None:
        """Finish pending writes within a second and let go of connections."""
        await self.client.close()

    async def place(self, query: Query, meanwhile: Callable[[Sighting], None] | None = None) -> Sighting:
        """Look up and register a request, atomically."""
        own = await self.local.place(query)
        connection = self._connection
        if connection is None:
            return own
        timeline = self.local.timeline(query.backend)
        known = "".join([past.node.id for past in own.candidates])
        arguments = layout.place(query, self._me, self.local.max_bytes, timeline.cursor, known)
        asked = connection.ask(*self._run(arguments))
        if meanwhile is not None:
            meanwhile(own)
        reply = await self.client.within(BUDGET_S, asked)
        if reply is None:
            return own
        answer = layout.answer(reply)
        connection.hurried |= timeline.catch_up(answer.events, answer.cursor)
        if not answer.events and adds_nothing(answer.sighting, own):
            return own
        return merge(answer.sighting, own, timeline.before(query.call.id))

    def adopt(self, node: Node) -> None:
        """Store the lineage that was decided for a registered node; Redis follows in the background."""
        backend = self.local.backend_of(node.id)
        self.local.adopt(node)
        if backend is not None:
            self._later(partial(layout.adopt, node, self._me, backend))

    def settle(self, query: Query, settled: Settled, marks: Marks | None) -> None:
        """Add what became of a request; Redis follows in the background."""
        self.local.settle(query, settled, marks)
        self._later(partial(layout.settle, query, self._me, settled, marks, self.local.max_bytes))

    async def marks(self, request_id: str) -> Marks | None:
        """The block digests of an earlier request, if they are still there."""
        own = await self.local.marks(request_id)
        if own is not None or self._connection is None:
            return own
        raw = await self.client.within(
            MARKS_BUDGET_S, self._connection.ask(b"HGET", layout.node_key(request_id), b"m")
        )
        return layout.marks(raw) if raw else None

    async def overview(self, limit: int) -> Overview:
        """Live lineages and shared parts, at most `limit` of each; this process's own when Redis is away."""
        reply = None
        if self._connection is not None:
            asked = self._connection.ask(*self._run([b"overview", limit]))
            reply = await self.client.within(SILENT_S, asked, trips=False)
        return layout.overview(reply) if reply is not None else await self.local.overview(limit)

    def status(self) -> dict[str, Any]:
        """Mode, breaker, strangers and this process's own memory."""
        shown: dict[str, Any] = {**self.local.status(), "mode": "redis" if self.breaker.closed else "local"}
        shown["redis"] = {"reason": self.breaker.reason, "since_s": round(self.breaker.seconds, 1),
                          "opened": self.breaker.opened}  # fmt: skip
        if self._strangers:
            shown["warning"] = (
                "Another installation key uses this Redis; scopes do not match across the two. Give both "
                "machines the same METALANCHOR_KEY_FILE, or each its own Redis."
            )
        return shown

    def _later(self, arguments: Callable[[], list[Any]]) -> None:
        if self._connection is not None:
            self._connection.tell(lambda: self._run(arguments()))

    def _run(self, arguments: list[Any]) -> tuple[Any, ...]:
        """A call of the script."""
        return (b"EVALSHA", self._sha, 1, layout.BASE, *arguments)

    async def _sign(self, connection: Connection) -> None:
        """Leave this installation's name, and see which others have been here within a day."""
        now = int(time.time())
        connection.ask(b"HSET", layout.INSTALLATIONS, self._name, now)  # at once, before anybody else looks
        there = await connection.ask(b"HGETALL", layout.INSTALLATIONS)
        if there is None:
            raise RedisError(connection.reason)
        seen = dict(zip(there[::2], there[1::2], strict=True))
        self._strangers = [
            name.decode()
            for name, at in seen.items()
            if int(at) > now - STRANGER_S and name.decode() != self._name
        ]
