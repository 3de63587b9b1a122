"""``metalanchor status`` says whether each part is up, and with ``--config`` which settings are in force."""

from typing import Any

import click

from services.cli import client
from services.cli.output import Row, as_json, print_json, print_rows
from services.settings import HELP, PREFIX, explain

COLOURS = {"up": "green", "ok": "green", "degraded": "yellow", "unknown": "yellow", "down": "red"}


@click.command()
@click.option("--config", is_flag=True, help="Show each setting and where its value came from.")
@as_json
def status(config: bool, as_json: bool) -> int:
    """Say whether each part is up, or show the settings.

    Exit code: 0 all up, 4 degraded, 3 down or not running.
    """
    settings, rows = explain()
    if config:
        _print_settings([{"name": r.name, "value": r.value, "source": r.source} for r in rows], as_json)
        return 0
    found = client.status(settings)
    if as_json:
        print_json(found)
    else:
        click.echo(f"MetalAnchor {found.get('version')}: {found.get('status')}")
        print_rows(parts(found), ("part", "status", "about"), lambda row: COLOURS.get(row["status"], ""))
    return {"ok": 0, "degraded": 4}.get(found.get("status", ""), 3)


def parts(found: dict[str, Any]) -> list[Row]:
    """The parts of a ``/status`` answer as rows: part, status, what else is to say."""
    rows: list[Row] = []
    for backend in found.get("backends") or [found.get("backend") or {}]:
        kind = " ".join(str(v) for v in (backend.get("kind"), backend.get("version")) if v)
        about = f"{kind or 'not known yet'} at {backend.get('url')}"
        rows.append(_row("backend", backend.get("status"), about))
    redis, state, queue = (found.get(name) or {} for name in ("redis", "state", "queue"))
    rows.append(_row("redis", redis.get("status"), f"hit state kept in {_place(state.get('mode'))}"))
    rows.append(_row("queue", redis.get("status"), f"{queue.get('depth')} batches waiting"))
    worker, database = found.get("worker") or {}, found.get("database") or {}
    alive = "up" if worker.get("alive") else "down"
    rows.append(_row("worker", alive, f"last seen {worker.get('last_seen') or 'never'}"))
    rows.append(_row("database", database.get("status"), database.get("error") or database.get("kind")))
    rows.append(_spool(found))
    if (found.get("bodies") or {}).get("kept"):
        lost = (found.get("dropped") or {}).get("bodies")
        rows.append(_row("bodies", "up", f"requests and answers are stored themselves, {lost} dropped"))
    return rows


def _spool(found: dict[str, Any]) -> Row:
    """What waits on disk, and whether the data folder takes anything at all."""
    spool, dropped = found.get("spool") or {}, found.get("dropped") or {}
    waiting, lost = spool.get("records") or 0, sum(dropped.values())
    error = spool.get("error") or (found.get("journal") or {}).get("error")
    about = f"{waiting} rows on disk, {lost} dropped"
    if error:
        about += f"; the data folder cannot be written ({error})"
    return _row("spool", "degraded" if waiting or error else "up", about)


def _row(part: str, status: str | None, about: object) -> Row:
    return {"part": part, "status": status or "unknown", "about": about}


def _place(mode: str | None) -> str:
    return "Redis" if mode == "redis" else "this process alone"


def _print_settings(rows: list[Row], as_json: bool) -> None:
    for row in rows:
        row["variable"] = PREFIX + row["name"].upper()
        row["meaning"] = HELP[row["name"]]
    if as_json:
        print_json({"items": rows, "next": None})
    else:
        print_rows(rows, ("variable", "value", "source", "meaning"))
