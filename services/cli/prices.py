"""The doctor's check of the price table, and of models that it has no price for."""

from services.cli import client
from services.cli.errors import Failure, Unreachable
from services.cli.verdict import Verdict
from services.costs.prices import load_prices
from services.settings import Settings

ADVICE = "Add a row for each to a file, and name it in METALANCHOR_PRICES; docs/costs.md has the shape."


def prices(settings: Settings) -> Verdict:
    """How old the table is, and which models a running proxy found to have no price."""
    rows = load_prices(settings.prices).rows
    about = f"{len(rows)} models, list prices read {max(row.date for row in rows)}"
    missing = _unpriced(settings)
    if missing:
        return Verdict("warn", f"{about}; none for {', '.join(missing)}: their costs are unknown", ADVICE)
    return Verdict("ok", about)


def _unpriced(settings: Settings) -> list[str]:
    try:
        found = client.get(settings, "/status") or {}
    except (Unreachable, Failure):
        return []
    return [row["model"] for row in found.get("prices", {}).get("unpriced", [])]
