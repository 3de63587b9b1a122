"""Owns the connection to the Redis that all proxies of an installation share.

Every call goes to this process's own memory too, and its answer stands in when Redis does not answer in time.
Redis work runs in tasks of its own: a request that is cancelled cuts no conversation with Redis short, so no
reply can ever reach the wrong reader.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from importlib.resources import files
from typing import Any

import msgspec
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from services.proxy.key import fingerprint
from services.proxy.state import layout
from services.proxy.state.base import Marks, Node, Overview, Query, Settled, Sighting
from services.proxy.state.breaker import Breaker
from services.proxy.state.local import LocalState
from services.proxy.state.merge import merge

BUDGET_S = 0.04  # what a request waits for `place`; with that for marks it is the contract's 50 ms
MARKS_BUDGET_S = 0.01
SOCKET_S = 1.0  # a connection that is silent for so long is closed; nobody waits for it by then
CONNECTIONS = 16  # each carries some thousand requests a second; more only help a hung server to hang more
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
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._probed = asyncio.Event()
        self._script = files(__package__).joinpath("script.lua").read_bytes()
        self._sha = layout.sha(self._script)
        self._opened: asyncio.Future[None] | None = None
        self._redis: Any = Redis.from_pool(
            BlockingConnectionPool.from_url(
                url, protocol=2, socket_timeout=SOCKET_S, socket_connect_timeout=SOCKET_S, timeout=SOCKET_S,
                max_connections=CONNECTIONS, retry=Retry(NoBackoff(), 0), client_name="metalanchor-proxy",
            )
        )  # fmt: skip

    async def start(self) -> None:
        """Connect in the background; waits half a second at most, so that the first request finds it done."""
        self._watch = asyncio.create_task(self._watching(), name="redis-watch")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await self._probed.wait()

    async def close(self) -> None:
        """Finish pending writes within a second and let go of connections."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        for task in [*self._tasks, *([self._watch] if self._watch else [])]:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._redis.aclose()

    async def place(self, query: Query) -> Sighting:
        """Look up and register a request, atomically."""
        own = await self.local.place(query)
        if not self.breaker.closed:
            return own
        timeline = self.local.timeline(query.backend)
        known = "".join([past.node.id for past in own.candidates if past.node.lineage])
        arguments = layout.place(query, self.local.max_bytes, timeline.cursor, known)
        reply = await self._within(BUDGET_S, self._run(arguments))
        if reply is None:
            return own
        answer = layout.answer(reply)
        timeline.catch_up(answer.events, answer.cursor)
        return merge(answer.sighting, own, timeline.before(query.call.id))

    async def adopt(self, node: Node) -> None:
        """Store the lineage that was decided for a registered node; Redis follows in the background."""
        backend = self.local.backend_of(node.id)
        await self.local.adopt(node)
        if backend is not None:
            self._later(layout.adopt(node, backend))

    async def settle(self, query: Query, settled: Settled, marks: Marks | None) -> None:
        """Add what became of a request; Redis follows in the background."""
        await self.local.settle(query, settled, marks)
        self._later(layout.settle(query, settled, marks, self.local.max_bytes))

    async def marks(self, request_id: str) -> Marks | None:
        """The block digests of an earlier request, if they are still there."""
        own = await self.local.marks(request_id)
        if own is not None:
            return own
        raw = await self._within(MARKS_BUDGET_S, self._redis.hget(layout.node_key(request_id), "m"))
        return layout.marks(raw) if raw else None

    async def overview(self, limit: int) -> Overview:
        """Live lineages and shared parts, at most `limit` of each; this process's own when Redis is away."""
        reply = await self._within(SOCKET_S, self._run([b"overview", limit]), trips=False)
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

    async def _within(self, budget_s: float, work: Coroutine[Any, Any, Any], *, trips: bool = True) -> Any:
        """The result of `work`, or None when Redis is not asked, fails, or is late; never cancels it."""
        opened = self._opened
        if opened is None or opened.done():
            work.close()
            return None
        task = self._spawn(work)
        await asyncio.wait((task, opened), timeout=budget_s, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and not opened.done():
            await asyncio.sleep(0)  # a reply may have come in with the timer, where the loop itself was late
            await asyncio.sleep(0)
        if task.done():
            return task.result()
        if trips:
            self._trip("slow")
        return None

    def _later(self, arguments: list[Any]) -> None:
        if self.breaker.closed:
            self._spawn(self._run(arguments))

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(self._guarded(work), name="redis-work")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Redis's answer, or None after an error, which opens the breaker."""
        try:
            return await work
        except (RedisError, OSError, TimeoutError, msgspec.DecodeError) as error:
            self._trip(type(error).__name__)
            return None

    def _trip(self, reason: str) -> None:
        if self.breaker.closed:
            self.breaker.fail(reason)
            if self._opened is not None:
                self._opened.set_result(None)  # whoever waits beside the one that failed goes on at once
            self._wake.set()

    async def _run(self, arguments: list[Any]) -> Any:
        """The script, loaded again where Redis has lost it."""
        try:
            return await self._redis.execute_command("EVALSHA", self._sha, 1, layout.BASE, *arguments)
        except NoScriptError:
            return await self._redis.execute_command("EVAL", self._script, 1, layout.BASE, *arguments)

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
        task = asyncio.create_task(self._sign())
        await asyncio.wait((task,), timeout=BUDGET_S if self.breaker.opened else START_S)
        if not task.done():
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            self.breaker.fail("slow")
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
        except (RedisError, OSError, TimeoutError) as error:
            self.breaker.fail(type(error).__name__)
        else:
            if self._opened is None or self._opened.done():
                self._opened = asyncio.get_running_loop().create_future()
            self.breaker.succeed()

    async def _sign(self) -> None:
        """Leave this installation's name, and see which others have been here within a day."""
        now = int(time.time())
        await self._redis.execute_command("HSET", layout.INSTALLATIONS, self._name, now)
        there = await self._redis.execute_command("HGETALL", layout.INSTALLATIONS)
        seen = dict(zip(there[::2], there[1::2], strict=True)) if isinstance(there, list) else there
        self._strangers = [
            name.decode()
            for name, at in seen.items()
            if int(at) > now - STRANGER_S and name.decode() != self._name
        ]
