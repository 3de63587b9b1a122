"""Gathers a report: every figure that a person or a program may want of a span of time, as plain data.

It owns no state; the database computes. The shape is that of ``/metalanchor/api/report``.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from services.costs.prices import Prices, load_prices
from services.history import repeats, reports
from services.history.homogeneity import homogeneity
from services.history.live_data import live_data
from services.history.queries import Filters
from services.history.spending import spending

GROUPS = reports.GROUPS
# Groups beyond these are a long tail that no reader reads; sessions come by the thousand.
MOST_GROUPS = 100
SHARERS = 8


def document(
    connection: Connection, filters: Filters, by: str | None = None, prices: Prices | None = None
) -> dict[str, Any]:
    """The report on the rows that `filters` leave, grouped by one of `GROUPS` or not at all.

    ``total`` is None where there are no rows, ``costs`` where none went to a service that charges. `prices`
    is the built-in table unless given. Raises `ValueError` for an unknown group.
    """
    total = reports.figures(connection, filters)
    groups = reports.figures(connection, filters, by, MOST_GROUPS) if by else []
    costs = spending(connection, filters, by, prices or load_prices())
    spent = {row["group"]: row for row in costs.pop("groups")} if costs else {}
    for row in groups:
        row |= {name: spent.get(row["group"], {}).get(name) for name in ("cost_usd", "savings_usd")}
    return {
        "since": _stamp(filters.since),
        "until": _stamp(filters.until),
        "made_at": _stamp(datetime.now(UTC)),
        "by": by,
        "total": total[0] if total else None,
        "groups": groups,
        "costs": costs,
        "percentile_error": reports.percentile_error(connection, filters),
        "losses": reports.losses(connection, filters),
        "losses_by_agent": reports.losses_by_agent(connection, filters),
        "longest_losses": reports.longest_losses(connection, filters),
        "hit_rate": reports.hit_rate(connection, filters),
        "session_lengths": reports.session_lengths(connection, filters),
        "request_sizes": reports.request_sizes(connection, filters),
        "message_sizes": repeats.message_sizes(connection, filters),
        "shared_system_prompts": _shared(connection, filters, "system_hash"),
        "shared_tools": _shared(connection, filters, "tools_hash"),
        "repeated_tool_calls": repeats.repeated_calls(connection, filters),
        "moved_chunks": repeats.moved_chunks(connection, filters),
        "live_data": live_data(connection, filters),
        "homogeneity": homogeneity(connection, filters),
    }


def asks_for_words(report: dict[str, Any]) -> bool:
    """Whether a report names questions whose words the live cache may know."""
    return bool(report["homogeneity"] and report["homogeneity"]["few"])


def put_words(report: dict[str, Any], questions: Mapping[str, str]) -> None:
    """Say the questions that a report names, by the requests that were answered; the history has none."""
    for item in (report["homogeneity"] or {"few": []})["few"]:
        item["question"] = questions.get(item["request"])


def _shared(connection: Connection, filters: Filters, name: str) -> list[dict[str, Any]]:
    """What is sent again and again, and by whom: ``agent_names`` holds up to eight of them."""
    rows = reports.shared(connection, filters, name)
    names = reports.sharers(connection, filters, name, [row["hash"] for row in rows])
    return [{**row, "agent_names": names.get(row["hash"], [])[:SHARERS]} for row in rows]


def _stamp(value: datetime | None) -> str | None:
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
