"""Live data that stands before stable text: a clock at the head of a prompt has the rest prefilled again.

It owns no state. The causes of each row say where its text broke, by what, and how much was equal again
behind that; what moving such data to the end would save is what the server measurably prefilled for it.
"""

import re
from typing import Any

from sqlalchemy import Connection, select

from services.history.queries import Filters, narrow
from services.history.tables import requests

# As for what was sent again (`repeats`): all have to be looked at, and these many take less than 100 ms.
NEWEST = 5_000
LIVE = ("timestamp", "date_rollover", "counter", "workspace_snapshot")
MOST = 20
# A message's place in its conversation grows with it; what matters is that it is one.
_INDEX = re.compile(r"^((?:messages|input))\[\d+\]")

_columns = requests.c
Row = dict[str, Any]


def live_data(connection: Connection, filters: Filters) -> Row:
    """Where live data broke prompts before text that was equal again: ``items``, dearest first.

    Each by ``agent``, ``cause`` and place (``at``): ``requests``, ``behind_bytes`` (text equal again behind
    it, in all), and what moving it to the end would have saved by the server's own count: ``saves_tokens``
    and ``saves_ms`` over ``measured`` requests; None where none was measured. Sums of both stand beside the
    items. Of the ``newest`` so many requests of the span.
    """
    names = ("agent", "cause", "diverged_at", "causes", "lost_tokens", "lost_ms", "cached_tokens")
    base = narrow(select(*(_columns[name] for name in names)), filters)
    rows = base.order_by(_columns.received_at.desc()).limit(NEWEST).cte("newest")
    found: dict[tuple[Any, ...], Row] = {}
    for row in connection.execute(select(rows).where(rows.c.cause.in_(LIVE))).mappings():
        at, behind = _broken(row["cause"], row["causes"] or [])
        if behind:
            _add(found, row, at or row["diverged_at"] or "", behind)
    items = sorted(found.values(), key=lambda item: (-(item["saves_ms"] or 0.0), -item["behind_bytes"]))
    return {
        "items": items[:MOST],
        "requests": sum(item["requests"] for item in items),
        "saves_tokens": sum(item["saves_tokens"] or 0 for item in items),
        "saves_ms": sum(item["saves_ms"] or 0.0 for item in items),
        "newest": NEWEST,
    }


def _broken(cause: str, causes: list[Row]) -> tuple[str | None, int]:
    """Where the first cause broke the text, and the bytes that were equal again behind it."""
    for one in causes:
        if one.get("code") == cause:
            detail = one.get("detail") or {}
            return one.get("at"), int(detail.get("equal_after_divergence") or 0)
    return None, 0


def _add(found: dict[tuple[Any, ...], Row], row: Any, at: str, behind: int) -> None:
    place = _INDEX.sub(r"\1[…]", at)
    key = (row["agent"], row["cause"], place)
    item = found.setdefault(key, {
        "agent": row["agent"], "cause": row["cause"], "at": place, "requests": 0, "behind_bytes": 0,
        "measured": 0, "saves_tokens": None, "saves_ms": None,
    })  # fmt: skip
    item["requests"] += 1
    item["behind_bytes"] += behind
    if row["cached_tokens"] is not None and row["lost_tokens"] is not None:
        item["measured"] += 1
        item["saves_tokens"] = (item["saves_tokens"] or 0) + row["lost_tokens"]
        if row["lost_ms"] is not None:
            item["saves_ms"] = (item["saves_ms"] or 0.0) + row["lost_ms"]
