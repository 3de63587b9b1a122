"""Fills the response cache of `bench.answers` in bulk: answers through the store, questions as it would.

Everything stands in Redis as the proxy would have put it there.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
import numpy as np
from redis import Redis

from services.proxy.answers.base import About, Selector, Stored
from services.proxy.answers.store import RedisStore
from services.proxy.answers.terms import terms_of
from services.proxy.state.client import Client
from services.semantic.entries import ENTRIES, EXPIRY, ORDER, SEQUENCE, Entry, _set

DAY_S = 86_400.0
CAP = 4 << 30  # nothing is to be evicted here
AT_ONCE = 200
WORDS = 40  # of a question and its answer
VOCABULARY = 5_000
ANSWER = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"%b"},"finish_reason":"stop"}]}'
# What is dropped: so many of all entries, however many; by words of which one stands in most of them.
FOUND, TIMES = 20, 30
SOUGHT = "sought 蓝鲸 word1"


@asynccontextmanager
async def opened(url: str, secret: bytes) -> AsyncIterator[RedisStore]:
    """The store as a proxy of the same key has it."""

    async def greet(connection: object) -> None:
        del connection

    client = Client(url, greet)
    store = RedisStore(client, secret, CAP)
    await client.start()
    try:
        yield store
    finally:
        await client.close()


def made(number: int, chance: np.random.Generator, tag: str = "") -> tuple[str, Stored, list[str]]:
    """An answer of some 600 bytes: its key, itself, and what it says."""
    words = [f"word{rank}" for rank in chance.zipf(1.3, WORDS) % VOCABULARY]
    text = " ".join(words)
    about = About(
        original=f"r{number}", at=number, scope="s", namespace="", backend="default",
        endpoint="/v1/chat/completions", dialect="openai", model="m", tags=(tag or f"tag{number % 997}",),
        question=text[:100], prompt_tokens=20, completion_tokens=WORDS, total_ms=900.0,
    )  # fmt: skip
    return f"{number:032x}", Stored(about=about, shape="json", pieces=[ANSWER % text.encode()]), [text]


async def answers(store: RedisStore, secret: bytes, start: int, stop: int) -> None:
    """Store answers number `start` to `stop`."""
    chance = np.random.default_rng(start)
    turn = (await store.get("0" * 32, counted=False)).turn
    for first in range(start, stop, AT_ONCE):
        puts = []
        for number in range(first, min(stop, first + AT_ONCE)):
            key, stored, texts = made(number, chance)
            puts.append(store.put(key, stored, DAY_S, terms_of(secret, texts), turn))
        if not all(await asyncio.gather(*puts)):
            raise RuntimeError("Redis refused an answer")


async def operations(store: RedisStore, secret: bytes, base: int) -> dict[str, float]:
    """Milliseconds (p50) of storing an answer, and of dropping twenty by words or a tag of their own."""
    chance, number = np.random.default_rng(base), base
    spent: dict[str, list[float]] = {"put": [], "by_keyword": [], "by_tag": []}
    for how, selector in (("by_keyword", Selector(keyword=SOUGHT)), ("by_tag", Selector(tag="sought"))):
        for _ in range(TIMES):
            turn = (await store.get("0" * 32, counted=False)).turn
            for _ in range(FOUND):
                key, stored, texts = made(number, chance, tag="sought")
                words = terms_of(secret, [*texts, SOUGHT])
                began = time.perf_counter()
                kept = await store.put(key, stored, DAY_S, words, turn)
                spent["put"].append(time.perf_counter() - began)
                number += 1
                if not kept:
                    raise RuntimeError("Redis refused an answer")
            began = time.perf_counter()
            dropped = await store.invalidate(selector, dry_run=False)
            spent[how].append(time.perf_counter() - began)
            if dropped.count != FOUND:
                raise RuntimeError(f"{dropped.count} dropped by {how}")
    return {f"{name}_ms": round(statistics.median(values) * 1e3, 3) for name, values in spent.items()}


def vectors(base: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Vectors spread like real ones: those of real questions, each turned a little; 1,000 at a time."""
    chance = np.random.default_rng(count)
    for first in range(0, count, 1_000):
        some = base[np.arange(first, min(count, first + 1_000)) % len(base)]
        some = some + chance.standard_normal(some.shape, np.float32) * np.float32(0.02)
        yield some / np.linalg.norm(some, axis=1, keepdims=True)


def questions(
    redis: Redis, group: str, base: np.ndarray, start: int, stop: int, *, vector_sets: bool
) -> None:
    """Store questions number `start` to `stop` in a group."""
    until, number = round((time.time() + DAY_S) * 1e3), start
    encode = msgspec.msgpack.Encoder().encode
    for some in vectors(base, stop - start):
        last = redis.incrby(SEQUENCE, len(some))
        with redis.pipeline(transaction=False) as pipe:
            for at, vector in enumerate(some, start=1):
                key = f"{number:032x}"
                entry = Entry(
                    group, f"What is {number} plus one?", vector.astype(np.float16).tobytes(), until
                )
                pipe.hset(ENTRIES, key, encode(entry))
                pipe.zadd(ORDER, {key: last - len(some) + at})
                pipe.zadd(EXPIRY, {key: until})
                if vector_sets:
                    pipe.execute_command(
                        "VADD", _set(group), "FP32", vector.tobytes(), key, "SETATTR", f'{{"until":{until}}}'
                    )
                number += 1
            pipe.execute()
