"""Whether a few questions make nearly all hits, and what a fixed template would save, on both databases."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection

from services.history.engine import open_engine
from services.history.homogeneity import LEAST, homogeneity
from services.history.queries import Filters
from services.logger.store import Store
from services.record import Record
from tests.support.records import START_MS, make_record

pytestmark = pytest.mark.process

Tell = Callable[[list[Record]], dict[str, Any] | None]


@pytest.fixture
def told(history_url: str) -> Iterator[Tell]:
    """What is said of these records, a second apart."""
    engine = open_engine(history_url)
    opened: list[Connection] = []

    def tell(records: list[Record]) -> dict[str, Any] | None:
        for place, record in enumerate(records):
            record.received_at = START_MS + place * 1_000
        Store(engine).save(records)
        opened.append(engine.connect())
        return homogeneity(opened[-1], Filters())

    yield tell
    for connection in opened:
        connection.close()
    engine.dispose()


def asked(question: str) -> Record:
    """A question that the backend answered."""
    return make_record(response_cache="miss", request_hash=question * 40, prompt_tokens=90,
                       completion_tokens=10, total_ms=2_000.0)  # fmt: skip


def given(to: Record, verdict: str = "hit", **more: Any) -> Record:
    """Its answer, given again."""
    values = {"request_hash": to.request_hash, "saved_tokens": 100, "saved_ms": 2_000.0, **more}
    return make_record(response_cache=verdict, status="response_cache", answered_by=to.id, **values)


def test_the_few_questions_that_make_the_hits_are_named(told: Tell) -> None:
    """One asked anew after its answer had ended is still one question; the rest is not named."""
    first, anew, second, third = asked("a"), asked("a"), asked("b"), asked("c")
    hits = [given(first) for _ in range(40)] + [given(anew, "semantic", request_hash="f" * 40)] * 1
    hits += [given(second) for _ in range(20)] + [given(third) for _ in range(5)]
    shuffled = [hits[place * 17 % len(hits)] for place in range(len(hits))]
    found = told(
        [first, *shuffled[:18], second, *shuffled[18:34], anew, *shuffled[34:50], third, *shuffled[50:]]
    )
    assert found is not None
    assert (found["looked"], found["hits"], found["stays"]) == (70, 66, True)
    assert [(item["hash"], item["hits"], item["calls"]) for item in found["few"]] == [
        ("a" * 40, 41, 2), ("b" * 40, 20, 1),
    ]  # fmt: skip
    assert found["few"][0]["saved_tokens"] == 4_100
    assert found["few"][0]["request"] in {first.id, anew.id}
    assert found["few"][0]["question"] is None
    assert found["template"] == {"calls": 3, "call_tokens": 300, "call_ms": 6_000.0}


def test_a_rate_that_does_not_stay_high_names_nothing(told: Tell) -> None:
    """A stretch of misses is enough, however high the rate is in all."""
    first = asked("a")
    misses = [asked("b") for _ in range(5)]
    found = told([first, *(given(first) for _ in range(100)), *misses])
    assert found is not None
    assert found["hit_rate"] > 0.9
    assert (found["stays"], found["few"]) == (False, [])


def test_few_looks_prove_nothing(told: Tell) -> None:
    """Nor does a history without the cache say anything."""
    first = asked("a")
    found = told([first, *(given(first) for _ in range(LEAST - 2))])
    assert found is not None
    assert not found["stays"]


def test_without_the_cache_there_is_nothing_to_say(told: Tell) -> None:
    """Requests that were not looked up do not count."""
    assert told([make_record(response_cache=None), make_record(response_cache="bypass:no-cache")]) is None
