"""Who lost the most time, and why: the one question of the first page; and the names its filters offer.

Owns no state.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Double, cast, func, select

from services.history.tables import requests

_columns = requests.c
# Agents and causes at a time; a machine has a dozen of the one and the contract three dozen of the other.
MOST = 500


def losers(connection: Connection, since: datetime) -> list[dict[str, Any]]:
    """Agents that lost time since then, worst first.

    Each with ``lost_ms``, ``requests`` that lost some, and ``causes``, worst first: ``cause``, ``lost_ms``,
    ``requests``; the first of all also ``worst_id``, which lost most by it, and its ``backend_kind``.
    """
    # Materialised, because the index on the agent would lure SQLite into walking the whole history by it; and
    # the losses as a sum, because the index on them would do the same.
    rows = (
        select(_columns.agent, _columns.cause, _columns.lost_ms)
        .where(_columns.received_at >= since, func.coalesce(_columns.lost_ms, 0) > 0)
        .cte("rows")
        .prefix_with("MATERIALIZED")
    )
    lost = cast(func.sum(rows.c.lost_ms), Double)
    query = (
        select(
            rows.c.agent, rows.c.cause, lost.label("lost_ms"), func.count().label("requests"),
            func.max(rows.c.lost_ms).label("worst_ms"),
        )
        .group_by(rows.c.agent, rows.c.cause)
        .order_by(lost.desc())
        .limit(MOST)
    )  # fmt: skip
    found: dict[str | None, dict[str, Any]] = {}
    for row in connection.execute(query).mappings():
        agent = found.setdefault(
            row["agent"], {"agent": row["agent"], "lost_ms": 0.0, "requests": 0, "causes": []}
        )
        agent["lost_ms"] += row["lost_ms"]
        agent["requests"] += row["requests"]
        agent["causes"].append({name: row[name] for name in ("cause", "lost_ms", "requests", "worst_ms")})
    ordered = sorted(found.values(), key=lambda agent: -agent["lost_ms"])
    for agent in ordered[:1]:
        first = agent["causes"][0]
        first |= _worst(connection, since, agent["agent"], first)
    return ordered


def _worst(
    connection: Connection, since: datetime, agent: str | None, cause: dict[str, Any]
) -> dict[str, Any]:
    # Materialised for the same reason: by time and loss alone, then by name.
    rows = (
        select(_columns.id.label("worst_id"), _columns.backend_kind, _columns.agent, _columns.cause)
        .where(_columns.received_at >= since, _columns.lost_ms == cause["worst_ms"])
        .cte("rows")
        .prefix_with("MATERIALIZED")
    )
    query = select(rows.c.worst_id, rows.c.backend_kind).where(
        rows.c.agent.is_not_distinct_from(agent), rows.c.cause.is_not_distinct_from(cause["cause"])
    )
    return dict(connection.execute(query.limit(1)).mappings().first() or {})


def names(connection: Connection, column: str, most: int = 100) -> list[str]:
    """The distinct values of an indexed column (agent, model, hit), in order.

    Each is found by one step into the index, so that a million rows cost no more than a few.
    """
    value = _columns[column]
    found: list[str] = []
    while len(found) < most:
        query = select(func.min(value))
        following = connection.scalar(query.where(value > found[-1]) if found else query)
        if following is None:
            break
        found.append(str(following))
    return found
