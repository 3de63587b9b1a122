"""The scale of times: a class stands for its times, and percentiles are read off counts of classes."""

import math

import hypothesis.strategies as st
from hypothesis import given

from services.history import scale


@given(
    st.lists(st.integers(0, scale.CLASSES - 1), min_size=1, max_size=300),
    st.sampled_from([1, 50, 95, 99, 100]),
)
def test_a_percentile_of_counts_is_that_of_the_sorted_times(classes, share):
    """By nearest rank."""
    counts = [classes.count(number) for number in range(scale.CLASSES)]
    rank = max(1, math.ceil(len(classes) * share / 100))

    assert scale.percentile(counts, share) == scale.middle(sorted(classes)[rank - 1])


def test_a_class_is_within_the_stated_error_of_its_times():
    """From the second class to the last but one, at both borders."""
    for number in range(1, scale.CLASSES - 1):
        low, high = scale.BORDERS[number - 1], scale.BORDERS[number]
        assert abs(scale.middle(number) / low - 1) <= scale.RELATIVE_ERROR
        assert abs(scale.middle(number) / high - 1) <= scale.RELATIVE_ERROR
