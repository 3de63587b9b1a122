"""Matching by meaning through a real server, with vector sets and without, and through its failures."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from services.semantic import matcher as module
from services.semantic.base import Match, Question
from services.semantic.embeddings import EmbeddingError
from services.semantic.matcher import SemanticMatcher
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

ASK, SAME, OTHER = "How do I boil an egg?", "how can I boil an egg", "How do I boil a potato?"


class Letters:
    """Vectors from the letters of a text: near for near texts, at no cost."""

    name, threshold = "letters", 0.5

    def __init__(self) -> None:
        self.fails: Exception | None = None
        self.slow_s = 0.0

    async def embed(self, text: str) -> Any:
        if self.fails is not None:
            raise self.fails
        await asyncio.sleep(self.slow_s)
        vector = np.zeros(32, np.float32)
        for letter in text.lower():
            vector[ord(letter) % 32] += 1
        return vector / np.linalg.norm(vector)

    async def close(self) -> None: ...


def question(text: str, group: str = "g1") -> Question:
    return Question(text=text, group=group)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a server is waited for
            await asyncio.sleep(0.02)


Make = Callable[..., Any]


@pytest.fixture
async def make(vector_server: Valkey) -> AsyncIterator[Make]:
    made: list[SemanticMatcher] = []

    async def one(**options: Any) -> SemanticMatcher:
        matcher = SemanticMatcher(vector_server.url, options.pop("embedder", None) or Letters(), **options)
        made.append(matcher)
        await matcher.start()
        await until(lambda: matcher.status()["up"])
        return matcher

    try:
        yield one
    finally:
        for matcher in made:
            await matcher.close()


async def added(matcher: SemanticMatcher, text: str, key: str, group: str = "g1", ttl_s: float = 60) -> None:
    await matcher.add(question(text, group), key, ttl_s)
    await matcher.settled()


async def test_a_paraphrase_finds_the_stored_question_and_another_question_does_not(make: Make):
    """The nearest neighbour is not enough: the judge has to agree."""
    matcher = await make()
    await added(matcher, ASK, "k1")
    match = await matcher.find(question(SAME))
    assert isinstance(match, Match)
    assert (match.key, match.rule) == ("k1", "equal")
    assert match.similarity is not None
    assert match.similarity > 0.8
    assert await matcher.find(question(OTHER)) is None


async def test_groups_never_meet(make: Make):
    """Another scope, model, system prompt or namespace is another group, and sees nothing."""
    matcher = await make()
    await added(matcher, ASK, "k1")
    assert await matcher.find(question(ASK, "g2")) is None
    await added(matcher, ASK, "k2", "g2")
    found = await matcher.find(question(ASK, "g2"))
    assert found is not None
    assert found.key == "k2"


async def test_explain_tells_of_each_neighbour_which_rule_refused_it(make: Make):
    """Nearest first, with similarity, stored words and ruling."""
    matcher = await make()
    await added(matcher, ASK, "k1")
    await added(matcher, "How do I not boil an egg?", "k2")
    rulings = {near.key: near.ruling for near in await matcher.explain(question(SAME))}
    assert rulings["k1"].same
    assert (rulings["k2"].same, rulings["k2"].rule) == (False, "negation")


async def test_what_another_process_adds_is_found_and_what_it_removes_is_not(make: Make):
    """Two processes share one set of questions."""
    first, second = await make(), await make()
    await added(first, ASK, "k1")
    async with asyncio.timeout(20):
        while await second.find(question(SAME)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await second.remove(["k1"])
    assert await second.find(question(SAME)) is None
    assert await first.find(question(SAME)) is None


async def test_a_process_that_starts_later_knows_what_was_there(make: Make):
    """More questions than are read in one step."""
    first = await make()
    for number in range(600):
        await first.add(question(f"What is {number} plus 1?"), f"k{number}", 60)
    await first.settled()
    second = await make()
    found = await second.find(question("what is 599 plus 1"))
    assert found is not None
    assert found.key == "k599"


async def test_a_question_goes_when_its_time_is_over(make: Make, vector_server: Valkey):
    """It is not found any more, and Redis holds nothing of it."""
    matcher = await make()
    await added(matcher, ASK, "k1", ttl_s=0.2)
    await asyncio.sleep(0.3)
    assert await matcher.find(question(ASK)) is None
    with vector_server.client() as client:
        await until(lambda: set(client.keys()) <= {b"metalanchor:{semantic}:sequence"})


async def test_the_first_go_when_there_are_too_many(make: Make):
    """The number of questions is bounded."""
    matcher = await make(most=20)
    for number in range(30):
        await added(matcher, f"What is {number} plus 1?", f"k{number}")
    assert await matcher.find(question("What is 3 plus 1?")) is None
    await until(lambda: matcher.status()["entries"] == 20)
    assert await matcher.find(question("What is 29 plus 1?")) is not None


@pytest.mark.parametrize("failure", ["error", "slow"])
async def test_an_embedder_that_fails_is_a_miss(make: Make, failure: str, monkeypatch: pytest.MonkeyPatch):
    """Counted by kind; nothing is raised."""
    embedder = Letters()
    matcher = await make(embedder=embedder)
    await added(matcher, ASK, "k1")
    embedder.fails = EmbeddingError("http_500") if failure == "error" else None
    embedder.slow_s = 30.0
    monkeypatch.setattr(module, "EMBED_S", 0.05)
    assert await matcher.find(question(SAME)) is None
    await added(matcher, OTHER, "k2")
    assert sum(matcher.status()["failures"].values()) == 2


async def test_a_redis_that_hangs_is_a_miss_and_is_used_again_afterwards(make: Make, vector_server: Valkey):
    """The first to find out waits a moment, the others not at all."""
    matcher = await make()
    await added(matcher, ASK, "k1")
    vector_server.freeze()
    assert await matcher.find(question(SAME)) is None
    assert matcher.status()["up"] is False
    assert await matcher.find(question(SAME)) is None
    await matcher.add(question(OTHER), "k2", 60)
    await matcher.remove(["k1"])
    vector_server.thaw()
    await until(lambda: matcher.status()["up"])
    assert await matcher.find(question(SAME)) is not None


async def test_a_redis_that_was_emptied_is_followed(make: Make, vector_server: Valkey):
    """What went is not found, what comes is."""
    matcher = await make()
    await added(matcher, ASK, "k1")
    with vector_server.client() as client:
        client.flushall()
    assert await matcher.find(question(SAME)) is None
    await added(matcher, ASK, "k2")
    await asyncio.sleep(0.6)
    found = await matcher.find(question(SAME))
    assert found is not None
    assert found.key == "k2"


async def test_the_store_is_the_one_the_server_allows(make: Make, vector_server: Valkey):
    """Vector sets on Redis 8, a matrix beside Valkey."""
    expected = "redis" if vector_server.folder.name == "redis8" else "matrix"
    assert (await make()).status()["vectors"] == expected
