"""Figures over time in equal steps, the same on both databases."""

from datetime import UTC, datetime, timedelta

import pytest

from services.history.engine import open_engine
from services.history.queries import Filters
from services.history.series import CAUSES, series
from services.logger.store import Store
from tests.support.records import START_MS, make_record

pytestmark = pytest.mark.process

STEP_S = 60
START = datetime.fromtimestamp(START_MS / 1e3 // STEP_S * STEP_S, UTC)
END = START + timedelta(seconds=3 * STEP_S - 1)


@pytest.fixture
def save(history_url):
    """Stores records made at minutes of the span; then asks for its series."""
    engine = open_engine(history_url)
    store = Store(engine)

    def ask(*records, **filters):
        store.save(list(records))
        with engine.connect() as connection:
            return series(connection, Filters(since=START, **filters), STEP_S, END)

    yield ask
    engine.dispose()


def at(minute, **changes):
    """A request in that minute of the span, its last millisecond."""
    received = round(START.timestamp() * 1e3) + (minute + 1) * STEP_S * 1_000 - 1
    return make_record(**{"received_at": received, "lost_ms": None, **changes})


def test_every_step_is_there_and_unknown_is_not_zero(save):
    """No request is zero requests; its reuse and times are unknown."""
    found = save(at(1))

    assert found["t"] == [int(START.timestamp()) + minute * STEP_S for minute in range(3)]
    assert found["requests"] == [0, 1, 0]
    assert found["measured_reuse"] == [None, pytest.approx(0.935), None]
    assert found["predicted_reuse"] == [None, pytest.approx(0.9375), None]
    assert found["ttft_ms"]["p50"] == [None, 55.25, None]
    assert found["lost_s"] == {}


def test_reuse_is_weighted_by_tokens_over_what_is_known(save):
    """A long prompt counts for more; one without figures for nothing."""
    found = save(
        at(0, prompt_tokens=900, cached_tokens=900, predicted_reuse=1.0),
        at(0, prompt_tokens=100, cached_tokens=0, predicted_reuse=0.5),
        at(0, prompt_tokens=5_000, cached_tokens=None),
    )

    assert found["measured_reuse"][0] == pytest.approx(0.9)
    assert found["predicted_reuse"][0] == pytest.approx(0.95)


def test_percentiles_are_nearest_ranks(save):
    """Of a hundred values, the 50th, 95th and 99th."""
    found = save(*(at(2, ttft_ms=float(value)) for value in range(1, 101)))

    assert [found["ttft_ms"][name][2] for name in ("p50", "p95", "p99")] == [50.0, 95.0, 99.0]


def test_losses_are_by_cause_and_the_small_ones_together(save):
    """The worst causes have lines of their own."""
    records = [at(0, cause=f"cause{n}", lost_ms=1_000.0 * n) for n in range(1, CAUSES + 3)]
    found = save(*records, at(2, cause=None, lost_ms=500.0))

    assert len(found["lost_s"]) == CAUSES + 1
    assert next(iter(found["lost_s"])) == f"cause{CAUSES + 2}"
    assert found["lost_s"]["other"] == [3.0, 0.0, 0.5]


def test_filters_and_the_span_hold(save):
    """Another agent's requests, and those before the span, are not in it."""
    found = save(at(0), at(0, agent="other"), at(-5), agent="hermes")

    assert found["requests"] == [1, 0, 0]
