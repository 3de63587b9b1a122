"""``metalanchor top`` shows what is under way and what has just ended, live on a terminal."""

import datetime as dt
import sys
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import click

from services.cli.errors import Failure, Unreachable
from services.cli.live import follow
from services.cli.output import Row, as_json, cell, print_json, print_rows
from services.cli.requests import colour
from services.settings import Settings, load

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

REFRESHES_A_SECOND = 4
AGAIN_S = 1.0
REMEMBERED = 200
UNDERWAY = ("phase", "progress", "elapsed_s", "agent", "session", "model", "hit", "predicted", "id")
ENDED = (
    "time",
    "agent",
    "session",
    "model",
    "hit",
    "predicted",
    "measured",
    "ttft_ms",
    "cause",
    "status",
    "id",
)


class Board:
    """What is known of the running proxy; written by the follower's thread, read by the screen's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: OrderedDict[str, Row] = OrderedDict()
        self._underway: list[Row] = []
        self._seen = time.monotonic()
        self.total = 0
        self.trouble: str | None = "Connecting …"

    def take(self, name: str, data: Any) -> None:
        """Take one event in."""
        with self._lock:
            self.trouble = None
            if name == "underway":
                self._underway, self.total, self._seen = data["items"], data["total"], time.monotonic()
            elif name in {"history", "ended"}:
                for row in data["items"]:
                    self._ended[row["id"]] = row
                while len(self._ended) > REMEMBERED:
                    self._ended.popitem(last=False)

    def underway(self) -> list[Row]:
        """Requests that have not ended, oldest first, with the time that has passed since they were told."""
        with self._lock:
            since = time.monotonic() - self._seen
            return [_underway(row, since) for row in self._underway]

    def ended(self, count: int) -> list[Row]:
        """The last ones that ended, newest first."""
        with self._lock:
            rows = list(self._ended.values())[-count:] if count > 0 else []
        return [_ended(row) for row in reversed(rows)]


@click.command()
@click.option("--once", is_flag=True, help="Print one snapshot and end, as in a pipe.")
@click.option("--all", "everything", is_flag=True, help="Include probes and management calls.")
@as_json
def top(once: bool, everything: bool, as_json: bool) -> None:
    """Show requests under way and those that ended last, live until Ctrl-C."""
    settings = load()
    if once or as_json or not sys.stdout.isatty():
        _snapshot(settings, everything, as_json)
    else:
        _live(settings, everything)


def _snapshot(settings: Settings, everything: bool, as_json: bool) -> None:
    board = Board()
    for name, data in follow(settings, everything=everything):
        board.take(name, data)
        if name == "underway":
            break
    underway, ended = board.underway(), board.ended(20)
    if as_json:
        print_json({"underway": underway, "ended": ended})
        return
    click.echo(f"Under way: {board.total}")
    if underway:
        print_rows(underway, UNDERWAY)
    click.echo("\nEnded last:")
    print_rows(ended, ENDED, colour)


def _live(settings: Settings, everything: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes never need it
    from rich.live import Live  # noqa: PLC0415

    board, console = Board(), Console(highlight=False)
    threading.Thread(target=_feed, args=(board, settings, everything), daemon=True).start()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_screen(board, console.size.height), refresh=True)
            time.sleep(1 / REFRESHES_A_SECOND)


def _feed(board: Board, settings: Settings, everything: bool) -> None:
    while True:
        try:
            for name, data in follow(settings, everything=everything):
                board.take(name, data)
        except (Failure, Unreachable) as error:
            board.trouble = error.message
        time.sleep(AGAIN_S)


def _screen(board: Board, height: int) -> "Group":
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    underway = board.underway()
    shown = underway[: max(3, height // 2)]
    head = Text(board.trouble, style="yellow") if board.trouble else Text(f"{board.total} under way")
    ended = board.ended(height - len(shown) - 6)
    return Group(head, _table(UNDERWAY, shown), Text(), _table(ENDED, ended, styled=True))


def _table(columns: tuple[str, ...], rows: list[Row], *, styled: bool = False) -> "Table":
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False, expand=True)
    for name in columns[:-1]:  # ids are for programs; a screen has no room for them
        table.add_column(name.replace("_", " "), no_wrap=True, overflow="ellipsis")
    for row in rows:
        values = [Text(cell(row.get(name))) for name in columns[:-1]]
        table.add_row(*values, style=colour(row) if styled else None)
    return table


def _underway(row: Row, since: float) -> Row:
    progress = row.get("progress")
    return {
        "phase": row["phase"] + (f" ({row['ahead']} before)" if row["ahead"] else ""),
        "progress": _progress(progress) if progress else None,
        "elapsed_s": round(row["elapsed_ms"] / 1e3 + since, 1),
        "agent": row["agent"],
        "session": (row["session"] or "")[:12],
        "model": row["model"],
        "hit": row["hit"],
        "predicted": _percent(row["predicted_reuse"]),
        "id": row["id"],
    }


def _progress(progress: dict[str, Any]) -> str:
    share = progress["done"] / progress["total"] if progress["total"] else 0.0
    about = "" if progress["source"] == "engine" else "about "
    return f"{about}{min(share, 1.0):.0%} of {progress['total']:,} tokens"


def _ended(row: Row) -> Row:
    cached, prompt = row["cached_tokens"], row["prompt_tokens"]
    moment = dt.datetime.fromisoformat(row["received_at"])
    return {
        "time": moment.astimezone().strftime("%H:%M:%S"),
        "agent": row["agent"],
        "session": (row["session"] or "")[:12],
        "model": row["model"],
        "hit": row["hit"],
        "predicted": _percent(row["predicted_reuse"]),
        "measured": _percent(cached / prompt) if cached is not None and prompt else None,
        "ttft_ms": None if row["ttft_ms"] is None else round(row["ttft_ms"]),
        "cause": row["cause"],
        "status": row["status"],
        "id": row["id"],
    }


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
