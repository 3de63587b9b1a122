"""What a report asks about, as SQL: the rollups that hold the most of it, and the rows beside them.

It owns the decision whether the rows are few enough to be read all; then reports do that, and are exact.
"""

import re
import time
from typing import Any

from sqlalchemy import Connection, CursorResult, bindparam, func, select, text
from sqlalchemy.types import TypeEngine

from services.history.cover import Cover, Gap, covering
from services.history.queries import Filters
from services.history.rollups import DAY
from services.history.tables import UtcTime, requests

# Up to so many rows the exact way takes less than 50 ms.
EXACT_ROWS = 4_000
# What the rollups can be narrowed by; other conditions leave few enough rows.
NARROWED = ("kind", "agent", "model")
BESIDES = ("session", "backend", "hit", "cause", "status", "lineage")

Row = dict[str, Any]


class Span:
    """What the filters leave of the history, in pieces of statements."""

    def __init__(self, connection: Connection, filters: Filters, cover: Cover) -> None:
        self.connection = connection
        self.cover = cover
        self.sqlite = connection.dialect.name == "sqlite"
        self._values: dict[str, Any] = {}
        self._types: dict[str, TypeEngine[Any]] = {}
        names = [name for name in NARROWED if getattr(filters, name) is not None]
        self._conditions = "".join(f" AND {name} = {self.bind(getattr(filters, name))}" for name in names)
        self._gaps = " OR ".join(self._between(gap) for gap in cover.gaps) or "1 = 0"

    def bind(self, value: Any, kind: TypeEngine[Any] | None = None) -> str:
        """A placeholder for the value."""
        name = f"v{len(self._values)}"
        self._values[name] = value
        if kind is not None:
            self._types[name] = kind
        return f":{name}"

    def rolled(self, part: str) -> str:
        """``FROM … WHERE …`` of the rollups of a part."""
        pieces = self._pieces(f"part = '{part}' AND ")
        return f"FROM rollups WHERE {pieces}{self._conditions}"

    def rolled_apart(self, part: str) -> list[str]:
        """The same, one a piece: PostgreSQL scans no index alone for alternatives, it reads the rows."""
        pieces = self._each_piece()
        return [f"FROM rollups WHERE part = '{part}' AND {piece}{self._conditions}" for piece in pieces]

    def prompts(self) -> str:
        """``FROM … WHERE …`` of the rollups by system prompt and tools."""
        return f"FROM prompt_rollups WHERE {self._pieces()}{self._conditions}"

    def rows(self) -> str:
        """``FROM … WHERE …`` of the rows that no rollup stands for."""
        return f"FROM requests WHERE ({self._gaps}){self._conditions}"

    def ask(self, sql: str) -> list[Row]:
        """The answer as plain rows."""
        return [dict(row) for row in self._execute(sql).mappings()]

    def tuples(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer as tuples: a hundred columns a row cost too much as a dictionary."""
        return [tuple(row) for row in self._execute(sql)]

    def _execute(self, sql: str) -> CursorResult[Any]:
        asked = set(re.findall(r":(v\d+)", sql))
        used = {name: value for name, value in self._values.items() if name in asked}
        typed = [bindparam(name, type_=kind) for name, kind in self._types.items() if name in used]
        return self.connection.execute(text(sql).bindparams(*typed), used)

    def _between(self, gap: Gap) -> str:
        ends = []
        if gap.first is not None:
            ends.append(f"received_at >= {self.bind(gap.first, UtcTime())}")
        if gap.past is not None:
            ends.append(f"received_at < {self.bind(gap.past, UtcTime())}")
        return f"({' AND '.join(ends) or '1 = 1'})"

    def _pieces(self, part: str = "") -> str:
        return f"({' OR '.join(f'({part}{piece})' for piece in self._each_piece())})"

    def _each_piece(self) -> list[str]:
        return [
            f"span_s = {piece.span} AND start_s >= {piece.first} AND start_s < {piece.past}"
            for piece in self.cover.pieces
        ] or ["1 = 0"]


def open_span(connection: Connection, filters: Filters, longest: int = DAY) -> Span | None:
    """The span of the filters, None where the rows themselves are few enough, or the filters ask for more."""
    if any(getattr(filters, name) is not None for name in BESIDES):
        return None
    within = select(requests.c.received_at)
    if filters.since is not None:
        within = within.where(requests.c.received_at >= filters.since)
    if filters.until is not None:
        within = within.where(requests.c.received_at < filters.until)
    few = within.limit(EXACT_ROWS + 1).subquery()
    if (connection.scalar(select(func.count()).select_from(few)) or 0) <= EXACT_ROWS:
        return None
    found = covering(connection, filters.since, filters.until, time.time(), longest)
    return Span(connection, filters, found)
