"""Names the rule that told two readings apart, from what only one of them has. Pure."""

import re
from collections.abc import Set as AbstractSet

from services.semantic.reading.base import Reading
from services.semantic.reading.words import load

_EN, _ZH = load("english"), load("chinese")
# In this order: the first kind that any of the words is of.
_KINDS: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (kind, frozenset(_EN[kind].split()) | frozenset(_ZH[kind].split()))
    for kind in ("negation", "person", "tense", "scope")
)
_OPPOSITES = {
    script: [tuple(pair.split("/")) for pair in data["opposites"].split()]
    for script, data in (("en", _EN), ("zh", _ZH))
}
_SPAN = re.compile(r"^(quoted|code|path|flag|date|unit|name):")
_NUMBER = re.compile(r"^[-+$€£¥]?v?\d")


def rule(only: AbstractSet[str], left: Reading, right: Reading) -> str:
    """Under which rule two readings are told apart; `only` are the words and flags that one of them has."""
    for word in sorted(only):
        if found := _SPAN.match(word):
            return found[1]
    if any(_NUMBER.match(word) for word in only):
        return "number"
    if left.ask != right.ask:
        return "question"
    if _opposite(left, right):
        return "opposite"
    for kind, members in _KINDS:
        if members & only:
            return kind
    return "case" if any(word.endswith("~") for word in only) else "words"


def _opposite(left: Reading, right: Reading) -> bool:
    """Whether one has a word of which the other has the opposite."""
    mine, yours = _said(left), _said(right)
    for one, other in _OPPOSITES[left.script]:
        for this, that in ((one, other), (other, one)):
            if this in mine and this not in yours and that in yours and that not in mine:
                return True
    return False


def _said(reading: Reading) -> str | frozenset[str]:
    return "".join(reading.words) if reading.script == "zh" else frozenset(reading.words)
