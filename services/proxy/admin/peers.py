"""What the other proxy processes of the installation do, for the live view: told over Redis pub/sub.

It owns two tasks and what they last heard. Nothing of it is on the way of a request: like any follower, the
telling task looks at this process's flows and rows a few times a second, and tells what is new as one
message of bounded size: figures, hashes and names, never text. Redis keeps none of it; who is not there to
hear misses it, and finds the rows in the history. While no dashboard is open anywhere, a word a second.

Without Redis, or while it is away, a dashboard shows the process that serves it and says so (`shared`).
"""

import asyncio
import contextlib
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from services.proxy.admin.parts import Parts
from services.proxy.admin.recent import brief, plain
from services.proxy.admin.underway import Underway, describe
from services.proxy.key import fingerprint
from services.queue import NAMESPACE
from services.redis_client import end, open_async_redis

# As often as a follower looks. While nobody listens, a word a second is enough to learn that somebody does.
LOOK_S = 0.25
IDLE_S = 1.0
# Flows and rows a message: as many as a page shows, some 40 KB.
MOST = 50
# Rows heard that no follower has taken yet; the oldest go first.
KEPT = 512
# A process that says nothing for so long is gone, or has nothing under way.
SILENT_S = 3.0
SOCKET_S = 2.0
PAUSE_S = (0.5, 3.0)


class Word(msgspec.Struct, kw_only=True):
    """One message of a process: its flows as they stand, and the rows that ended since the last one."""

    process: str
    total: int
    underway: list[Underway]
    ended: list[dict[str, Any]] = []
    missed: int = 0


class Heard(msgspec.Struct):
    """What a process said last, and when (monotonic seconds)."""

    word: Word
    at: float


class Others(NamedTuple):
    """Rows of the others, in the order they were heard, and how many came too fast to be kept."""

    rows: list[dict[str, Any]]
    missed: int


class Peers:
    """The other processes, as far as they tell; `watched` counts the followers here."""

    def __init__(self, ctx: Parts) -> None:
        self._ctx = ctx
        self._url = ctx.settings.redis_url
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._channel = f"{NAMESPACE}live:{fingerprint(ctx.key)}"
        self._heard: dict[str, Heard] = {}
        self._rows: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._tasks: list[asyncio.Task[None]] = []
        self._open = asyncio.Event()
        self._watched = 0
        self.mark = 0
        self.shared = False

    def start(self) -> None:
        """Begin to tell, and to hear once somebody follows here."""
        if self._url is not None:
            self._tasks = [asyncio.create_task(self._trying(work)) for work in (self._tell, self._hear)]

    async def close(self) -> None:
        """End both tasks and their connections."""
        await end(self._tasks)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Hear the others as long as somebody follows."""
        self._watched += 1
        self._open.set()
        try:
            yield
        finally:
            self._watched -= 1
            if not self._watched:
                self._open.clear()

    def underway(self) -> tuple[list[Underway], int]:
        """The flows of the others, and how many they are in all."""
        now = time.monotonic()
        for name in [name for name, heard in self._heard.items() if now - heard.at > SILENT_S]:
            del self._heard[name]
        words = [heard.word for heard in self._heard.values()]
        return [flow for word in words for flow in word.underway], sum(word.total for word in words)

    def since(self, mark: int, most: int) -> Others:
        """At most `most` of the rows that were heard since a mark, the newest ones."""
        new = self.mark - mark
        kept = min(new, most, len(self._rows))
        rows = list(self._rows)[len(self._rows) - kept :]
        return Others(rows, new - len(rows))

    async def _tell(self, redis: Redis) -> None:
        mark, listeners, said, said_at = self._ctx.recent.mark, 0, b"", 0.0
        while True:
            word, seen = self._word(mark)
            still = _encode(msgspec.structs.replace(word, underway=[_still(flow) for flow in word.underway]))
            now = time.monotonic()
            if not listeners or still != said or now - said_at >= IDLE_S:
                listeners = await redis.publish(self._channel, _encode(word))
                mark, said, said_at = seen, still, now
            await asyncio.sleep(LOOK_S if listeners else IDLE_S)

    def _word(self, mark: int) -> tuple[Word, int]:
        ctx = self._ctx
        news = ctx.recent.since(mark, MOST)
        flows = describe((one.flow for one in ctx.live), ctx.speeds, everything=True)[:MOST]
        ended = [brief(plain(record)) for record in news.records]
        total = len(ctx.live)
        return Word(
            process=self._name, total=total, underway=flows, ended=ended, missed=news.missed
        ), news.mark

    async def _hear(self, redis: Redis) -> None:
        await self._open.wait()
        async with redis.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(self._channel)
            self.shared = True
            while self._watched:
                message = await channel.get_message(timeout=IDLE_S)
                if message is not None:
                    self._take(message["data"])
        self._heard.clear()

    def _take(self, data: bytes) -> None:
        try:
            word = _decode(data)
        except msgspec.DecodeError:  # another version's
            return
        if word.process == self._name:
            return
        self._heard[word.process] = Heard(word, time.monotonic())
        self._rows.extend(word.ended)
        self.mark += len(word.ended) + word.missed

    async def _trying(self, work: Callable[[Redis], Coroutine[Any, Any, None]]) -> None:
        assert self._url is not None
        pause = PAUSE_S[0]
        while True:
            began = time.monotonic()
            redis = open_async_redis(
                self._url, socket_timeout=SOCKET_S, socket_connect_timeout=SOCKET_S,
                retry=Retry(NoBackoff(), 0), client_name="metalanchor-live",
            )  # fmt: skip
            try:
                async with redis:
                    await work(redis)
                pause = 0.0
            except (RedisError, OSError):
                self.shared = False
                lasted = time.monotonic() - began > PAUSE_S[1]
                pause = PAUSE_S[0] if lasted else min(max(2 * pause, PAUSE_S[0]), PAUSE_S[1])
            await asyncio.sleep(pause)


def _still(flow: Underway) -> Underway:
    return msgspec.structs.replace(flow, elapsed_ms=0, progress=None)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Word).decode
