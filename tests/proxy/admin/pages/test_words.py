"""Figures as people read them; pure."""

import pytest

from services.proxy.admin.pages.language import Speech, load
from services.proxy.admin.pages.words import (
    UNKNOWN,
    ago,
    count,
    measured_reuse,
    milliseconds,
    percent,
    short,
    size,
)


def test_shares():
    """What is unknown is a dash; only everything is 100 %."""
    assert [percent(None), percent(0.0), percent(0.504), percent(0.9999), percent(1.0)] == [
        UNKNOWN, "0 %", "50 %", "99 %", "100 %",
    ]  # fmt: skip


def test_durations():
    """A unit that keeps them short, also just below the next one."""
    assert [milliseconds(v) for v in (None, 0.4, 999.4, 999.7, 1_500, 90_000)] == [
        UNKNOWN, "0 ms", "999 ms", "1.0 s", "1.5 s", "1.5 min",
    ]  # fmt: skip


def test_numbers_and_sizes():
    """Thousands are set apart; bytes carry a unit."""
    assert [count(None), count(0), count(1_234_567)] == [UNKNOWN, "0", "1\u202f234\u202f567"]
    assert [size(None), size(12), size(1_500), size(2_000_000)] == [UNKNOWN, "12 B", "1.5 KB", "2.0 MB"]


def test_ages_in_both_languages():
    """A time of long ago is told in days."""
    assert ago(None) == UNKNOWN
    assert ago("2020-01-01T00:00:00Z").endswith("d ago")
    assert ago("2020-01-01T00:00:00Z", load()["zh"]).endswith("天前")


def test_long_ids_are_cut():
    """With a sign that they were."""
    assert [short(None), short("abc"), short("abcdefghijklmnop")] == [UNKNOWN, "abc", "abcdefghijk…"]


@pytest.mark.parametrize(
    ("row", "share"),
    [
        ({"prompt_tokens": 200, "cached_tokens": 50}, 0.25),
        ({"prompt_tokens": 200, "cached_tokens": 0}, 0.0),
        ({"prompt_tokens": 200, "cached_tokens": None}, None),
        ({"prompt_tokens": 0, "cached_tokens": 0}, None),
    ],
)
def test_measured_reuse(row, share):
    """Unreported is unknown, never zero."""
    assert measured_reuse(row) == share


def test_a_text_without_a_translation_stays_as_it_is():
    """Better English than nothing."""
    assert Speech("zh", {})("{n} s ago", n=3) == "3 s ago"
