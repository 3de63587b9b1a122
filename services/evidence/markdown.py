"""The results of a run as Markdown: a table, reuse by turn, gaps with their causes, the proxy's own cost."""

from collections.abc import Sequence
from typing import Any

from services.evidence.scenarios import load

HEAD = (
    "scenario", "requests", "predicted", "measured", "hits", "cold p50 / p95", "warm p50 / p95", "speed-up",
    "tokens saved",
)  # fmt: skip


def render(found: dict[str, Any]) -> str:
    """The whole page, from what `results.summary` and the command put together."""
    scenarios = {**found["scenarios"], "all": found["all"]}
    rows = [cells(name, figures) for name, figures in scenarios.items()]
    legend = [f"- **{one.name}**, {one.title}" for one in load().scenario if one.name in scenarios]
    parts = ["# The five scenarios", _about(found), "\n".join(legend), table(HEAD, rows)]
    return "\n\n".join([*parts, _turns(found), _gaps(found), _overhead(found["overhead_ms"])]) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cells(name: str, figures: dict[str, Any]) -> list[str]:
    """One scenario as a row of `HEAD`."""
    ttft, speed = figures["ttft_ms"], figures["speedup"]
    hits = ", ".join(f"{hit} {count}" for hit, count in figures["hits"].items())
    return [
        name,
        str(figures["requests"]),
        percent(figures["predicted_reuse"]),
        percent(figures["measured_reuse"]),
        hits,
        f"{_ms(ttft['cold_p50'])} / {_ms(ttft['cold_p95'])}",
        f"{_ms(ttft['warm_p50'])} / {_ms(ttft['warm_p95'])}",
        f"{speed['median']} × ({speed['low']} to {speed['high']})" if speed["median"] else "not measured",
        "not reported" if figures["tokens_saved"] is None else f"{figures['tokens_saved']:,}",
    ]


def percent(share: float | None) -> str:
    """A share as people read it."""
    return "not reported" if share is None else f"{share:.1%}"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} ms"


def _about(found: dict[str, Any]) -> str:
    engine, run = found["engine"], found["run"]
    start = "a prefix no earlier run has sent" if run["cold"] else "whatever an earlier run left warm"
    what = " ".join(filter(None, (engine["kind"], engine["version"])))
    return (
        f"Measured on {run['date']} with {engine['model']} on {what or 'an unknown server'}, "
        f"{engine['cpus']} CPUs ({engine['platform']}), in {run['seconds']} s: scale {run['scale']:g}, "
        f"length {run['length']:g}, seed {run['seed']}, starting from {start}. Times are to the first token; "
        "predicted is what the proxy expected, measured what the server itself reported."
    )


def _turns(found: dict[str, Any]) -> str:
    lines = []
    for name, figures in found["scenarios"].items():
        turns = figures["reuse_by_turn"]
        if name == "C" and any(share is not None for share in turns):
            lines.append(f"Scenario {name}, measured reuse by turn: {', '.join(map(percent, turns))}.")
    return "\n".join(lines) or "Reuse by turn was not reported by this server."


def _gaps(found: dict[str, Any]) -> str:
    lines = []
    for name, figures in found["scenarios"].items():
        gap = figures["gap"]
        if gap["requests"]:
            causes = ", ".join(f"{code} {count}" for code, count in gap["causes"].items())
            lines.append(
                f"Scenario {name}: {gap['requests']} of {figures['requests']} requests were measured more "
                f"than 5 points below the prediction ({causes})."
            )
    return "\n".join(lines) or "No request was measured more than 5 points below its prediction."


def _overhead(overhead: dict[str, Any]) -> str:
    if not overhead["pairs"]:
        return "The proxy's own cost was not measured: no pair of proxied and direct requests came to an end."
    difference, own = overhead["difference"], overhead["own"]
    return (
        f"The proxy's own cost, from {overhead['pairs']} pairs of the same bytes, alternating: "
        f"{overhead['proxied_p50']} ms to the first token through it and "
        f"{overhead['direct_p50']} ms directly (medians); difference {difference['median']} ms, from "
        f"{difference['low']} to {difference['high']} ms. By its own clock it added {own['p50']} ms "
        f"(p95 {own['p95']} ms)."
    )
