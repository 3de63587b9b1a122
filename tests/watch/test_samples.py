"""Samples as rows, on both databases: what is stored, read back, drawn and pruned."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from services.history.console import run_sql
from services.history.engine import open_engine
from services.history.tables import samples as table
from services.logger.retention import BATCH, prune, prune_samples_step
from services.watch import samples
from services.watch.reading import Reading, between
from tests.support.samples import fill_samples

pytestmark = pytest.mark.process
START = 1_790_000_000.0


@pytest.fixture
def engine(history_url: str) -> Any:
    engine = open_engine(history_url)
    yield engine
    engine.dispose()


def put(engine: Engine, backend: str, *readings: Reading) -> None:
    """Store them as a worker does."""
    before = None
    with engine.begin() as connection:
        for reading in readings:
            samples.store(connection, backend, reading, between(before, reading))
            before = reading


def vllm(at: float, lookups: int, hits: int, **more: Any) -> Reading:
    return Reading(exporter="vllm", at=START + at, unit="tokens", lookups=lookups, hits=hits, **more)


def test_a_sample_comes_back_as_the_reading_to_go_on_from(engine: Engine):
    """Another worker makes the next interval of it."""
    put(
        engine, "a", vllm(0, 1, 1), vllm(30, 1_000, 900, started_at=START - 5, prompt_tokens=1_000, model="m")
    )
    put(engine, "b", vllm(60, 7, 7))
    with engine.connect() as connection:
        found = samples.latest(connection, "a", START)
        assert samples.latest(connection, "a", START + 31) is None
    assert found is not None
    assert (found.at, found.lookups, found.hits, found.started_at) == (START + 30, 1_000, 900, START - 5)
    assert between(found, vllm(60, 1_500, 1_300, started_at=START - 5)).hit_rate == 0.8


def test_the_recent_past_is_summed_and_unknown_is_none(engine: Engine):
    """Intervals without a hit counter take no part."""
    put(engine, "a", vllm(0, 100, 50), vllm(30, 300, 100), vllm(60, 700, 350))
    put(engine, "b", Reading(exporter="vllm-v0", at=START, hit_rate=0.4))
    with engine.connect() as connection:
        assert samples.recent(connection, "a", START + 1) == (600, 300, "tokens")
        assert samples.recent(connection, "a", START + 61) == (0, 0, None)
        assert samples.recent(connection, "b", START) == (0, 0, None)


def test_a_series_weighs_rates_and_shows_the_highest_load(engine: Engine):
    """A minute with 1,000 tokens counts ten times one with 100."""
    put(
        engine, "a", vllm(0, 0, 0), vllm(10, 1_000, 900, running=3.0, kv_usage=0.2),
        vllm(20, 1_100, 900, running=1.0, kv_usage=0.7), vllm(80, 1_200, 1_000),
    )  # fmt: skip
    put(engine, "b", Reading(exporter="vllm-v0", at=START + 70, hit_rate=0.4, waiting=2.0))
    since = datetime.fromtimestamp(START, UTC)
    with engine.connect() as connection:
        found = samples.series(connection, since, 60, since + timedelta(seconds=179))
    assert found["step_s"] == 60
    length = len(found["t"])
    at = {moment: place for place, moment in enumerate(found["t"])}
    one, other = found["backends"]
    assert (one["backend"], one["exporter"], other["exporter"]) == ("a", "vllm", "vllm-v0")
    first, second = at[int(START + 10) // 60 * 60], at[int(START + 80) // 60 * 60]
    assert one["hit_rate"][first] == pytest.approx(900 / 1_100)
    assert (one["running"][first], one["kv_usage"][first]) == (3, 0.7)
    assert (one["hit_rate"][second], one["running"][second]) == (1.0, None)
    assert other["hit_rate"][at[int(START + 70) // 60 * 60]] == 0.4
    assert all(
        len(values) == length
        for line in found["backends"]
        for values in line.values()
        if isinstance(values, list)
    )


def test_only_as_many_backends_as_can_be_told_apart(engine: Engine):
    """More lines would have no colours."""
    for name in "abcdef":
        put(engine, name, vllm(0, 1, 1))
    since = datetime.fromtimestamp(START - 60, UTC)
    with engine.connect() as connection:
        found = samples.series(connection, since, 60, since + timedelta(seconds=120))
    assert [line["backend"] for line in found["backends"]] == list("abcd")


def test_old_samples_are_pruned_in_small_steps(engine: Engine, history_url: str):
    """With the requests, by the same retention."""
    put(engine, "a", *(vllm(n, n, n) for n in range(50)))
    before = datetime.fromtimestamp(START + 30, UTC)
    assert prune_samples_step(engine, before, batch=20) == 20
    prune(history_url, before)
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(table)) == 20
    assert prune_samples_step(engine, before, BATCH) == 0


def test_the_console_reads_them(engine: Engine, history_url: str):
    """Also as the reader's role of PostgreSQL."""
    put(engine, "a", vllm(0, 1, 1))
    assert run_sql(history_url, "SELECT backend, lookups_total FROM backend_samples").rows == [["a", 1]]


def test_a_day_of_samples_is_a_day_of_chart(engine: Engine, history_url: str):
    """The restart in its middle is no gap and no cliff."""
    fill_samples(history_url, hours=24)
    now = datetime.now(UTC)
    with engine.connect() as connection:
        found = samples.series(connection, now - timedelta(hours=24), 900, now)
    (line,) = found["backends"]
    rates = [rate for rate in line["hit_rate"] if rate is not None]
    assert len(rates) > 20
    assert all(0.45 < rate < 0.95 for rate in rates)
