"""What lies between two looks at a server's counters, also when it was restarted in between."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.watch.reading import START_SLACK_S, Reading, between, total_of

TOTALS = ("lookups", "hits", "prompt_tokens", "generation_tokens")


def reading(at: float, *totals: int | None, **more: Any) -> Reading:
    """A reading with as many totals as are given, in the order of `TOTALS`."""
    found = dict(zip(TOTALS, totals, strict=False))
    return Reading(exporter="vllm", at=at, unit="tokens", **found, **more)


def test_an_interval_holds_what_was_counted_in_it():
    """Rates are of that time, not of the server's life."""
    interval = between(reading(0, 1_000, 900, 1_000, 50), reading(10, 3_000, 1_900, 3_000, 150))
    assert (interval.seconds, interval.lookups, interval.hits, interval.generation_tokens) == (
        10,
        2_000,
        1_000,
        100,
    )
    assert (interval.hit_rate, interval.hit_rate_source) == (0.5, "counters")
    assert (interval.per_second("lookups"), interval.per_second("generation_tokens")) == (200, 10)


def test_the_first_reading_has_no_interval():
    """Unknown is not zero; only the server's own mean is known."""
    first = between(None, reading(0, 10, 5))
    assert (first.seconds, first.lookups, first.hit_rate, first.per_second("hits")) == (
        None,
        None,
        None,
        None,
    )
    gauge = between(None, Reading(exporter="vllm-v0", at=0, hit_rate=0.4))
    assert (gauge.hit_rate, gauge.hit_rate_source) == (0.4, "gauge")


def test_nothing_looked_up_is_no_rate():
    """An idle server has neither 0 % nor 100 %."""
    interval = between(reading(0, 10, 5), reading(10, 10, 5))
    assert (interval.lookups, interval.hit_rate, interval.restarted) == (0, None, False)


def test_a_restart_shows_by_falling_counters():
    """What the new server counted is the growth; nothing negative, nothing lost."""
    interval = between(reading(0, 1_000, 900, 1_000, 50), reading(10, 400, 100, 400, 20))
    assert interval.restarted
    assert (interval.lookups, interval.hits, interval.prompt_tokens, interval.generation_tokens) == (
        400,
        100,
        400,
        20,
    )


def test_a_restart_shows_by_the_start_time_where_counters_overtook_the_old_ones():
    """A busy server may count past the old values before anybody looks."""
    before = reading(0, 100, 90, 100, 5, started_at=-1_000.0)
    interval = between(before, reading(60, 5_000, 95, 5_000, 200, started_at=20.0))
    assert interval.restarted
    assert (interval.lookups, interval.hits) == (5_000, 95)


def test_a_start_time_that_wobbles_is_no_restart():
    """Uptimes are rounded, and read a moment after they are written."""
    before = reading(0, 100, 90, started_at=0.0)
    assert not between(before, reading(10, 200, 100, started_at=START_SLACK_S - 0.1)).restarted


def test_one_counter_that_fell_makes_all_begin_anew():
    """Else hits since the restart would be held against lookups that span it."""
    interval = between(reading(0, 100, 90, 100, 5), reading(10, 150, 30, 150, 9))
    assert interval.restarted
    assert (interval.lookups, interval.hits, interval.hit_rate) == (150, 30, 0.2)


def test_a_cleared_cache_is_no_restart():
    """vllm-mlx counts its cache anew after a DELETE of it; prompt tokens go on."""
    before = reading(0, 100, 90, 1_000, 50, cache_clears_alone=True)
    interval = between(before, reading(10, 20, 5, 1_500, 80, cache_clears_alone=True))
    assert not interval.restarted
    assert (interval.lookups, interval.hits, interval.prompt_tokens, interval.generation_tokens) == (
        20,
        5,
        500,
        30,
    )


def test_a_counter_that_appears_or_goes_is_unknown():
    """A series of vLLM comes at the first request."""
    assert between(reading(0), reading(10, 5, 5)).lookups is None
    assert between(reading(0, 5, 5), reading(10)).lookups is None


def test_another_server_at_the_same_address_begins_anew():
    """Its counters have nothing to do with the old ones."""
    other = msgspec.structs.replace(reading(10, 2_000, 1_000), exporter="llama-server")
    assert between(reading(0, 1_000, 900), other).lookups is None


def test_more_hits_than_lookups_is_all():
    """A server may count a request's hit before its lookup."""
    assert between(reading(0, 0, 0), reading(10, 100, 120)).hit_rate == 1.0


counts = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 5_000)), min_size=1, max_size=20)


@given(counts, st.sets(st.integers(0, 19)))
def test_intervals_add_up_to_all_that_was_counted(steps: list[tuple[int, int]], restarts: set[int]):
    """Over any number of restarts that the server tells by its start time."""
    lookups = hits = 0
    started, before = 0.0, reading(0.0, 0, 0, started_at=0.0)
    sums = [0, 0]
    for number, (more, found) in enumerate(steps, 1):
        if number in restarts:
            lookups, hits, started = 0, 0, number * 100.0
        lookups, hits = lookups + more, hits + min(found, more)
        now = reading(number * 100.0 + 50, lookups, hits, started_at=started)
        interval = between(before, now)
        assert interval.restarted == (number in restarts)
        assert interval.lookups is not None
        assert interval.hits is not None
        sums[0], sums[1] = sums[0] + interval.lookups, sums[1] + interval.hits
        before = now
    assert sums == [sum(more for more, _ in steps), sum(min(found, more) for more, found in steps)]


@given(
    st.lists(st.integers(0, 10**6), min_size=4, max_size=4),
    st.lists(st.integers(0, 10**6), min_size=4, max_size=4),
)
def test_no_interval_is_ever_negative(before: list[int], now: list[int]):
    """Whatever two scrapes say."""
    interval = between(reading(0, *before), reading(10, *now))
    assert all(getattr(interval, name) >= 0 for name in TOTALS)
    assert interval.hit_rate is None or 0 <= interval.hit_rate <= 1


@pytest.mark.parametrize(("hits", "rate"), [(30, 0.75), (0, 0.0)])
def test_a_server_s_whole_life_is_an_interval_too(hits: int, rate: float):
    """The first line of `watch` shows it."""
    assert total_of(reading(0, 40, hits)).hit_rate == rate
