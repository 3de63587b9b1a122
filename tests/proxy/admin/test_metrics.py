"""Prometheus metrics: what a row counts for, that label sets are closed, and what a real scrape holds."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.proxy.admin.metrics import CAUSES, Metrics, state_families
from services.proxy.state.local import LocalState
from services.proxy.state.redis import RedisState
from services.record import STATUSES
from tests.support.records import make_record


def samples(metrics):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def value(metrics, name, **labels):
    return samples(metrics)[(f"metalanchor_{name}", *sorted(labels.items()))]


def test_a_row_counts_once_by_kind_status_and_hit():
    """The request counter has exactly these labels."""
    metrics = Metrics()
    metrics.observe(make_record())
    metrics.observe(make_record())

    assert value(metrics, "requests_total", kind="generation", status="completed", hit="prefix") == 2


def test_figures_in_base_units():
    """Seconds, tokens and shares; lost time and tokens go to the first cause."""
    metrics = Metrics()
    metrics.observe(
        make_record(ttft_ms=2_500.0, overhead_ms=0.3, cause="timestamp", lost_tokens=900, lost_ms=1_500.0)
    )

    assert value(metrics, "ttft_seconds_sum", hit="prefix") == 2.5
    assert value(metrics, "overhead_seconds_sum") == pytest.approx(0.0003)
    assert value(metrics, "lost_tokens_total", cause="timestamp") == 900
    assert value(metrics, "lost_seconds_total", cause="timestamp") == 1.5
    assert value(metrics, "tokens_total", what="cached") == 1_870
    assert value(metrics, "tokens_total", what="prompt") == 2_000
    assert value(metrics, "reuse_ratio_sum", side="predicted") == 0.9375
    assert value(metrics, "reuse_ratio_sum", side="measured") == 0.935


def test_unknown_is_not_counted_as_zero():
    """A request without reported counters leaves the measured side alone."""
    metrics = Metrics()
    metrics.observe(make_record(cached_tokens=None, prompt_tokens=None, ttft_ms=None, predicted_reuse=None))
    found = samples(metrics)

    assert not [key for key in found if key[0].startswith("metalanchor_reuse_ratio_")]
    assert not [key for key in found if key[0].startswith("metalanchor_ttft_seconds_")]


def test_labels_come_from_closed_sets():
    """Whatever values rows carry, the number of series stays the same."""
    metrics = Metrics()
    metrics.observe(make_record(kind="x", status="y", hit="z", cause="w"))
    before = len(samples(metrics))
    for number in range(500):
        stranger = f"v{number}"
        metrics.observe(
            make_record(kind=stranger, status=stranger, hit=stranger, cause=stranger, model=stranger)
        )

    assert len(samples(metrics)) == before
    assert value(metrics, "requests_total", kind="other", status="other", hit="other") == 501


def test_every_status_and_cause_of_the_contract_has_its_own_series():
    """None of them falls into `other`."""
    metrics = Metrics()
    for status in STATUSES:
        metrics.observe(make_record(status=status))
    for cause in CAUSES:
        metrics.observe(make_record(cause=cause))

    labels = {dict(key[1:]).get("status") for key in samples(metrics)} - {None}
    causes = {dict(key[1:]).get("cause") for key in samples(metrics)} - {None}
    assert labels == set(STATUSES)
    assert causes == CAUSES | {"timestamp"}


async def test_the_breaker_is_open_while_redis_is_left_alone():
    """Without a Redis there is none that could be left alone."""
    local = LocalState(1 << 20)
    shared = RedisState("redis://127.0.0.1:1", b"k" * 32, local)

    def shown(state):
        return {family.name: family.samples[0].value for family in state_families(state.status())}

    assert shown(local)["metalanchor_state_breaker_open"] == 0
    assert shown(shared)["metalanchor_state_breaker_open"] == 1
    shared.breaker.succeed()
    found = shown(shared)
    assert (found["metalanchor_state_breaker_open"], found["metalanchor_state_shared"]) == (0, 1)


@pytest.mark.process
def test_a_scrape_of_the_running_proxy(start_proxy):
    """Requests, queue, spool, drops and state are all in one valid scrape."""
    proxy = start_proxy()
    assert proxy.chat({"model": "m", "messages": [{"role": "user", "content": "CANARY-123"}]}).status == 200
    answer = proxy.request("GET", "/metalanchor/metrics")
    text = answer.body.decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}

    assert answer.header("content-type").startswith("text/plain; version=0.0.4")
    assert "CANARY" not in text
    for name in (
        "requests", "ttft_seconds", "overhead_seconds", "reuse_ratio", "causes", "lost_seconds", "queue_jobs",
        "queue_oldest_seconds", "spool_records", "spool_bytes", "dropped", "redis_up", "state_shared",
        "state_breaker_open", "open_requests",
    ):  # fmt: skip
        assert f"metalanchor_{name}" in found
    assert {s.labels["what"] for s in found["metalanchor_dropped"].samples} == {"records", "bodies"}
    assert sum(s.value for s in found["metalanchor_requests"].samples if s.name.endswith("_total")) == 1
