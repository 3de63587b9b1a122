"""Owns the stored questions in Redis: their words, their vectors, in which order they came and when they go.

The words are there because the judge needs them, and only because the user switched the cache on. Every
process reads new questions in their order; one that went is noticed when it is looked up. Nothing here scans
the key space.
"""

import time
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError

from services.redis_client import open_async_redis

if TYPE_CHECKING:
    from services.semantic.embeddings import Vector

BASE = "metalanchor:{semantic}:"
ENTRIES, ORDER, EXPIRY, SEQUENCE = (BASE + name for name in ("entries", "order", "expiry", "sequence"))
PAGE = 500  # entries of some 1.2 KB each a step


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stored question; `vector` is float16 of length one, `until` epoch milliseconds."""

    group: str
    text: str
    vector: bytes
    until: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class Entries:
    """The questions of an installation, over a connection of their own. Methods raise redis-py's errors.

    `most` bounds their number: those that came first go first.
    """

    def __init__(self, url: str, most: int) -> None:
        self.redis: Any = open_async_redis(
            url, protocol=2, socket_timeout=1.0, socket_connect_timeout=1.0, max_connections=64,
            retry=Retry(NoBackoff(), 0), client_name="metalanchor-semantic",
        )  # fmt: skip
        self._most = most
        self._add = self.redis.register_script(files(__package__).joinpath("add.lua").read_text("utf-8"))
        self.has_vector_sets = False

    async def greet(self) -> None:
        """Connect, and ask whether the server has vector sets (Redis 8)."""
        try:
            await self.redis.execute_command("VCARD", BASE + "vectors")
            self.has_vector_sets = True
        except ResponseError:
            self.has_vector_sets = False

    async def add(self, key: str, group: str, text: str, vector: "Vector", ttl_s: float) -> None:
        """Store a question under its answer's key."""
        import numpy as np  # noqa: PLC0415 - only where there are vectors

        until = round((time.time() + ttl_s) * 1e3)
        value = _encode(Entry(group, text, vector.astype(np.float16).tobytes(), until))
        blob = vector.astype(np.float32).tobytes() if self.has_vector_sets else b""
        keys = [ENTRIES, ORDER, EXPIRY, SEQUENCE, _set(group)]
        gone = await self._add(keys=keys, args=[key, value, until, self._most, blob])
        if gone:
            await self.remove([name.decode() for name in gone])

    async def remove(self, keys: Sequence[str]) -> None:
        """Forget questions."""
        if not keys:
            return
        stored = await self.redis.hmget(ENTRIES, keys) if self.has_vector_sets else []
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.hdel(ENTRIES, *keys)
            pipe.zrem(ORDER, *keys)
            pipe.zrem(EXPIRY, *keys)
            for key, value in zip(keys, stored, strict=False):
                if value is not None:
                    pipe.execute_command("VREM", _set(_decode(value).group), key)
            await pipe.execute()

    async def get(self, keys: Sequence[str]) -> list[Entry | None]:
        """The questions under these keys; None where one has gone or its time is over."""
        if not keys:
            return []
        now = time.time() * 1e3
        found = [_decode(value) if value else None for value in await self.redis.hmget(ENTRIES, keys)]
        return [entry if entry is not None and entry.until > now else None for entry in found]

    async def near(self, vector: "Vector", group: str, limit: int) -> list[tuple[str, float]]:
        """The nearest of a group by the server's vector set, nearest first, with their cosines."""
        reply = await self.redis.execute_command(
            "VSIM", _set(group), "FP32", vector.tobytes(), "WITHSCORES", "COUNT", limit,
            "FILTER", f".until > {round(time.time() * 1e3)}",
        )  # fmt: skip
        return [
            (key.decode(), 2 * float(score) - 1) for key, score in zip(reply[::2], reply[1::2], strict=True)
        ]

    async def since(self, sequence: int) -> tuple[int, list[tuple[str, Entry]]]:
        """Up to a page of questions that came after a sequence number, and the last one's."""
        page = await self.redis.zrangebyscore(
            ORDER, f"({sequence}", "+inf", start=0, num=PAGE, withscores=True
        )
        if not page:
            return sequence, []
        names = [name.decode() for name, _ in page]
        entries = await self.get(names)
        pairs = zip(names, entries, strict=True)
        return int(page[-1][1]), [(key, entry) for key, entry in pairs if entry is not None]

    async def sequence(self) -> int:
        """How many questions ever came; less than before where Redis was emptied."""
        return int(await self.redis.get(SEQUENCE) or 0)

    async def expire(self) -> int:
        """Forget up to a page of questions whose time is over; how many."""
        over = await self.redis.zrangebyscore(EXPIRY, "-inf", round(time.time() * 1e3), start=0, num=PAGE)
        if over:
            await self.remove([name.decode() for name in over])
        return len(over)

    async def count(self) -> int:
        """Questions stored."""
        return int(await self.redis.zcard(ORDER))

    async def close(self) -> None:
        """Let go of the connections."""
        await self.redis.aclose()


def _set(group: str) -> str:
    """A vector set for each group: a filter over one for all would have to walk past the others."""
    return f"{BASE}vectors:{group}"
