"""Reads the word lists of `data/`. Pure but for that."""

import re
import tomllib
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

Rewritten = str | Callable[[re.Match[str]], str]


def load(name: str) -> dict[str, Any]:
    """One file of word lists."""
    return tomllib.loads(resources.files(__package__).joinpath(f"data/{name}.toml").read_text("utf-8"))


def groups(lines: Iterable[str]) -> dict[str, str]:
    """Each word of a comma-separated group → the first of its group. A word belongs to one group."""
    found: dict[str, str] = {}
    for line in lines:
        first, *others = (word.strip() for word in line.split(","))
        for word in others:
            found.setdefault(word, first)
    return found


def alternatives(words: Iterable[str]) -> str:
    """A pattern that matches any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


def rewriting(*pairs: tuple[str, Rewritten]) -> tuple[tuple[re.Pattern[str], Rewritten], ...]:
    """Patterns, each with what stands in place of what it matches."""
    return tuple((re.compile(pattern), result) for pattern, result in pairs)


def fitting(
    rules: tuple[tuple[re.Pattern[str], Rewritten], ...], *, strict: bool
) -> Iterable[tuple[re.Pattern[str], Rewritten]]:
    """The rules that may be applied: only those for a whole question where it is about words."""
    return rules if not strict else (rule for rule in rules if rule[0].pattern.startswith("^"))
