"""Names the rule that told two readings apart, from the words that only one of them has. Pure."""

import re
from collections.abc import Set as AbstractSet

from services.semantic.reading.words import load

_EN, _ZH = load("english"), load("chinese")
# In this order: the first kind that any of the words is of.
_KINDS: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (kind, frozenset(_EN[kind].split()) | frozenset(_ZH[kind].split()))
    for kind in ("negation", "opposites", "person", "tense", "scope")
)
_SPAN = re.compile(r"^(quoted|code|path|flag|date|unit|name):")
_NUMBER = re.compile(r"^[-+$€£¥]?v?\d")


def rule(words: AbstractSet[str], left: str, right: str, script: str) -> str:
    """Under which rule a difference in `words`, and in the classes `left` and `right`, is refused."""
    for word in sorted(words):
        if found := _SPAN.match(word):
            return found[1]
    if any(_NUMBER.match(word) for word in words):
        return "number"
    if left != right:
        return "question"
    pieces = words if script == "en" else words | {"".join(sorted(words))}
    for kind, members in _KINDS:
        if members & pieces or (
            script == "zh" and any(word in member for member in members for word in words)
        ):
            return {"opposites": "opposite"}.get(kind, kind)
    if any(word.endswith("~") for word in words):
        return "case"
    return "words"
