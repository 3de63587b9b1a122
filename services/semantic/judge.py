"""Decides whether one stored answer may serve two questions. Pure, deterministic, and it says why.

Similarity proposes a pair; this gate decides. It reads both questions into one form (`reading/`) in which all
that can change the answer is left, and demands that the forms are equal. What it does not understand stays in
the form as it was typed, so doubt refuses.
"""

from collections import Counter
from functools import lru_cache

from services.semantic.base import Ruling
from services.semantic.reading import naming
from services.semantic.reading.base import Reading
from services.semantic.reading.read import read

SAME = Ruling(same=True, rule="equal")


def judge(a: str, b: str) -> Ruling:
    """Whether `b` asks just what `a` asks; `Ruling.rule` names what decided."""
    left, right = _read(a), _read(b)
    if left == right:
        return SAME
    return Ruling(same=False, rule=difference(left, right))


@lru_cache(maxsize=4096)
def _read(text: str) -> Reading:
    return read(text)


def difference(left: Reading, right: Reading) -> str:
    """The rule under which two different readings are told apart."""
    if left.script != right.script:
        return "language"
    if left.script == "other":
        return "words"
    if left.payload != right.payload:
        return "embedded_text"
    if left.setting != right.setting:
        return "setting"
    only = (Counter(left.words) - Counter(right.words)) + (Counter(right.words) - Counter(left.words))
    flags = set(left.flags) ^ set(right.flags)
    if not only and not flags and left.ask == right.ask:
        return "order" if left.words != right.words else "count"
    return naming.rule(set(only) | flags, left, right)
