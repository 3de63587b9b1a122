"""Owns the connection to the Redis that all proxies of an installation share, and when it is used.

Whatever a request asks Redis goes through here in a time budget: the first that is late opens the breaker,
and from then on nobody waits. Only a probe in the background closes it again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from services.proxy.state import layout
from services.proxy.state.breaker import CircuitBreaker
from services.proxy.state.connection import SILENT_S, Connection
from services.redis_client import async_pool

BUDGET_S = 0.04  # what a request waits for a script; with that for marks it is 50 ms
CLOSE_S = 1.0  # how long `close` waits for pending writes
SIGHT_S = 60.0  # between looks at Redis while nothing is wrong with it
CONNECT_S = 1.0
START_S = 0.5  # how long `start` waits for the first probe, so that the first request finds Redis in use


class Client:
    """Keeps one connection; `connection` is None while Redis is not to be asked.

    `greet` is the probe: it runs at every connection and each minute, in the time a request would have.
    """

    def __init__(self, url: str, greet: Callable[[Connection], Awaitable[None]]) -> None:
        self.breaker = CircuitBreaker()
        self.connection: Connection | None = None
        self._greet = greet
        self._scripts: dict[str, bytes] = {}
        self._connections: set[Connection] = set()
        self._watch: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._probed = asyncio.Event()
        # Makes connections, and holds none.
        self._pool = async_pool(
            url, protocol=2, socket_timeout=SILENT_S, socket_connect_timeout=SILENT_S,
            retry=Retry(NoBackoff(), 0), client_name="metalanchor-proxy",
        )  # fmt: skip

    def script(self, text: bytes) -> str:
        """Make a script known; the name to call it by."""
        name = layout.sha(text)
        self._scripts[name] = text
        return name

    async def start(self) -> None:
        """Connect in the background; waits half a second at most, so that the first request finds it done."""
        self._watch = asyncio.create_task(self._watching(), name="redis-watch")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await self._probed.wait()

    async def close(self) -> None:
        """Finish pending writes within a second and let go of connections."""
        if self.connection is not None:
            await self.connection.written(CLOSE_S)
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        for connection in list(self._connections):
            await connection.close()
        self._connections.clear()
        await self._pool.disconnect()

    async def within(self, budget_s: float, asked: asyncio.Future[Any], *, trips: bool = True) -> Any:
        """The reply, or None when Redis fails or is late; a late one opens the breaker where it `trips`."""
        late = asyncio.get_running_loop().call_later(budget_s, self._late, asked, trips, 2)
        try:
            return await asked
        finally:
            late.cancel()

    def _late(self, asked: asyncio.Future[Any], trips: bool, turns: int) -> None:
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

    def _trip(self, reason: str) -> None:
        """Ask no more; whoever waits beside the one that failed goes on at once."""
        connection, self.connection = self.connection, None
        if connection is not None:
            self.breaker.fail(reason)
            connection.end(reason)
            self._wake.set()

    def _ended(self, connection: Connection) -> None:
        """A connection is of no more use."""
        if connection is self.connection:
            self._trip(connection.reason or "")

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
        connection, held = self.connection, self.connection is not None
        try:
            if connection is None:  # nobody waits for it, and Sentinels may have to be asked in turn
                async with asyncio.timeout(CONNECT_S):
                    connection = await self._connect()
            async with asyncio.timeout(BUDGET_S if self.breaker.opened else START_S):
                await self._greet(connection)
        except TimeoutError:
            self._unfit(connection, "slow", held=held)
        except (RedisError, OSError) as error:
            reason = connection.reason if connection is not None else None
            self._unfit(connection, reason or type(error).__name__, held=held)
        else:
            self.connection = connection
            self.breaker.succeed()

    def _unfit(self, connection: Connection | None, reason: str, *, held: bool) -> None:
        """A probe failed, over the connection in use, which may have been noticed already, or a new one."""
        if held:
            self._trip(reason)
            return
        self.breaker.fail(reason)
        if connection is not None:
            connection.end(reason)

    async def _connect(self) -> Connection:
        unopened: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        connection = await Connection.open(unopened, self._scripts, self._ended)
        self._connections = {other for other in self._connections if not other.gone} | {connection}
        return connection
