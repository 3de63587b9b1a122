"""Who lost the most time and why, the same on both databases."""

from datetime import UTC, datetime, timedelta

import pytest

from services.history.lost import losers, names
from tests.support.records import START_MS, make_record

pytestmark = pytest.mark.process

START = datetime.fromtimestamp(START_MS / 1e3, UTC)


def lost(agent, cause, seconds, **changes):
    """A request that lost so much."""
    return make_record(agent=agent, cause=cause, lost_ms=seconds * 1e3 if seconds else None, **changes)


def test_the_agent_that_lost_most_comes_first_with_its_worst_cause(history):
    """Sums by agent, its causes worst first, and the one request that lost most by the first."""
    worst = lost("b", "timestamp", 5)
    history.info["store"].save(
        [lost("a", "compaction", 6), lost("b", "timestamp", 3), worst, lost("b", "evicted_by", 1),
         lost("c", None, None)]
    )  # fmt: skip
    found = losers(history, START)

    assert [(agent["agent"], agent["lost_ms"], agent["requests"]) for agent in found] == [
        ("b", 9_000.0, 3),
        ("a", 6_000.0, 1),
    ]
    assert [(cause["cause"], cause["lost_ms"]) for cause in found[0]["causes"]] == [
        ("timestamp", 8_000.0),
        ("evicted_by", 1_000.0),
    ]
    assert found[0]["causes"][0]["worst_id"] == worst.id
    assert found[0]["causes"][0]["backend_kind"] == "ollama"


def test_what_was_lost_before_does_not_count(history):
    """And nothing lost is nobody."""
    history.info["store"].save([lost("a", "timestamp", 6)])

    assert losers(history, START + timedelta(seconds=1)) == []


def test_agents_and_causes_without_a_name(history):
    """They count like others."""
    one = lost(None, None, 4)
    history.info["store"].save([one])
    (found,) = losers(history, START)

    assert (found["agent"], found["causes"][0]["cause"]) == (None, None)
    assert found["causes"][0]["worst_id"] == one.id


def test_names_are_distinct_and_in_order(history):
    """Without the unknown ones; at most so many."""
    history.info["store"].save([make_record(agent=name) for name in ("b", "a", None, "c", "a")])

    assert names(history, "agent") == ["a", "b", "c"]
    assert names(history, "agent", most=2) == ["a", "b"]
    assert names(history, "model") == ["qwen3:8b"]
