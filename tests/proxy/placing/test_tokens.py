"""Token estimates: stated cold constants, then what the backend's own counts teach."""

import random

import pytest

from services.proxy.placing.tokens import MEDIA_TOKENS, Estimator, model_key
from services.proxy.prompt import Chunk, Prompt

MODEL = model_key("engine:1", "m")


def prompt(size, wide=0, *, media=False):
    chunk = Chunk("message", 0, "user", b"", size, wide, int(media), b"")
    return Prompt(dialect="d", kind="generation", model="m", stream=False, chunks=[chunk], has_media=media)


def test_a_model_never_heard_of_is_estimated_at_four_ascii_bytes_or_one_wide_character_a_token():
    estimator = Estimator()
    assert estimator.estimate(MODEL, 4000, 0) == 1000
    assert estimator.estimate(MODEL, 3000, 3000) == 1000
    assert estimator.estimate(MODEL, 0, 0, media=2) == 2 * MEDIA_TOKENS
    assert estimator.error(MODEL) is None


def test_one_count_brings_the_estimate_close():
    estimator = Estimator()
    estimator.learn(MODEL, prompt(40_000), 8_000)
    assert estimator.estimate(MODEL, 40_000, 0) == pytest.approx(8_000, rel=0.03)


def test_ascii_and_wide_bytes_are_learnt_apart():
    estimator, noise = Estimator(), random.Random(7)
    for _ in range(60):
        narrow, wide = noise.randrange(500, 40_000), noise.choice([0, noise.randrange(300, 20_000)])
        tokens = round((0.22 * narrow + 0.45 * wide) * noise.uniform(0.98, 1.02))
        estimator.learn(MODEL, prompt(narrow + wide, wide), tokens)
    assert estimator.estimate(MODEL, 10_000, 0) == pytest.approx(2200, rel=0.05)
    assert estimator.estimate(MODEL, 9_000, 9_000) == pytest.approx(4050, rel=0.05)
    assert estimator.error(MODEL) < 0.05


def test_models_do_not_teach_each_other():
    estimator = Estimator()
    estimator.learn(MODEL, prompt(40_000), 20_000)
    assert estimator.estimate(model_key("engine:2", "m"), 4000, 0) == 1000


@pytest.mark.parametrize(("size", "tokens"), [(10_000, 0), (10_000, 12), (10_000, 90_000), (0, 5)])
def test_counts_that_cannot_be_of_these_bytes_teach_nothing(size, tokens):
    estimator = Estimator()
    estimator.learn(MODEL, prompt(size), tokens)
    assert estimator.status() == {}


def test_prompts_with_media_teach_nothing():
    estimator = Estimator()
    estimator.learn(MODEL, prompt(4000, media=True), 3000)
    assert estimator.error(MODEL) is None


def test_a_tokenizer_that_changed_is_followed():
    estimator = Estimator()
    for ratio in (0.25, 0.4):
        for _ in range(100):
            estimator.learn(MODEL, prompt(10_000), round(10_000 * ratio))
    assert estimator.estimate(MODEL, 10_000, 0) == pytest.approx(4000, rel=0.03)


def test_any_sequence_of_counts_leaves_a_sane_ratio():
    estimator, noise = Estimator(), random.Random(3)
    for _ in range(2000):
        size = noise.randrange(10, 200_000)
        wide = noise.randrange(0, size)
        estimator.learn(MODEL, prompt(size, wide), noise.randrange(1, size))
        assert 0 < estimator.estimate(MODEL, 100_000, 50_000) <= 150_000


def test_status_states_ratios_and_error():
    estimator = Estimator()
    estimator.learn(MODEL, prompt(4000), 1000)
    assert estimator.status()[MODEL]["samples"] == 1
    assert estimator.status()[MODEL]["error"] == 0
