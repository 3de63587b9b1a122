"""A report as Markdown and as CSV."""

import csv
import io
from typing import Any

from services.report.tables import TEMPERATURES, Cell, Table, tables

FIGURES = (
    "group", "requests", "measured", "prompt_tokens", "cached_tokens", "measured_reuse", "predicted_reuse",
    "completion_tokens", "lost_tokens", "lost_ms", "prefill_ms", "cost_usd", "savings_usd",
)  # fmt: skip
NESTED = [
    (name, temperature, rank)
    for name in ("ttft_ms", "total_ms")
    for temperature in TEMPERATURES
    for rank in ("count", "p50", "p95", "p99")
]
# What a Markdown reader takes for markup, and an HTML one.
ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "\\|`*_["} | {"<": "&lt;"})


def markdown(report: dict[str, Any]) -> str:
    """The whole report as a Markdown page."""
    made = tables(report)
    parts = [f"# {title(report)}", ""]
    if not made:
        parts += ["There are no requests in this span.", ""]
    for table in made:
        parts += [f"## {table.title}", "", table.note, "", _grid(table), ""]
    return "\n".join(parts)


def title(report: dict[str, Any]) -> str:
    """What the report is about."""
    first, last = report["since"] or "from the beginning", report["until"] or report["made_at"]
    return f"MetalAnchor report, {first} to {last}"


def comma_separated(report: dict[str, Any]) -> str:
    """The figures in all, or of each group, one line each; nested ones have dotted names."""
    spent = report["costs"] or {"cost_usd": None, "savings_usd": None}
    rows = report["groups"] if report["by"] else [{**spent, **report["total"]}] if report["total"] else []
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([report["by"] or "group", *FIGURES[1:], *map(".".join, NESTED)])
    for row in rows:
        nested = [row[name].get(temperature, {}).get(rank) for name, temperature, rank in NESTED]
        values = [*(row[name] for name in FIGURES), *nested]
        writer.writerow(["" if value is None else value for value in values])
    return out.getvalue()


def _grid(table: Table) -> str:
    lines = [list(table.head), ["---"] * len(table.head), *([cell(v) for v in row] for row in table.rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(value: Cell) -> str:
    """A value on one line that no Markdown or HTML reader takes for markup."""
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return "".join(char if char.isprintable() else " " for char in str(value)).translate(ESCAPED)
