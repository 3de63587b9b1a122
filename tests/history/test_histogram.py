"""The histogram of times: a bucket stands for its times, and percentiles are read off counts of buckets."""

import math

import hypothesis.strategies as st
from hypothesis import given

from services.history import histogram


@given(
    st.lists(st.integers(0, histogram.BUCKETS - 1), min_size=1, max_size=300),
    st.sampled_from([1, 50, 95, 99, 100]),
)
def test_a_percentile_of_counts_is_that_of_the_sorted_times(buckets, share):
    """By nearest rank."""
    counts = [buckets.count(number) for number in range(histogram.BUCKETS)]
    rank = max(1, math.ceil(len(buckets) * share / 100))

    assert histogram.percentile(counts, share) == histogram.middle(sorted(buckets)[rank - 1])


def test_a_class_is_within_the_stated_error_of_its_times():
    """From the second bucket to the last but one, at both bounds."""
    for number in range(1, histogram.BUCKETS - 1):
        low, high = histogram.BOUNDS[number - 1], histogram.BOUNDS[number]
        assert abs(histogram.middle(number) / low - 1) <= histogram.RELATIVE_ERROR
        assert abs(histogram.middle(number) / high - 1) <= histogram.RELATIVE_ERROR
