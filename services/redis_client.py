"""Opens clients of the shared Redis, wherever its address says it is.

Owns nothing. Who opens a connection through Sentinels asks them anew, so after a failover whatever
reconnects has moved.
"""

from asyncio import Task, wait
from collections.abc import Iterable
from typing import Any

import redis.sentinel
from redis import Redis, asyncio
from redis.asyncio import sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from services.redis_address import Sentinels, parse

# Sentinels answer at once or are gone; a dead one must not use up the time for its neighbours.
ASK_S = 0.2


def open_redis(url: str, **options: Any) -> Redis:
    """A blocking client; `options` as redis-py's `Redis` takes them."""
    found = parse(url)
    if found is None:
        return Redis.from_url(url, **options)
    asked = redis.sentinel.Sentinel(  # type: ignore[no-untyped-call]
        found.hosts, sentinel_kwargs=_asking(found, Retry(NoBackoff(), 0)), **found.master, **options
    )
    client: Redis = asked.master_for(found.service, redis_class=Redis)  # type: ignore[no-untyped-call]
    return client


def open_async_redis(url: str, **options: Any) -> asyncio.Redis:
    """The same for an event loop."""
    return asyncio.Redis.from_pool(async_pool(url, **options))


def async_pool(url: str, **options: Any) -> asyncio.ConnectionPool:
    """What makes connections on an event loop; `disconnect` lets go of all of them."""
    found = parse(url)
    if found is None:
        return asyncio.ConnectionPool.from_url(url, **options)
    asking = _asking(found, AsyncRetry(NoBackoff(), 0))
    asked = sentinel.Sentinel(found.hosts, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
    return _Masters(found.service, asked, **found.master, **options)  # type: ignore[no-untyped-call]


async def end(tasks: Iterable[Task[None]]) -> None:
    """Cancel tasks that talk to Redis until they have ended.

    Once is not enough: a cancellation that meets one of redis-py's own time limits passes for that limit.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        ended, pending = await wait(pending, timeout=0.1)
        for task in ended:
            task.cancelled() or task.exception()  # else it would be said to have passed unseen


class _Masters(sentinel.SentinelConnectionPool):
    """Connections to the master, and those to the Sentinels, which redis-py would leave open."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        """Close all of them."""
        await super().disconnect(inuse_connections)
        for one in self.sentinel_manager.sentinels:
            await one.aclose()


def _asking(found: Sentinels, once: Any) -> dict[str, Any]:
    return {**found.own, "retry": once, "socket_timeout": ASK_S, "socket_connect_timeout": ASK_S}
