"""No bytes make a parser raise what it does not promise, or hang: seeds, mutations, and any bytes."""

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, seeds, timed

SEEDS = seeds()
CHEAP = [name for name in TARGETS if name not in {"sql", "cursor", "file"}]


TOKENS = (b'"', b"{", b"[", b"]", b"}", b"\r\n", b"\n\n", b"\\ud800", b"null", b"1e999")


def mutated(data: bytes, seed: int) -> bytes:
    """A few bytes, slices or numbers of a seed changed."""
    dice = random.Random(seed)
    out = bytearray(data)
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(out) + 1)
        what = dice.randrange(5)
        if what == 0:
            out[at:at] = bytes([dice.randrange(256)]) * dice.choice((1, 2, 300))
        elif what == 1:
            del out[at : at + dice.randrange(1, 20)]
        elif what == 2:
            out[at:at] = dice.choice(
                (b'"', b"{", b"[", b"]", b"}", b"\r\n", b"\n\n", b"\\ud800", b"null", b"1e999")
            )
        elif what == 3:
            other = dice.randrange(len(out) + 1)
            out[at:at] = out[other : other + dice.randrange(1, 60)]
        elif out:
            out[at % len(out)] ^= 1 << dice.randrange(8)
    return bytes(out)


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_its_mutations(name: str) -> None:
    """Every seed as it is, cut short, and changed in 60 ways that are the same each run."""
    for place, seed in enumerate(SEEDS[name]):
        timed(name, seed)
        timed(name, seed[: len(seed) // 2])
        for number in range(6 if name == "sql" else 60):
            timed(name, mutated(seed, number * 1000 + place))


@pytest.mark.parametrize("name", CHEAP)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=400))
def test_any_bytes(name: str, data: bytes) -> None:
    """Bytes with no likeness to anything."""
    timed(name, data)


WORDS = (
    "model", "messages", "input", "prompt", "system", "instructions", "tools", "content", "role", "type",
    "text",
    "tool_calls", "function", "name", "arguments", "parameters", "stream", "options", "keep_alive", "images",
    "choices", "delta", "usage", "error", "message", "done", "finish_reason", "timings", "metadata", "user",
)  # fmt: skip
LEAVES = (None, True, False, 0, -1, 1 << 70, 1.5, 1e300, "", "a", "\ud800", "\0", "data:,", "1h", [], {})


def shaped(dice: random.Random, depth: int = 0) -> Any:
    """A value of no particular shape whose names mostly mean something."""
    kind = dice.random()
    if depth > 2 or kind < 0.3:
        return dice.choice(LEAVES)
    if kind < 0.6:
        return [shaped(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(WORDS): shaped(dice, depth + 1) for _ in range(dice.randrange(7))}


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_any_json_under_the_names_that_have_a_meaning(seed: int) -> None:
    """Requests and answers of the right words and the wrong shapes."""
    dice = random.Random(seed)
    raw = json.dumps({word: shaped(dice) for word in dice.sample(WORDS, 8)}).encode()
    timed("read", raw)
    timed("cut", raw)
    timed("tap", b"\x00" + raw)
    timed("tap", b"\x06data: " + raw + b"\n\n")
