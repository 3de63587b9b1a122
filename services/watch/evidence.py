"""What the history tells of how a backend was used lately: the evidence for advice on its flags.

It owns no state; it takes a connection.
"""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from services.history.tables import requests

# The engine's own word on reuse; what is inferred from times is none.
REPORTED = ("timings", "usage", "responses", "anthropic", "ollama")
# Lost to other conversations: what more slots or more cache would keep.
CROWDED = ("evicted_by", "capacity_suspected")
_columns = requests.c


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """Completed generations of one backend: how many, how many reported reuse, and of what size.

    `prompts` have a prompt size, `reported` of them a reported reuse. `median_prompt` is in tokens.
    `crowded_out` lost their cache to others; `conversations` are the lineages seen.
    """

    prompts: int = 0
    reported: int = 0
    median_prompt: int | None = None
    crowded_out: int = 0
    conversations: int = 0


def used_since(connection: Connection, backend: str, since: datetime) -> Used:
    """How the backend of that name was used since then."""
    these = and_(
        _columns.received_at >= since,
        _columns.backend == backend,
        _columns.kind == "generation",
        _columns.status == "completed",
    )
    sized = _columns.prompt_tokens > 0
    reported = and_(sized, _columns.cached_tokens.is_not(None), _columns.cached_source.in_(REPORTED))
    query = select(
        _count(sized),
        _count(reported),
        _count(_columns.cause.in_(CROWDED)),
        func.count(_columns.lineage.distinct()),
    ).where(these)
    prompts, told, crowded, lineages = connection.execute(query).one()
    middle = (
        select(_columns.prompt_tokens)
        .where(these, sized)
        .order_by(_columns.prompt_tokens)
        .offset((prompts or 0) // 2)
        .limit(1)
    )
    return Used(
        prompts=prompts or 0,
        reported=told or 0,
        median_prompt=connection.scalar(middle) if prompts else None,
        crowded_out=crowded or 0,
        conversations=lineages or 0,
    )


def _count(condition: ColumnElement[bool]) -> Any:
    return func.sum(case((condition, 1), else_=0))
