"""A report as one HTML file that needs nothing else: charts are SVG, style is inside, there is no script."""

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from services.report import charts
from services.report.tables import Cell, label, tables
from services.report.text import title

_folder = files(__package__)
STYLE = _folder.joinpath("report.css").read_text("utf-8")
_template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    _folder.joinpath("report.html").read_text("utf-8")
)
# What the page may do where it is served: show itself, with exactly this style.
CSP = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    + "'"
)


def page(report: dict[str, Any]) -> str:
    """The whole file."""
    return _template.render(
        title=title(report),
        style=Markup(STYLE),  # noqa: S704 - our own file
        report=report,
        charts=_charts(report),
        tables=tables(report),
        cell=shown,
    )


def shown(value: Cell) -> str:
    """A value as a cell shows it; unknown is a dash, never zero."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int | float) else value


def _charts(report: dict[str, Any]) -> list[tuple[str, str, Markup]]:
    """(heading, legend, drawing) of each chart that has something to show."""
    made: list[tuple[str, str, str]] = []
    if hours := report["hit_rate"]:
        made.append(_over_time(hours))
    if report["total"] and (drawn := _times(report["total"])):
        made.append(drawn)
    losses = [row for row in report["losses"] if row["lost_ms"]][:12]
    if losses:
        values = [row["lost_ms"] / 1e3 for row in losses]
        drawing = charts.bars("Seconds lost by cause", [row["cause"] for row in losses], values, "s")
        made.append(("Time lost by cause", "", drawing))
    for heading, name in (
        ("Session lengths (requests)", "session_lengths"),
        ("Message sizes (bytes)", "message_sizes"),
    ):
        buckets = report[name]
        if any(row["count"] for row in buckets):
            names = [label(row["up_to"], buckets) for row in buckets]
            made.append((heading, "", charts.columns(heading, names, [row["count"] for row in buckets])))
    return [(heading, legend, Markup(drawing)) for heading, legend, drawing in made]  # noqa: S704 - escaped


def _over_time(hours: list[dict[str, Any]]) -> tuple[str, str, str]:
    names = [row["hour"].removesuffix(":00Z") for row in hours]
    drawn = [
        charts.Line("measured", "a", [row["measured_reuse"] for row in hours]),
        charts.Line("predicted", "b", [row["predicted_reuse"] for row in hours]),
        charts.Line("hit anything", "c", [row["hit_rate"] for row in hours]),
    ]
    drawing = charts.lines("Reuse and hit rate by hour", names, drawn, 1.0, "%")
    return "Reuse and hit rate by hour (UTC)", "abc", drawing


def _times(total: dict[str, Any]) -> tuple[str, str, str] | None:
    names, values = [], []
    for heat in ("warm", "cold"):
        for rank in ("p50", "p95", "p99"):
            if figures := total["ttft_ms"].get(heat):
                names.append(f"{heat} {rank}")
                values.append(figures[rank])
    if not names:
        return None
    return "Time to first token", "", charts.bars("Time to first token by percentile", names, values, "ms")
