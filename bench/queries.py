"""How long the questions of the dashboard and the report take, at 10,000 rows and at a million.

    python -m bench.queries [--rows 1000000] [--json bench/results/queries.json] [--only sqlite]

Rows lie over 90 days, so a page of the last day looks at 1/90 of them and a report of a week at 7/90; their
rollups are computed first, as the worker does. Each question is asked up to 20 times on a warm database; p95
is the second slowest of 20. PostgreSQL runs with its durable defaults and 128 MB of buffers.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench._query_history import fill
from services.history import lost, queries, repeats, reports
from services.history.console import run_sql
from services.history.engine import open_engine
from services.history.queries import Filters
from services.history.ready import QUERIES
from services.history.series import series
from services.report.document import MOST_GROUPS
from tests.support.postgres import running

LIMIT_MS = 100.0
SMALL = 10_000
ROUNDS, LEAST, ENOUGH_S = 20, 3, 1.5
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "128MB"}
Question = Callable[[Any], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name, opened in (("sqlite", sqlite), ("postgresql", postgres)):
        if options.only in {None, name}:
            results[name] = {rows: measured(opened, rows) for rows in (SMALL, options.rows)}
    told = report(results, options.rows)
    if options.json:
        options.json.write_text(json.dumps(told, indent=2) + "\n")


@contextmanager
def sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="ma-bench-") as folder:
        yield f"sqlite:///{folder}/history.sqlite"


@contextmanager
def postgres() -> Iterator[str]:
    with running(settings=DURABLE) as server, server.database() as url:
        yield url


def measured(opened: Any, rows: int) -> dict[str, dict[str, dict[str, float]]]:
    """Times of every question over a history of that many rows, by group and name."""
    with opened() as url:
        began = time.perf_counter()
        fill(url, rows)
        print(f"{rows:,} rows filled in {time.perf_counter() - began:.0f} s", flush=True)
        engine = open_engine(url, read_only=True)
        with engine.connect() as connection:
            found = {
                group: {name: timed(lambda q=question: q(connection)) for name, question in asked.items()}
                for group, asked in questions(url).items()
            }
        engine.dispose()
    return found


def questions(url: str) -> dict[str, dict[str, Question]]:
    """Everything that the pages and the report ask, and the ready queries over the whole history."""
    now = datetime.now(UTC)
    spans = {
        name: now - timedelta(hours=hours)
        for name, hours in (("1h", 1), ("24h", 24), ("7d", 168), ("30d", 720))
    }
    shown = Filters(kind="generation")
    return {
        "dashboard": {**_lists(shown), **_pages(spans, now)},
        "report": {
            f"{name} {span}": question
            for span in ("24h", "7d")
            for name, question in _report(Filters(kind="generation", since=spans[span])).items()
        },
        "ready": {ready.name: lambda _, sql=ready.sql: run_sql(url, sql, timeout=30) for ready in QUERIES},
    }


def _lists(shown: Filters) -> dict[str, Question]:
    def listed(**conditions: str) -> Question:
        return lambda c: queries.list_requests(c, Filters(kind="generation", **conditions), None, 50)

    return {
        "requests": listed(),
        "requests of an agent": listed(agent="aider"),
        "requests of a model": listed(model="gpt-oss:20b"),
        "requests with a hit": listed(hit="exact"),
        "requests with a cause": listed(cause="compaction"),
        "requests that failed": listed(status="upstream_error"),
        "requests of an agent with a cause": listed(agent="aider", cause="compaction"),
        "requests, a later page": lambda c: queries.list_requests(c, shown, "0199", 50),
        "sessions": lambda c: queries.list_sessions(c, None, 50),
        "lineages": lambda c: queries.list_lineages(c, None, 50),
        "names of agents": lambda c: lost.names(c, "agent"),
        "names of models": lambda c: lost.names(c, "model"),
    }


def _pages(spans: dict[str, datetime], now: datetime) -> dict[str, Question]:
    steps = {"1h": 60, "24h": 900, "7d": 3_600, "30d": 21_600}
    made: dict[str, Question] = {
        f"series {span}": lambda c, s=span: series(
            c, Filters(kind="generation", since=spans[s]), steps[s], now
        )
        for span in steps
    }
    made["who lost the most, 1h"] = lambda c: lost.losers(c, spans["1h"])
    made["figures, 1h"] = lambda c: reports.figures(c, Filters(kind="generation", since=spans["1h"]))
    made["losses, 24h"] = lambda c: reports.losses(c, Filters(since=spans["24h"]))
    return made


def _report(chosen: Filters) -> dict[str, Question]:
    return {
        "figures": lambda c: reports.figures(c, chosen),
        **{
            f"figures by {by}": lambda c, by=by: reports.figures(c, chosen, by, MOST_GROUPS)
            for by in reports.GROUPS
        },
        "losses": lambda c: reports.losses(c, chosen),
        "longest losses": lambda c: reports.longest_losses(c, chosen),
        "hit rate": lambda c: reports.hit_rate(c, chosen),
        "session lengths": lambda c: reports.session_lengths(c, chosen),
        "request sizes": lambda c: reports.request_sizes(c, chosen),
        "message sizes": lambda c: repeats.message_sizes(c, chosen),
        "shared system prompts": lambda c: reports.shared(c, chosen, "system_hash"),
        "shared tools": lambda c: reports.shared(c, chosen, "tools_hash"),
        "repeated tool calls": lambda c: repeats.repeated_calls(c, chosen),
        "moved chunks": lambda c: repeats.moved_chunks(c, chosen),
    }


def timed(question: Callable[[], Any]) -> dict[str, float]:
    """p50 and p95 in milliseconds, after one that does not count; `cpu_p50` is this process's own part."""
    times: list[float] = []
    spent: list[float] = []
    began = time.perf_counter()
    question()
    while len(times) < ROUNDS and (len(times) < LEAST or time.perf_counter() - began < ENOUGH_S):
        start, used = time.perf_counter(), time.thread_time()
        question()
        times.append((time.perf_counter() - start) * 1e3)
        spent.append((time.thread_time() - used) * 1e3)
    times.sort()
    p95 = times[max(0, -(-len(times) * 95 // 100) - 1)]
    return {
        "p50": round(statistics.median(times), 2),
        "p95": round(p95, 2),
        "cpu_p50": round(statistics.median(spent), 2),
        "rounds": len(times),
    }


def report(results: dict[str, Any], rows: int) -> dict[str, Any]:
    """Print the table; the answer is what goes to the file."""
    told: dict[str, Any] = {
        "command": f"python -m bench.queries --rows {rows}",
        "rows": rows,
        "small": SMALL,
        "days": 90,
        "limit_ms": LIMIT_MS,
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "databases": {},
    }
    for database, found in results.items():
        told["databases"][database] = {}
        for group, asked in found[rows].items():
            print(
                f"\n{database}, {group}: ms at {rows:,} rows (p50, p95, CPU here), and growth from {SMALL:,}"
            )
            entries = {}
            for name, times in asked.items():
                small = found[SMALL][group][name]
                entry = {
                    **times,
                    "small_p50": small["p50"],
                    "growth": round(times["p50"] / max(small["p50"], 0.01), 1),
                }
                entries[name] = entry
                over = "  over" if times["p95"] > LIMIT_MS else ""
                figures = f"{times['p50']:9.1f} {times['p95']:9.1f} {times['cpu_p50']:9.1f}"
                print(f"  {name:36} {figures}  x{entry['growth']:<6}{over}", flush=True)
            told["databases"][database][group] = entries
    return told


if __name__ == "__main__":
    main()
