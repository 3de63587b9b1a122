"""Token estimates: stated cold constants, then what the backend's own counts teach."""

import random

import pytest

from services.proxy.placing.tokens import MEDIA_TOKENS, Bulk, Estimator, bulk_of, model_key
from services.proxy.prompt import Chunk, Prompt

MODEL = model_key("engine:1", "m")


def prompt(size, wide=0, *, media=False):
    chunk = Chunk("message", 0, "user", b"", size, wide, int(media), b"")
    return Prompt(dialect="d", kind="generation", model="m", stream=False, chunks=[chunk], has_media=media)


def test_a_model_never_heard_of_is_estimated_at_four_ascii_bytes_or_one_wide_character_a_token():
    estimator = Estimator()
    assert estimator.estimate(MODEL, Bulk(4_000, 0)) == 1000
    assert estimator.estimate(MODEL, Bulk(0, 3_000)) == 1000
    assert estimator.estimate(MODEL, Bulk(0, 0, media=2)) == 2 * MEDIA_TOKENS
    assert estimator.error(MODEL) is None


def test_one_count_brings_the_estimate_close():
    estimator = Estimator()
    estimator.learn(MODEL, prompt(40_000), 8_000)
    assert estimator.estimate(MODEL, Bulk(40_000, 0)) == pytest.approx(8_000, rel=0.03)


def test_ascii_and_wide_bytes_are_learnt_apart():
    estimator, noise = Estimator(), random.Random(7)
    for _ in range(60):
        narrow, wide = noise.randrange(500, 40_000), noise.choice([0, noise.randrange(300, 20_000)])
        tokens = round((0.22 * narrow + 0.45 * wide) * noise.uniform(0.98, 1.02))
        estimator.learn(MODEL, prompt(narrow + wide, wide), tokens)
    assert estimator.estimate(MODEL, Bulk(10_000, 0)) == pytest.approx(2200, rel=0.05)
    assert estimator.estimate(MODEL, Bulk(0, 9_000)) == pytest.approx(4050, rel=0.05)
    assert estimator.error(MODEL) < 0.05


def talk(turns, size, schemas=0):
    """A prompt of so many turns, and so many bytes of tool schemas before them."""
    chunks = [Chunk("message", i, "user", b"", size, 0, 0, b"") for i in range(turns)]
    if schemas:
        chunks.insert(0, Chunk("tools", -1, "", b"", schemas, 0, 0, b""))
    return Prompt(dialect="d", kind="generation", model="m", stream=False, chunks=chunks)


def test_a_template_that_prints_no_tools_is_noticed_by_the_first_prompt_that_has_some():
    """Schemas of 8 KB that reach no prompt would else make three quarters of it."""
    estimator = Estimator()
    for count in (2, 4, 6):
        estimator.learn(MODEL, talk(count, 500), round(count * 500 * 0.26))
    estimator.learn(MODEL, talk(6, 500, 8_000), 780)
    with_tools = estimator.estimate(MODEL, bulk_of(talk(8, 500, 8_000).chunks))
    assert with_tools == pytest.approx(8 * 500 * 0.26, rel=0.05)


def test_what_a_template_writes_around_each_turn_is_learnt_apart_from_the_text():
    estimator, noise = Estimator(), random.Random(5)
    for _ in range(40):
        turns, size = noise.randrange(1, 30), noise.randrange(20, 600)
        estimator.learn(MODEL, talk(turns, size), round(9 + 14 * turns + 0.28 * turns * size))
    told = estimator.status()[MODEL]
    assert told["tokens_per_turn"] == pytest.approx(14, abs=1)
    assert told["ascii_tokens_per_byte"] == pytest.approx(0.28, abs=0.01)
    assert estimator.estimate(MODEL, bulk_of(talk(20, 50).chunks)) == pytest.approx(569, rel=0.03)


def test_what_the_server_told_of_its_template_holds_from_the_first_count_on():
    estimator = Estimator()
    told = {"constant": 9.0, "turn": 14.0, "tools": 0.0}
    estimator.learn(MODEL, talk(2, 500), 320, told)
    assert estimator.estimate(MODEL, bulk_of(talk(1, 900, 5_000).chunks)) == pytest.approx(278, abs=5)


def test_one_count_of_another_prompt_than_was_sent_moves_little():
    """The engine may have cut a prompt, or its client rewritten it; a hundred such counts are the truth."""
    estimator = Estimator()
    for _ in range(20):
        estimator.learn(MODEL, talk(4, 2_000), 2_000)
    estimator.learn(MODEL, talk(4, 2_000), 400)
    assert estimator.estimate(MODEL, bulk_of(talk(4, 2_000).chunks)) == pytest.approx(2_000, rel=0.1)
    for _ in range(100):
        estimator.learn(MODEL, talk(4, 2_000), 400)
    assert estimator.estimate(MODEL, bulk_of(talk(4, 2_000).chunks)) == pytest.approx(400, rel=0.1)


def test_a_part_of_a_prompt_has_none_of_what_there_is_once():
    estimator = Estimator()
    estimator.learn(MODEL, talk(1, 100), 60, {"constant": 20.0, "turn": 10.0, "tools": 0.0})
    bulk = bulk_of(talk(1, 100).chunks)
    assert estimator.exact(MODEL, bulk) - estimator.exact(MODEL, bulk, whole=False) == pytest.approx(
        20, abs=2
    )


def test_models_do_not_teach_each_other():
    estimator = Estimator()
    estimator.learn(MODEL, prompt(40_000), 20_000)
    assert estimator.estimate(model_key("engine:2", "m"), Bulk(4_000)) == 1000


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
    assert estimator.estimate(MODEL, Bulk(10_000, 0)) == pytest.approx(4000, rel=0.03)


def test_any_sequence_of_counts_leaves_a_sane_ratio():
    estimator, noise = Estimator(), random.Random(3)
    for _ in range(2000):
        size = noise.randrange(10, 200_000)
        wide = noise.randrange(0, size)
        estimator.learn(MODEL, prompt(size, wide), noise.randrange(1, size))
        assert 0 < estimator.estimate(MODEL, Bulk(50_000, 50_000)) <= 150_000


def test_status_states_ratios_and_error():
    estimator = Estimator()
    estimator.learn(MODEL, prompt(4000), 1000)
    assert estimator.status()[MODEL]["samples"] == 1
    assert estimator.status()[MODEL]["error"] == 0
