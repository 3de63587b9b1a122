"""Prefill rates are learnt from cold samples only, and time is turned into cached tokens with due doubt."""

import pytest

from services.proxy.settling.speed import Speeds

KEY = ("backend:1", "m")


def taught(*samples: tuple[int, float]) -> Speeds:
    speeds = Speeds()
    for tokens, milliseconds in samples:
        speeds.learn(KEY, tokens, milliseconds)
    return speeds


def test_nothing_is_inferred_before_there_are_samples() -> None:
    assert Speeds().infer(KEY, 10_000, 500) is None
    assert Speeds().cost_ms(KEY, 10_000) is None


def test_small_samples_do_not_convince_until_there_are_three() -> None:
    speeds = taught((400, 400), (500, 500))
    assert speeds.infer(KEY, 500, 20) is None
    speeds.learn(KEY, 450, 450)
    assert speeds.infer(KEY, 500, 20) is not None


def test_samples_that_are_mostly_overhead_are_ignored() -> None:
    assert taught((30, 5.0), (30, 5.0), (100, 300.0)).rate(KEY) is None


def test_one_large_sample_tells_warm_from_cold_but_nothing_between() -> None:
    speeds = taught((17_433, 57_700))
    warm, cold, between = (speeds.infer(KEY, 17_433, ms) for ms in (2_000, 57_000, 30_000))
    assert warm is not None
    assert warm.cached_tokens > 16_000
    assert cold is not None
    assert cold.cached_tokens == 0
    assert between is None


def test_with_more_samples_figures_between_are_given_with_less_confidence() -> None:
    speeds = taught(*[(10_000, 10_000.0)] * 5)
    half, warm = speeds.infer(KEY, 10_000, 5_000), speeds.infer(KEY, 10_000, 500)
    assert half is not None
    assert warm is not None
    assert half.cached_tokens == pytest.approx(5_000, rel=0.01)
    assert half.confidence < warm.confidence


def test_a_few_odd_samples_do_not_move_the_rate() -> None:
    rate = taught(*[(10_000, 10_000.0)] * 7, (10_000, 90_000.0), (10_000, 500.0)).rate(KEY)
    assert rate is not None
    assert rate.tokens_per_ms == pytest.approx(1.0)


def test_confidence_falls_with_spread() -> None:
    steady = taught(*[(10_000, 10_000.0)] * 4).infer(KEY, 10_000, 500)
    shaky = taught((10_000, 5_000.0), (10_000, 10_000.0), (10_000, 20_000.0), (10_000, 30_000.0)).infer(
        KEY, 10_000, 500
    )
    assert steady is not None
    assert shaky is not None
    assert shaky.confidence < steady.confidence


def test_models_and_backends_are_apart() -> None:
    assert taught((10_000, 10_000.0)).rate(("backend:2", "m")) is None


def test_what_lost_tokens_cost() -> None:
    assert taught(*[(10_000, 20_000.0)] * 3).cost_ms(KEY, 500) == pytest.approx(1_000)


def test_the_number_of_models_is_bounded() -> None:
    speeds = Speeds()
    for number in range(400):
        speeds.learn(("b", f"m{number}"), 10_000, 10_000)
    assert speeds.rate(("b", "m0")) is None
    assert speeds.rate(("b", "m399")) is not None
