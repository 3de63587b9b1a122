"""The worker samples configured backends on a schedule, and nothing of that disturbs its real work."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select, text

from services.history.engine import open_engine
from services.history.migrate import downgrade
from services.history.tables import samples as table
from services.queue import Sampled
from services.settings import BackendSetting, Settings
from services.watch.sampler import Sampler, targets_of
from tests.support.engine_counters import MovingVllm
from tests.support.modelserver import ModelServer
from tests.support.rows import wait_for

pytestmark = pytest.mark.process
StartSampler = Callable[..., tuple[Sampler, list[tuple[Sampled, ...]]]]


@pytest.fixture
def start_sampler(valkey: Any, history_url: str) -> Iterator[StartSampler]:
    """Starts samplers over this history; they end with the test."""
    started: list[Any] = []

    def start(url: str, interval: float = 0.1, **more: Any) -> tuple[Sampler, list[tuple[Sampled, ...]]]:
        settings = Settings(backend_url=url, database_url=history_url, sample_interval_s=interval, **more)
        told: list[tuple[Sampled, ...]] = []
        client = valkey.client()
        sampler = Sampler(settings, client, told.append)
        sampler.start()
        started.append((sampler, client))
        return sampler, told

    yield start
    for sampler, client in started:
        sampler.stop()
        if sampler._thread.ident is not None:
            sampler._thread.join(10)
        client.close()


def rows(url: str) -> list[dict[str, Any]]:
    """All samples, oldest first."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return [
                dict(row) for row in connection.execute(select(table).order_by(table.c.sampled_at)).mappings()
            ]
    finally:
        engine.dispose()


def test_counters_become_rows_and_a_word_for_the_proxy(
    vllm: MovingVllm, start_sampler: StartSampler, history_url: str
):
    """Intervals add up, also over a restart of the server; the latest rate is of the window."""
    _, told = start_sampler(vllm.url)
    wait_for(lambda: told)
    vllm.serve(10_000, 9_000, running=2, usage=0.5)
    wait_for(lambda: told[-1] and told[-1][0].lookups == 10_000)
    vllm.restart()
    vllm.serve(10_000, 1_000)
    vllm.started += 60
    wait_for(lambda: told[-1] and told[-1][0].lookups == 20_000)
    (sampled,) = told[-1]
    assert (sampled.backend, sampled.exporter, sampled.hit_rate) == (
        vllm.url.removeprefix("http://"),
        "vllm",
        0.5,
    )
    found = rows(history_url)
    assert sum(row["lookups"] or 0 for row in found) == 20_000
    assert [row["restarted"] for row in found].count(True) in {1, 2}
    assert {row["kv_usage"] for row in found} >= {0.5}


def test_of_two_workers_one_samples(vllm: MovingVllm, start_sampler: StartSampler, history_url: str):
    """Who holds the lease; when that one ends the other goes on from its rows at once."""
    first, _ = start_sampler(vllm.url)
    wait_for(lambda: len(rows(history_url)) >= 2)
    _, told = start_sampler(vllm.url)
    vllm.serve(1_000, 500)
    wait_for(lambda: sum(row["lookups"] or 0 for row in rows(history_url)) == 1_000)
    assert not any(told)
    first.stop()
    vllm.serve(1_000, 500)
    wait_for(lambda: told and told[-1] and told[-1][0].lookups == 2_000)


def test_zero_is_off(vllm: MovingVllm, start_sampler: StartSampler):
    """No thread, no request."""
    sampler, _ = start_sampler(vllm.url, interval=0)
    assert sampler._thread.ident is None
    assert vllm.asked == 0


def test_backends_without_counters_are_not_asked():
    """Those that have none, and clouds."""
    kinds = ("auto", "ollama", "llama-server", "ds4", "lmstudio", "mlx_lm", "vllm", "openai", "anthropic")
    rows = tuple(BackendSetting(name=kind, url="http://x:1", kind=kind) for kind in kinds)
    clouds = ("https://api.openai.com", "https://api.anthropic.com/base", "https://eu.api.openai.com")
    rows += tuple(BackendSetting(name=url, url=url) for url in clouds)
    assert [target.name for target in targets_of(Settings(backend=rows))] == [
        "auto",
        "llama-server",
        "vllm",
        "openai",
    ]
    assert targets_of(Settings()) == []


def test_a_server_without_counters_is_asked_once_and_told_once(
    start_sampler: StartSampler, history_url: str, caplog: pytest.LogCaptureFixture
):
    """An Ollama behind `auto`, say: no row, no line a minute."""
    caplog.set_level("INFO")
    server = ModelServer({})
    try:
        start_sampler(server.url)
        wait_for(lambda: "is not sampled" in caplog.text)
        time.sleep(0.5)
        assert server.asked.count("/metrics") == 1
    finally:
        server.stop()
    assert caplog.text.count("is not sampled") == 1
    assert rows(history_url) == []


def test_a_server_that_is_away_is_asked_again(
    vllm: MovingVllm, start_sampler: StartSampler, history_url: str
):
    """What is not known is no row; the proxy is told nothing of it meanwhile."""
    _, told = start_sampler(vllm.url)
    wait_for(lambda: told and told[-1])
    vllm.stop()
    wait_for(lambda: told[-1] == ())
    vllm.start()
    wait_for(lambda: told[-1])
    assert len(rows(history_url)) >= 2


def test_a_history_without_its_table_costs_the_samples_alone(
    vllm: MovingVllm, start_sampler: StartSampler, history_url: str, caplog: pytest.LogCaptureFixture
):
    """An older schema: said once, and sampled again once it is there."""
    downgrade(history_url, "0003")
    start_sampler(vllm.url)
    wait_for(lambda: "a sample was not stored" in caplog.text)
    time.sleep(0.5)
    assert caplog.text.count("a sample was not stored") == 1
    from services.history.migrate import upgrade

    upgrade(history_url)
    wait_for(lambda: rows(history_url))


def test_a_locked_database_holds_up_the_sampler_alone(
    vllm: MovingVllm, start_sampler: StartSampler, tmp_path: Any
):
    """It waits in its own thread, and stops with the worker all the same."""
    from services.history.migrate import upgrade

    url = f"sqlite:///{tmp_path / 'locked.sqlite'}"
    upgrade(url)
    engine = open_engine(url)
    with engine.connect() as connection:
        connection.execute(text("BEGIN IMMEDIATE"))
        settings = Settings(backend_url=vllm.url, database_url=url, sample_interval_s=0.1)

        class Lease:
            """A Redis that always gives the lease."""

            def set(self, *_: Any, **__: Any) -> bool:
                return True

            def get(self, *_: Any) -> None:
                return None

        told = threading.Event()
        sampler = Sampler(settings, Lease(), lambda _: told.set())  # type: ignore[arg-type]
        sampler.start()
        wait_for(lambda: vllm.asked)
        began = time.monotonic()
        sampler.stop()
        assert time.monotonic() - began < 2  # the worker has three seconds in all
        connection.rollback()
    sampler._thread.join(20)
    assert not sampler._thread.is_alive()
    engine.dispose()
