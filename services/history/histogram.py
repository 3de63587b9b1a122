"""The histogram of times, where rows are too many to sort: 128 buckets, each a tenth wider than the last.

Owns nothing; pure. A percentile read off it is the middle of its bucket, so it is within 5 % of the exact one
from 10 ms to 27 minutes, and what lies beyond stands for these two. Buckets are found by comparing, not by a
logarithm, since not every SQLite is built with one.
"""

import itertools
from bisect import bisect_left
from collections.abc import Sequence

BUCKETS = 128
LEAST_MS = 10.0
FACTOR = 1.1
# Half a bucket, as a share: sqrt(1.1) - 1 is 4.9 %.
RELATIVE_ERROR = 0.05

# Upper bound of each bucket; the last one is open.
BOUNDS = tuple(round(LEAST_MS * FACTOR**number, 4) for number in range(BUCKETS - 1))


def middle(number: int) -> float:
    """The milliseconds that stand for a bucket."""
    if number == 0:
        return LEAST_MS
    return float(round(LEAST_MS * FACTOR ** (number - 0.5), 3))


def percentile(counts: Sequence[int], share: int) -> float:
    """The percentile, by nearest rank, of times of which each bucket holds so many, and not all none."""
    upto = list(itertools.accumulate(counts))
    return middle(bisect_left(upto, upto[-1] * share / 100))


def bucket_sql(value: str) -> str:
    """SQL for the number of the bucket that `value` falls into, NULL where it is NULL: seven comparisons."""
    return f"CASE WHEN {value} IS NOT NULL THEN {_halves(value, 0, BUCKETS - 1)} END"


def _halves(value: str, low: int, high: int) -> str:
    if low == high:
        return str(low)
    half = (low + high) // 2
    return (
        f"CASE WHEN {value} <= {BOUNDS[half]} THEN {_halves(value, low, half)}"
        f" ELSE {_halves(value, half + 1, high)} END"
    )
