"""The scale on which times are counted where rows are too many to sort: 128 classes, each a tenth wider.

Owns nothing; pure. A percentile read off the scale is the middle of its class, so it is within 5 % of the
exact one from 10 ms to 27 minutes, and what lies beyond stands for these two. Classes are found by comparing,
not by a logarithm, since not every SQLite is built with one.
"""

import itertools
from bisect import bisect_left
from collections.abc import Sequence

CLASSES = 128
LEAST_MS = 10.0
FACTOR = 1.1
# Half a class, as a share: sqrt(1.1) - 1 is 4.9 %.
RELATIVE_ERROR = 0.05

# Upper border of each class; the last one is open.
BORDERS = tuple(round(LEAST_MS * FACTOR**number, 4) for number in range(CLASSES - 1))


def middle(number: int) -> float:
    """The milliseconds that stand for a class."""
    if number == 0:
        return LEAST_MS
    return float(round(LEAST_MS * FACTOR ** (number - 0.5), 3))


def percentile(counts: Sequence[int], share: int) -> float:
    """The percentile, by nearest rank, of times of which each class holds so many, and not all none."""
    upto = list(itertools.accumulate(counts))
    return middle(bisect_left(upto, upto[-1] * share / 100))


def class_sql(value: str) -> str:
    """SQL for the number of the class that `value` falls into, NULL where it is NULL: seven comparisons."""
    return f"CASE WHEN {value} IS NOT NULL THEN {_halves(value, 0, CLASSES - 1)} END"


def _halves(value: str, low: int, high: int) -> str:
    if low == high:
        return str(low)
    half = (low + high) // 2
    return (
        f"CASE WHEN {value} <= {BORDERS[half]} THEN {_halves(value, low, half)}"
        f" ELSE {_halves(value, half + 1, high)} END"
    )
