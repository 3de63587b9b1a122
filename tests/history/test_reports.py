"""Reports: sums, shares and percentiles that the database computes, equal on both."""

import pytest

from services.history import reports
from services.history.queries import Filters
from tests.support.records import START_MS, make_record

pytestmark = pytest.mark.process

EVERYTHING = Filters()


def save(history, *records):
    history.info["store"].save(records)


def turn(**changes):
    """A measured turn without a cause or a loss."""
    plain = {"prompt_tokens": 100, "cached_tokens": 90, "predicted_reuse": 0.9, "cause": None, "causes": None}
    return make_record(**{**plain, **changes})


def test_an_empty_history_has_no_figures(history):
    """Nothing measured is no row, not a row of zeros."""
    assert reports.figures(history, EVERYTHING) == []
    assert reports.losses(history, EVERYTHING) == []
    assert reports.hit_rate(history, EVERYTHING) == []


def test_reuse_is_weighted_by_tokens_and_ignores_what_is_unknown(history):
    """A long prompt counts for more; one whose cached tokens nobody reported counts for nothing."""
    save(
        history,
        turn(prompt_tokens=900, cached_tokens=900, predicted_reuse=1.0),
        turn(prompt_tokens=100, cached_tokens=0, predicted_reuse=0.5),
        turn(prompt_tokens=5_000, cached_tokens=None, predicted_reuse=0.0),
    )
    (row,) = reports.figures(history, EVERYTHING)
    assert (row["requests"], row["measured"], row["prompt_tokens"], row["cached_tokens"]) == (
        3,
        2,
        1_000,
        900,
    )
    assert row["measured_reuse"] == pytest.approx(0.9)
    assert row["predicted_reuse"] == pytest.approx(0.95)


def test_percentiles_are_nearest_rank_by_temperature(history):
    """Cold and warm first tokens are never mixed."""
    save(
        history,
        *(turn(ttft_ms=float(n), cached_tokens=90) for n in range(1, 101)),
        *(turn(ttft_ms=float(n) * 1_000, cached_tokens=10) for n in range(1, 5)),
        turn(ttft_ms=7.0, cached_tokens=None),
        turn(ttft_ms=None),
    )
    (row,) = reports.figures(history, EVERYTHING)
    assert row["ttft_ms"] == {
        "warm": {"count": 100, "p50": 50.0, "p95": 95.0, "p99": 99.0},
        "cold": {"count": 4, "p50": 2_000.0, "p95": 4_000.0, "p99": 4_000.0},
        "unmeasured": {"count": 1, "p50": 7.0, "p95": 7.0, "p99": 7.0},
    }


@pytest.mark.parametrize("by", ["agent", "session", "model", "cause", "hit"])
def test_groups_are_the_values_of_a_column(history, by):
    """Most requests first; rows without a value are a group of their own."""
    save(history, turn(**{by: "a"}), turn(**{by: "b"}), turn(**{by: "b"}), turn(**{by: None}))
    rows = reports.figures(history, EVERYTHING, by)
    assert [(row["group"], row["requests"]) for row in rows] == [("b", 2), (None, 1), ("a", 1)]


def test_hours_are_hours_of_utc(history):
    """The same label on both databases, whatever zone the session has."""
    save(history, turn(), turn(received_at=START_MS + 3_600_000), turn(received_at=START_MS + 3_600_001))
    rows = reports.hit_rate(history, EVERYTHING)
    assert [(row["hour"], row["requests"]) for row in rows] == [
        ("2025-11-29 07:00:00Z", 1),
        ("2025-11-29 08:00:00Z", 2),
    ]


def test_hit_rate_leaves_out_what_was_not_analysed(history):
    """A probe without a prompt is neither a hit nor a miss."""
    save(
        history, turn(hit="exact"), turn(hit="none"), turn(hit="tools_only"), turn(hit=None), turn(hit="none")
    )
    (row,) = reports.hit_rate(history, EVERYTHING)
    assert row["hit_rate"] == 0.5
    assert reports.figures(history, EVERYTHING)[0]["hits"] == {
        "exact": 1, "none": 2, "tools_only": 1, "unknown": 1,
    }  # fmt: skip


def test_an_unknown_group_is_an_error(history):
    """It never reaches the statement."""
    with pytest.raises(ValueError, match="agent, session"):
        reports.figures(history, EVERYTHING, "id; DROP TABLE requests")


def test_losses_name_the_cause_and_what_it_cost(history):
    """Worst first; requests without a cause lost nothing."""
    save(
        history,
        turn(cause="timestamp", lost_tokens=100, lost_ms=10.0, prefill_ms=20.0),
        turn(cause="timestamp", lost_tokens=200, lost_ms=30.0, prefill_ms=50.0),
        turn(cause="evicted_by", lost_tokens=5_000, lost_ms=900.5, prefill_ms=None),
        turn(),
    )
    assert reports.losses(history, EVERYTHING) == [
        {"cause": "evicted_by", "requests": 1, "lost_tokens": 5_000, "lost_ms": 900.5, "prefill_ms": None},
        {"cause": "timestamp", "requests": 2, "lost_tokens": 300, "lost_ms": 40.0, "prefill_ms": 70.0},
    ]


def test_longest_losses_name_their_requests(history):
    """What a user opens next."""
    small, large = turn(lost_ms=5.0, cause="timestamp"), turn(lost_ms=500.0, cause="compaction")
    save(history, small, turn(lost_ms=0.0), turn(), large)
    rows = reports.longest_losses(history, EVERYTHING)
    assert [(row["id"], row["lost_ms"]) for row in rows] == [(large.id, 500.0), (small.id, 5.0)]


def test_distributions_cover_every_class(history):
    """Empty classes are there, so that charts have their axis."""
    sessions = [f"s{n}" for n in range(2)]
    save(history, *(turn(session=name, request_bytes=2_000) for name in sessions for _ in range(4)))
    save(history, turn(session="single", request_bytes=10 << 20))
    assert reports.session_lengths(history, EVERYTHING) == [
        {"up_to": 1, "count": 1}, {"up_to": 3, "count": 0}, {"up_to": 10, "count": 2},
        {"up_to": 30, "count": 0}, {"up_to": 100, "count": 0}, {"up_to": 300, "count": 0},
        {"up_to": None, "count": 0},
    ]  # fmt: skip
    sizes = reports.request_sizes(history, EVERYTHING)
    assert [row["count"] for row in sizes] == [0, 8, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("name", ["system_hash", "tools_hash"])
def test_shared_prompts_say_who_shares_them(history, name):
    """What agents of one machine send again and again."""
    save(
        history,
        turn(**{name: "x"}, agent="hermes", session="1"),
        turn(**{name: "x"}, agent="codex", session="2"),
        turn(**{name: "x"}, agent="codex", session="2"),
        turn(**{name: "alone"}),
        turn(**{name: None}),
    )
    (row,) = reports.shared(history, EVERYTHING, name)
    assert (row["hash"], row["requests"], row["sessions"], row["agents"]) == ("x", 3, 2, 2)


def test_filters_narrow_a_report(history):
    """The same filters as lists have."""
    save(history, turn(kind="generation"), turn(kind="management"))
    (row,) = reports.figures(history, Filters(kind="generation"))
    assert row["requests"] == 1
