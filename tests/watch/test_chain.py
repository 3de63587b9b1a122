"""From a model server's counters to the dashboard: worker, heartbeat, `/status`, metrics, alarm, chart."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.history.migrate import upgrade
from services.proxy.admin.counters import alarms, families, latest, status_of
from services.queue import Heartbeat, Sampled
from tests.support.engine_counters import MovingVllm
from tests.support.rows import wait_for


def sampled(**values: Any) -> Sampled:
    """A sample with enough looked up to judge."""
    known = {
        "backend": "b:1",
        "exporter": "vllm",
        "sampled_at": 10.0,
        "hit_rate": 0.4,
        "lookups": 5_000,
        "unit": "tokens",
    }
    return Sampled(**{**known, **values})


def beat(*found: Sampled) -> Heartbeat:
    return Heartbeat(name="w", pid=1, host="h", started=0, last_seen=0, state="idle", sampled=found)


def gauges(beats: list[Heartbeat], below: float | None) -> dict[tuple[str, str], float]:
    """Samples by metric and backend."""
    return {
        (one.name, one.labels["backend"]): one.value
        for family in families(beats, below)
        for one in family.samples
    }


def test_the_latest_sample_of_each_backend_counts():
    """A worker that lost its lease may still tell an old one."""
    found = latest([beat(sampled(hit_rate=0.1, sampled_at=5.0)), beat(sampled(), sampled(backend="c:1"))])
    assert (found["b:1"].hit_rate, found["c:1"].hit_rate) == (0.4, 0.4)


@pytest.mark.parametrize(
    ("values", "below", "alarm"),
    [
        ({}, None, None), ({}, 0.5, True), ({}, 0.3, False), ({"hit_rate": None}, 0.5, None),
        ({"lookups": 100}, 0.5, None), ({"lookups": 100, "unit": "lookups"}, 0.5, True),
        ({"lookups": 0, "unit": None}, 0.5, True), ({"hit_rate": 0.5}, 0.5, False),
    ],
)  # fmt: skip
def test_an_alarm_needs_a_threshold_and_enough_to_judge(
    values: dict[str, Any], below: float | None, alarm: bool | None
):
    """One cold request at night is no alarm."""
    assert alarms(sampled(**values), below) is alarm


def test_what_is_unknown_has_no_gauge():
    """Prometheus then says `absent`, not zero."""
    found = gauges([beat(sampled(kv_usage=0.5, running=2.0))], 0.5)
    assert found == {
        ("metalanchor_backend_hit_rate", "b:1"): 0.4, ("metalanchor_backend_hit_rate_alarm", "b:1"): 1.0,
        ("metalanchor_backend_kv_usage", "b:1"): 0.5, ("metalanchor_backend_running", "b:1"): 2.0,
    }  # fmt: skip
    assert gauges([], 0.5) == {}
    assert status_of(None, 0.5) is None


@contextmanager
def worker(folder: Path, **settings: str) -> Iterator[None]:
    """A worker process with these settings."""
    named = {f"METALANCHOR_{name.upper()}": value for name, value in settings.items()}
    with (folder / "worker.log").open("ab") as log:
        command = [sys.executable, "-m", "services.cli", "worker"]
        process = subprocess.Popen(command, env={**os.environ, **named}, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.process
def test_a_low_hit_rate_rings_from_the_server_to_the_metrics(
    vllm: MovingVllm, start_proxy, valkey, tmp_path: Path
):
    """Through real processes; Health says so in words, and the chart has its data."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    upgrade(url)
    proxy = start_proxy(backend_url=vllm.url, redis_url=valkey.url, database_url=url, alarm_hit_rate="0.6")
    settings = {
        "redis_url": valkey.url,
        "database_url": url,
        "data_dir": str(tmp_path),
        "backend_url": vllm.url,
    }
    vllm.serve(1_000, 1_000)
    with worker(tmp_path, **settings, sample_interval_s="0.2"):
        wait_for(lambda: proxy.json("/status")["backend"]["sampled"])
        vllm.serve(10_000, 2_000, usage=0.9)
        found = wait_for(lambda: _rung(proxy.json("/status")["backend"]["sampled"]))
        assert (found["hit_rate"], found["lookups"], found["unit"]) == (0.2, 10_000, "tokens")
        text = proxy.request("GET", "/metalanchor/metrics").body.decode()
        values = {
            one.name: one.value for family in text_string_to_metric_families(text) for one in family.samples
            if "backend_" in one.name
        }  # fmt: skip
        assert values["metalanchor_backend_hit_rate"] == 0.2
        assert values["metalanchor_backend_hit_rate_alarm"] == 1
        page = proxy.request("GET", "/metalanchor/health").body.decode()
        assert "finds 20 % of what it is asked for in its cache" in page
    series = proxy.json("/api/samples?span=1h")
    (line,) = series["backends"]
    assert (line["backend"], line["exporter"]) == (vllm.url.removeprefix("http://"), "vllm")
    assert [rate for rate in line["hit_rate"] if rate is not None][-1] == pytest.approx(0.2, abs=0.2)
    assert proxy.request("GET", "/metalanchor/api/samples?span=9y").status == 400


def _rung(found: dict[str, Any] | None) -> dict[str, Any] | None:
    return found if found and found["alarm"] else None
