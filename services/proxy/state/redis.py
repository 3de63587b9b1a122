"""Owns the connection to the Redis that all proxies of an installation share, and when it is used.

Every call goes to this process's own memory too, and its answer stands in when Redis does not answer in time.
"""

import asyncio
import contextlib
import time
from importlib.resources import files
from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from services.proxy.key import fingerprint
from services.proxy.state import layout
from services.proxy.state.base import Marks, Node, Overview, Query, Settled, Sighting
from services.proxy.state.breaker import Breaker
from services.proxy.state.link import SILENT_S, Link
from services.proxy.state.local import LocalState
from services.proxy.state.merge import merge

BUDGET_S = 0.04  # what a request waits for `place`; with that for marks it is the contract's 50 ms
MARKS_BUDGET_S = 0.01
CLOSE_S = 1.0  # how long `close` waits for pending writes
SIGHT_S = 60.0  # between looks at who else uses this Redis
STRANGER_S = 86_400
START_S = 0.5  # how long `start` waits for the first probe, so that the first request finds Redis in use


class RedisState:
    """The shared state in Redis, over this process's own."""

    def __init__(self, url: str, key: bytes, local: LocalState) -> None:
        self.local = local
        self.breaker = Breaker()
        self._name = fingerprint(key)
        self._strangers: list[str] = []
        self._link: Link | None = None
        self._links: set[Link] = set()
        self._watch: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._probed = asyncio.Event()
        self._script = files(__package__).joinpath("script.lua").read_bytes()
        self._sha = layout.sha(self._script)
        # Makes connections, and holds none.
        self._pool = ConnectionPool.from_url(
            url, protocol=2, socket_timeout=SILENT_S, socket_connect_timeout=SILENT_S,
            retry=Retry(NoBackoff(), 0), client_name="metalanchor-proxy",
        )  # fmt: skip

    async def start(self) -> None:
        """Connect in the background; waits half a second at most, so that the first request finds it done."""
        self._watch = asyncio.create_task(self._watching(), name="redis-watch")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await self._probed.wait()

    async def close(self) -> None:
        """Finish pending writes within a second and let go of connections."""
        if self._link is not None:
            await self._link.written(CLOSE_S)
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        for link in list(self._links):
            await link.close()
        self._links.clear()

    async def place(self, query: Query) -> Sighting:
        """Look up and register a request, atomically."""
        own = await self.local.place(query)
        link = self._link
        if link is None:
            return own
        timeline = self.local.timeline(query.backend)
        known = "".join([past.node.id for past in own.candidates if past.node.lineage])
        arguments = layout.place(query, self.local.max_bytes, timeline.cursor, known)
        reply = await self._within(BUDGET_S, link.ask(*self._run(arguments)))
        if reply is None:
            return own
        answer = layout.answer(reply)
        link.hurried |= timeline.catch_up(answer.events, answer.cursor)
        return merge(answer.sighting, own, timeline.before(query.call.id))

    def adopt(self, node: Node) -> None:
        """Store the lineage that was decided for a registered node; Redis follows in the background."""
        backend = self.local.backend_of(node.id)
        self.local.adopt(node)
        if backend is not None:
            self._later(layout.adopt(node, backend))

    def settle(self, query: Query, settled: Settled, marks: Marks | None) -> None:
        """Add what became of a request; Redis follows in the background."""
        self.local.settle(query, settled, marks)
        self._later(layout.settle(query, settled, marks, self.local.max_bytes))

    async def marks(self, request_id: str) -> Marks | None:
        """The block digests of an earlier request, if they are still there."""
        own = await self.local.marks(request_id)
        if own is not None or self._link is None:
            return own
        raw = await self._within(MARKS_BUDGET_S, self._link.ask(b"HGET", layout.node_key(request_id), b"m"))
        return layout.marks(raw) if raw else None

    async def overview(self, limit: int) -> Overview:
        """Live lineages and shared parts, at most `limit` of each; this process's own when Redis is away."""
        reply = None
        if self._link is not None:
            asked = self._link.ask(*self._run([b"overview", limit]))
            reply = await self._within(SILENT_S, asked, trips=False)
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

    async def _within(self, budget_s: float, asked: "asyncio.Future[Any]", *, trips: bool = True) -> Any:
        """The reply, or None when Redis fails or is late; a late one opens the breaker where it `trips`."""
        late = asyncio.get_running_loop().call_later(budget_s, self._late, asked, trips, 2)
        try:
            return await asked
        finally:
            late.cancel()

    def _late(self, asked: "asyncio.Future[Any]", trips: bool, turns: int) -> None:
        """The time is up; but a reply may have come in with the timer, where the loop itself was late."""
        if asked.done():
            return
        if turns:
            asyncio.get_running_loop().call_soon(self._late, asked, trips, turns - 1)
            return
        if trips:
            self._trip("slow")
        if not asked.done():
            asked.set_result(None)

    def _later(self, arguments: list[Any]) -> None:
        if self._link is not None:
            self._link.tell(*self._run(arguments))

    def _run(self, arguments: list[Any]) -> tuple[Any, ...]:
        """A call of the script."""
        return (b"EVALSHA", self._sha, 1, layout.BASE, *arguments)

    def _trip(self, reason: str) -> None:
        """Ask no more; whoever waits beside the one that failed goes on at once."""
        link, self._link = self._link, None
        if link is not None:
            self.breaker.fail(reason)
            link.end(reason)
            self._wake.set()

    def _ended(self, link: Link) -> None:
        """A connection is of no more use."""
        if link is self._link:
            self._trip(link.reason or "")

    async def _watching(self) -> None:
        """Probe while open; while closed, look now and then who else is there."""
        while True:
            await self._probe()
            self._probed.set()
            self._wake.clear()
            if self.breaker.closed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SIGHT_S):
                        await self._wake.wait()
            if not self.breaker.closed:
                await asyncio.sleep(self.breaker.hold_s)

    async def _probe(self) -> None:
        """A write and a read, as a request would need them, in the time a request would have."""
        link, held = self._link, self._link is not None
        try:
            async with asyncio.timeout(BUDGET_S if self.breaker.opened else START_S):
                link = link or await self._connect()
                await self._sign(link)
        except TimeoutError:
            self._unfit(link, "slow", held=held)
        except (RedisError, OSError) as error:
            reason = link.reason if link is not None else None
            self._unfit(link, reason or type(error).__name__, held=held)
        else:
            self._link = link
            self.breaker.succeed()

    def _unfit(self, link: Link | None, reason: str, *, held: bool) -> None:
        """A probe failed, over the connection in use, which may have been noticed already, or a new one."""
        if held:
            self._trip(reason)
            return
        self.breaker.fail(reason)
        if link is not None:
            link.end(reason)

    async def _connect(self) -> Link:
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        link = await Link.open(connection, self._script, self._ended)
        self._links = {other for other in self._links if not other.gone} | {link}
        return link

    async def _sign(self, link: Link) -> None:
        """Leave this installation's name, and see which others have been here within a day."""
        now = int(time.time())
        link.tell(b"HSET", layout.INSTALLATIONS, self._name, now)
        there = await link.ask(b"HGETALL", layout.INSTALLATIONS)
        if there is None:
            raise RedisError(link.reason)
        seen = dict(zip(there[::2], there[1::2], strict=True))
        self._strangers = [
            name.decode()
            for name, at in seen.items()
            if int(at) > now - STRANGER_S and name.decode() != self._name
        ]
