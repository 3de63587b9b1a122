"""The doctor's check of the price table, and of models that it has no price for."""

from services.cli import client
from services.cli.verdict import Verdict
from services.costs.prices import load_prices
from services.settings import Settings

ADVICE = "Add a row for each to a file, and name it in METALANCHOR_PRICES; docs/costs.md has the shape."


def prices(settings: Settings) -> Verdict:
    """How old the table is, and which models a running proxy found to have no price."""
    rows = load_prices(settings.prices).rows
    about = f"{len(rows)} models, list prices read {max(row.date for row in rows)}"
    unpriced = client.running(settings).get("prices", {}).get("unpriced", [])
    if missing := [row["model"] for row in unpriced]:
        return Verdict("warn", f"{about}; none for {', '.join(missing)}: their costs are unknown", ADVICE)
    return Verdict("ok", about)
