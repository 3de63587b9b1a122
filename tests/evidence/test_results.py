"""What a run's samples are summed up to; nothing that was not measured gets a figure."""

import pytest

from services.evidence.markdown import render
from services.evidence.results import summary
from services.evidence.runner import Sample
from services.evidence.scenarios import load

BOOK = load(names="CE")


def sample(name: str = "C", turn: int = 0, ttft: float | None = 100.0, **row) -> Sample:
    """A measured request; `row` may set any column, and role, number or pair."""
    plain = {
        "prompt_tokens": 1_000,
        "cached_tokens": 0,
        "predicted_reuse": 0.0,
        "hit": "none",
        "cached_source": "timings",
    }
    role, number, pair = row.pop("role", "scenario"), row.pop("number", 0), row.pop("pair", None)
    return Sample(name, role, number, turn, pair, ttft, {**plain, **row} if role != "pair_direct" else {})


def warm(**changes) -> Sample:
    return sample(
        **{"cached_tokens": 950, "predicted_reuse": 0.96, "hit": "prefix", "ttft": 100.0, **changes}
    )


def test_the_shape_is_the_contracts():
    """Every scenario has every key, also when nothing was measured."""
    found = summary(BOOK, [])
    keys = {
        "requests",
        "predicted_reuse",
        "measured_reuse",
        "hits",
        "reuse_by_turn",
        "ttft_ms",
        "speedup",
        "tokens_saved",
        "gap",
    }
    assert set(found) == {"scenarios", "all", "overhead_ms"}
    assert set(found["scenarios"]) == {"C", "E"}
    assert all(set(figures) == keys for figures in (*found["scenarios"].values(), found["all"]))
    assert set(found["all"]["ttft_ms"]) == {"cold_p50", "cold_p95", "warm_p50", "warm_p95"}
    assert found["all"]["measured_reuse"] is None
    assert found["all"]["speedup"] == {"median": None, "low": None, "high": None}


def test_reuse_is_weighted_and_shown_by_turn():
    """Predicted and measured stay apart."""
    found = summary(
        BOOK, [sample(turn=0), warm(turn=1), warm(turn=2, prompt_tokens=2_000, cached_tokens=1_900)]
    )
    figures = found["scenarios"]["C"]
    assert figures["measured_reuse"] == pytest.approx(2_850 / 4_000)
    assert figures["predicted_reuse"] == pytest.approx(0.96 * 3_000 / 4_000)
    assert figures["reuse_by_turn"] == [0.0, 0.95, 0.95]
    assert figures["tokens_saved"] == 2_850


def test_one_turn_scenarios_go_by_round():
    """E repeats a session."""
    samples = [sample("E", number=0), warm(name="E", number=1), warm(name="E", number=2)]
    assert summary(BOOK, samples)["scenarios"]["E"]["reuse_by_turn"] == [0.0, 0.95, 0.95]


def test_speed_up_compares_requests_of_one_length_in_one_scenario():
    """A cold twin against the warm ones as long as it; a shorter cold one is not compared."""
    samples = [
        sample(ttft=500.0, prompt_tokens=500),
        warm(turn=8, ttft=100.0),
        warm(turn=9, ttft=200.0, prompt_tokens=1_050),
        sample(role="cold_twin", ttft=1_000.0),
        sample("E", role="cold_twin", ttft=9_000.0),
    ]
    figures = summary(BOOK, samples)["scenarios"]["C"]
    assert figures["speedup"] == {"median": 7.5, "low": 5.0, "high": 10.0}
    assert figures["requests"] == 3
    assert figures["ttft_ms"]["cold_p95"] == 1_000.0


def test_what_a_server_does_not_report_is_not_measured():
    """Inferred tokens are no measurement; a cold twin is cold by what was sent."""
    silent = {"cached_tokens": 900, "cached_source": "inferred_ttft", "hit": "prefix"}
    samples = [sample(turn=1, **silent), sample(role="cold_twin", cached_tokens=None, ttft=800.0)]
    figures = summary(BOOK, samples)["scenarios"]["C"]
    assert (figures["measured_reuse"], figures["tokens_saved"]) == (None, None)
    assert figures["ttft_ms"] == {"cold_p50": 800.0, "cold_p95": 800.0, "warm_p50": None, "warm_p95": None}
    assert figures["reuse_by_turn"] == [None]


def test_gaps_are_told_with_their_cause():
    """Five points below the prediction want a reason."""
    samples = [
        warm(turn=1),
        warm(
            turn=2, cached_tokens=100, causes=[{"code": "evicted_by", "severity": "loss"}], cause="evicted_by"
        ),
        warm(turn=3, cached_tokens=800),
    ]
    gap = summary(BOOK, samples)["scenarios"]["C"]["gap"]
    assert gap == {"requests": 2, "causes": {"evicted_by": 1, "unexplained": 1}}


def test_overhead_is_the_difference_of_pairs():
    """Half a pair counts for nothing."""
    samples = [
        warm(role="pair_proxied", ttft=101.0, pair=1, overhead_ms=0.4),
        warm(role="pair_direct", ttft=100.0, pair=1),
        warm(role="pair_direct", ttft=90.0, pair=2),
        warm(role="pair_proxied", ttft=93.0, pair=2, overhead_ms=0.6),
        warm(role="pair_direct", ttft=1.0, pair=3),
    ]
    overhead = summary(BOOK, samples)["overhead_ms"]
    assert overhead["pairs"] == 2
    assert overhead["difference"] == {"median": 2.0, "low": 1.0, "high": 3.0}
    assert overhead["own"] == {"p50": 0.4, "p95": 0.6}


def test_the_page_says_what_was_not_measured():
    """In words, not as zero."""
    run = {"scale": 1.0, "length": 1.0, "seed": 1, "cold": True, "seconds": 1, "date": "2026-01-01"}
    engine = {"kind": None, "version": None, "model": "m", "cpus": 2, "platform": "x"}
    text = render({**summary(BOOK, []), "run": run, "engine": engine})
    assert "not reported" in text
    assert "not measured" in text
    assert "0.0%" not in text
