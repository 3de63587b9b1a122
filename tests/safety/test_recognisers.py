"""Adversarial texts against everything that reads text on behalf of an explanation: time stays bounded."""

import time

import pytest

from tests.support.pipeline import Pipeline

SIZE = 120_000
# Linear work on this much takes well under a second; a recogniser that backtracks would never come back.
LIMIT_S = 12.0
PATTERNS = {
    "digits": "1",
    "dates": "2026-11-29",
    "almost dates": "2026-11-",
    "times": "12:59:59.999999999",
    "almost times": "12:5",
    "stamps without end": "2026-11-29T12:00:00.0000000000000000",
    "epochs": "1764374400 ",
    "percent": "99.9% ",
    "versions": "1.2.3.4.5.6.7.8.9.",
    "tags": "<a>",
    "open tags": "<a ",
    "nested tags": "<a><b>",
    "titles": "# \n",
    "hashes": "#",
    "fences": "```\n",
    "blanks": " ",
    "lines": "\n",
    "blanks and lines": " \n\t",
    "git": "On branch main\nmodified: a\n",
    "hex": "deadbeef",
    "uuids": "0194f8e0-7a4b-7c31-b1a2-9d3c5b7e1f00 ",
    "dashes": "-",
    "colons": "a: ",
    "months": "January ",
    "Chinese dates": "2026年11月29日",
    "quotes": '"\\',
    "braces": "{[",
    "attribution": "x-anthropic-billing-header: cc_version=",
    "emoji": "\U0001f600",
    "a and b": "ab" * 50 + "a",
}


def body(text, system):
    if system:
        return {
            "model": "m",
            "messages": [{"role": "system", "content": text}, {"role": "user", "content": "go"}],
        }
    return {
        "model": "m",
        "messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": text}],
    }


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("system", [True, False], ids=["system", "message"])
async def test_a_change_in_a_text_of_one_pattern_is_named_in_time(name, system):
    """The change stands at the beginning, in the middle or at the end of 120 KB of the same."""
    text = (PATTERNS[name] * (SIZE // len(PATTERNS[name]) + 1))[:SIZE]
    half = SIZE // 2
    variants = [text, "x" + text, text[:half] + "!" + text[half:], text + "1", text[half:] + "2"]
    pipeline = Pipeline()
    started = time.monotonic()
    for variant in variants:
        flow = await pipeline.send(body(variant, system))
    assert flow.verdict is not None
    assert time.monotonic() - started < LIMIT_S
