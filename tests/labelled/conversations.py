"""The labelled set: conversations whose last request has one known first cause, or none.

Everything is generated: four APIs, several agents' habits, two languages, with and without tools, reasoning
and images. `all_cases()` is deterministic.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.labelled import words
from tests.labelled.shapes import IMAGE, Call, Talk, Turn

DIALECTS = ("chat", "responses", "anthropic", "ollama")
LANGUAGES = ("en", "zh")


@dataclass
class Step:
    """One request and how it is answered; `opts` go to the pipeline (tokens, times, status, headers)."""

    talk: Talk
    reply: Turn
    opts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Case:
    """A conversation; `label` is the first cause of its last request, None for a clean append."""

    name: str
    dialect: str
    label: str | None
    steps: list[Step]
    slots: int = 1
    kind: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def tools() -> list[dict[str, Any]]:
    """Three tools as an agent sends them."""
    made = []
    for name, what in (
        ("read_file", "Read a file."),
        ("write_file", "Write a file."),
        ("run", "Run a command."),
    ):
        properties = {
            "path": {"type": "string", "description": "Where."},
            "mode": {"type": "string", "enum": ["fast", "safe"], "description": "How."},
        }
        made.append(
            {
                "name": name,
                "description": what,
                "parameters": {"type": "object", "properties": properties, "required": ["path"]},
            }
        )
    return made


def talk_of(
    language: str, *, head: str = "", with_tools: bool = False, reasoning: bool = False, image: bool = False
) -> Talk:
    """A conversation of five user turns with their answers."""
    turns: list[Turn] = []
    for k, (ask, say) in enumerate(zip(words.ASKS[language], words.SAYS[language], strict=True)):
        turns.append(Turn("user", ask, image=IMAGE if image and k == 0 else ""))
        thought = words.THINKS[language] if reasoning else ""
        if with_tools and k in (0, 2):
            arguments = '{"path":"src/loader.py","mode":"fast"}'
            turns.append(
                Turn("assistant", say if k else "", thought, [Call("read_file", arguments, f"call_{k}")])
            )
            turns.append(Turn("tool", words.RESULT[language], call_id=f"call_{k}"))
            turns.append(Turn("assistant", words.SAYS[language][(k + 1) % 5], thought))
        else:
            turns.append(Turn("assistant", say, thought))
    rules = words.RULES[language] * 6
    system = [f"{head}\n\n{rules}" if head else rules]
    return Talk(system=system, tools=tools() if with_tools else [], turns=turns)


def grown(talk: Talk, upto: int = 4) -> list[Step]:
    """The first `upto` requests of a conversation: one before each assistant turn."""
    ends = [k for k, turn in enumerate(talk.turns) if turn.role == "assistant"][:upto]
    return [Step(cut(talk, end), talk.turns[end]) for end in ends]


def cut(talk: Talk, end: int) -> Talk:
    """The request that holds the turns before `end`."""
    short = talk.copy()
    short.turns = short.turns[:end]
    return short


def changed(steps: list[Step], change: Callable[[Talk], None]) -> list[Step]:
    """The same steps, the last request altered."""
    last = steps[-1].talk.copy()
    change(last)
    return [*steps[:-1], Step(last, steps[-1].reply, steps[-1].opts)]


def variants() -> Iterator[tuple[str, str, str, dict[str, bool]]]:
    """(name, dialect, language, traits) over all shapes, traits taken in turn."""
    traits = itertools.cycle(
        (
            {},
            {"with_tools": True},
            {"reasoning": True},
            {"with_tools": True, "reasoning": True},
            {"image": True},
        )
    )
    for dialect in DIALECTS:
        for language in LANGUAGES:
            chosen = next(traits)
            yield f"{dialect}-{language}-{'+'.join(chosen) or 'plain'}", dialect, language, chosen


def all_cases() -> list[Case]:
    """The whole set."""
    from tests.labelled.engine import engine_cases
    from tests.labelled.others import other_cases
    from tests.labelled.texts import clean_cases, text_cases

    return [*clean_cases(), *text_cases(), *engine_cases(), *other_cases()]


def swapped(arguments: str) -> str:
    """The same arguments with their keys in the other order."""
    return json.dumps(dict(reversed(list(json.loads(arguments).items()))), separators=(",", ":"))
