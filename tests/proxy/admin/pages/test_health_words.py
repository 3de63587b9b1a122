"""What `/status` says, in sentences; pure."""

import copy

import pytest

from services.proxy.admin.pages.health import findings
from services.proxy.admin.pages.language import ENGLISH

WELL = {
    "backends": [{"name": "b", "url": "http://b:1", "kind": "ollama", "version": "0.33", "status": "up"}],
    "state": {"mode": "redis"},
    "redis": {"status": "up"},
    "queue": {"depth": 0, "oldest_s": None, "full": False},
    "worker": {"alive": True, "workers": [{"stored": 12}], "totals": {"stored": 12}},
    "database": {"status": "up", "kind": "sqlite", "error": None},
    "spool": {"records": 0, "bytes": 0},
    "dropped": {"records": 0, "bodies": 0},
}


def said(**changes):
    """Findings by name, after some parts were changed."""
    status = copy.deepcopy(WELL)
    for part, values in changes.items():
        status[part] = [{**status[part][0], **values}] if part == "backends" else {**status[part], **values}
    return {finding.name: finding for finding in findings(status, ENGLISH)}


def test_all_is_well():
    """Every part says so."""
    found = said()

    assert {finding.state for finding in found.values()} == {"ok"}
    assert found["Model server"].text == "ollama 0.33 answers at http://b:1."
    assert found["Worker"].text == "It is alive and stored 12 rows."
    assert all(finding.help is None for finding in found.values())


@pytest.mark.parametrize(
    ("changes", "name", "state", "text"),
    [
        ({"backends": {"status": "down"}}, "Model server", "down", "Nothing answers at http://b:1."),
        ({"backends": {"status": "degraded"}}, "Model server", "degraded", "busy, or loading a model"),
        ({"backends": {"status": "unknown"}}, "Model server", "degraded", "was not asked yet"),
        ({"state": {"mode": "local"}}, "Hit memory", "degraded", "in this process alone"),
        ({"redis": {"status": "down"}}, "Redis", "degraded", "requests pass all the same"),
        ({"queue": {"depth": 3, "oldest_s": 4.0, "full": True}}, "Queue", "degraded", "waits for 4.0 s"),
        ({"worker": {"alive": False}}, "Worker", "degraded", "No worker is alive"),
        ({"database": {"status": "down", "error": "Gone."}}, "History", "degraded", "Gone."),
        ({"spool": {"records": 4, "bytes": 6_300}}, "Spool", "degraded", "4 rows (6.3 KB) wait on disk"),
        ({"dropped": {"records": 2}}, "Lost rows", "degraded", "2 rows or bodies were lost"),
    ],
)
def test_what_is_amiss_is_said_where_it_is(changes, name, state, text):
    """And nowhere else."""
    found = said(**changes)

    assert text in found[name].text
    assert found[name].state == state
    assert {other for other, finding in found.items() if finding.state != "ok"} == {name}


def test_what_a_worker_lost_is_told():
    """It is past mending, so it does not make the worker look ill for ever."""
    found = said(worker={"totals": {"stored": 12, "dropped": 3}})["Worker"]

    assert "3 batches were lost" in found.text
    assert found.state == "ok"


@pytest.mark.parametrize(
    ("sampled", "state"),
    [
        (None, None),
        ({"hit_rate": None, "alarm": None}, None),
        ({"hit_rate": 0.82, "alarm": None}, "ok"),
        ({"hit_rate": 0.2, "alarm": True}, "degraded"),
    ],
)
def test_what_a_model_server_counts_is_said_where_it_is_known(sampled, state):
    """And that it is too little, where a threshold is set."""
    found = said(backends={"sampled": sampled}).get("Its cache")

    assert (found.state if found else None) == state
    if state:
        assert f"finds {'20' if state == 'degraded' else '82'} %" in found.text
    if state == "degraded":
        assert "METALANCHOR_ALARM_HIT_RATE" in found.help
