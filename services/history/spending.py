"""What requests to clouds cost and what prompt caching saved, summed by the database.

It owns no state. Most histories hold no such request, so the models that were used with a service that
charges are found first, each by one step into an index; without any nothing else is read.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, func, null, select

from services.costs.cost import break_even
from services.costs.prices import VENDORS, Prices
from services.history import lost
from services.history.queries import Filters, narrow
from services.history.tables import requests

GROUPS = frozenset({"agent", "session", "model", "cause", "hit"})
MODELS = 500  # looked at; a user has tens
SUMS = (
    "cost_usd", "savings_usd", "prompt_tokens", "cached_tokens", "written_tokens", "written_1h_tokens",
)  # fmt: skip

_columns = requests.c
Row = dict[str, Any]


def spending(connection: Connection, filters: Filters, by: str | None, prices: Prices) -> Row | None:
    """Sums in all, by model, and by one of `GROUPS`; None where nothing was sent to a service that charges.

    ``models`` are dearest first, each with its ``reads_per_write`` (tokens read for one that was written) and
    with how many make caching break even by its list prices. ``unpriced`` are requests whose cost is unknown,
    by model. Amounts are None where none is known.
    """
    models = _charged(connection)
    if not models:
        return None
    group = _columns[by] if by in GROUPS else null()
    query = select(
        group.label("group"), _columns.backend_kind, _columns.model, func.count().label("requests"),
        func.count(_columns.cost_usd).label("priced"),
        func.count(_columns.prompt_tokens).label("measured"),
        *(func.sum(_columns[name]).label(name) for name in SUMS),
    )  # fmt: skip
    query = narrow(query, filters).where(_columns.model.in_(models), _columns.backend_kind.in_(VENDORS))
    query = query.group_by(*([group] if by in GROUPS else []), _columns.backend_kind, _columns.model)
    rows = [dict(row) for row in connection.execute(query).mappings()]
    if not rows:
        return None
    by_model = _summed(rows, "backend_kind", "model")
    return {
        **_amounts(rows),
        "models": [row | {"reads_per_write": _reads(row)} | _break_even(row, prices) for row in by_model],
        "groups": _summed(rows, "group") if by in GROUPS else [],
        "unpriced": [
            {"backend_kind": row["backend_kind"], "model": row["model"], "requests": row["measured"]}
            for row in by_model
            if not row["priced"] and row["measured"]
        ],
    }


def _charged(connection: Connection) -> list[str]:
    """The models that were last used with a service that charges."""
    found = []
    for model in lost.names(connection, "model", MODELS):
        latest = select(_columns.backend_kind).where(_columns.model == model).order_by(_columns.id.desc())
        if connection.scalar(latest.limit(1)) in VENDORS:
            found.append(model)
    return found


def _summed(rows: list[Row], *names: str) -> list[Row]:
    """The rows added up by some of their names, dearest first."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    added = [dict(zip(names, key, strict=True)) | _amounts(parts) for key, parts in groups.items()]
    return sorted(added, key=lambda row: (-(row["cost_usd"] or 0.0), -row["requests"]))


def _amounts(rows: list[Row]) -> Row:
    counts = {name: sum(row[name] for row in rows) for name in ("requests", "priced", "measured")}
    return counts | {name: _total(row[name] for row in rows) for name in SUMS}


def _total(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    if not known:
        return None
    total = sum(known)
    return (
        round(float(total), 9) if isinstance(known[0], float) else int(total)
    )  # decimals are sums of integers


def _reads(row: Row) -> float | None:
    """Tokens read for each that was written; None where none was, or where none of the two is known."""
    written = (row["written_tokens"] or 0) + (row["written_1h_tokens"] or 0)
    return round(row["cached_tokens"] / written, 2) if written and row["cached_tokens"] is not None else None


def _break_even(row: Row, prices: Prices) -> Row:
    """Reads per write from which caching is cheaper than none; None where there is no price."""
    price = prices.find(row["backend_kind"], row["model"])
    found = break_even(price) if price is not None else None
    return {"break_even": found.write if found else None, "break_even_1h": found.write_1h if found else None}
