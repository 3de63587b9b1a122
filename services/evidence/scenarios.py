"""The scenarios as they stand in ``scenarios.toml``, checked and scaled. Reads that one file, else pure."""

from importlib.resources import files
from typing import Literal

import msgspec

# With fewer sessions there is no median, with fewer turns no rise.
FEWEST = {"sessions": 3, "turns": 5}


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scenario; `system`, `ask` and `result` are lengths in approximate tokens.

    A session asks once and goes on for `turns` requests; with a `result`, each further turn brings the result
    of a tool, longer by the factor `growth` each time. `identical` sessions send the same bytes.
    """

    name: str
    title: str
    language: Literal["en", "zh"]
    sessions: int
    turns: int
    system: int
    ask: int
    tools: tuple[str, ...] = ()
    result: int = 0
    growth: float = 1.0
    identical: bool = False
    scaled: Literal["sessions", "turns"] = "sessions"

    @property
    def requests(self) -> int:
        """How many requests it sends."""
        return self.sessions * self.turns


class Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All scenarios, and how long each answer may be."""

    max_tokens: int
    scenario: tuple[Scenario, ...]


def load(scale: float = 1.0, length: float = 1.0, names: str = "") -> Book:
    """The packaged scenarios, `scale` times as many requests, `length` times as long; `names` picks some."""
    text = files(__package__).joinpath("scenarios.toml").read_bytes()
    book = msgspec.toml.decode(text, type=Book)
    chosen = [scenario for scenario in book.scenario if not names or scenario.name in names.upper()]
    return Book(book.max_tokens, tuple(_scaled(scenario, scale, length) for scenario in chosen))


def _scaled(scenario: Scenario, scale: float, length: float) -> Scenario:
    count = max(FEWEST[scenario.scaled], round(getattr(scenario, scenario.scaled) * scale))
    lengths = {name: round(getattr(scenario, name) * length) for name in ("system", "ask", "result")}
    return msgspec.structs.replace(scenario, **{scenario.scaled: count}, **lengths)
