"""How `metalanchor watch` looks: a line for each interval, and on a terminal small plots above a table.

It owns what the screen remembers. Unknown figures are blanks, never zeros.
"""

import datetime as dt
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from services.cli.output import Row, cell
from services.watch.reading import Interval, Reading

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

NAMES = {
    "vllm": "vLLM",
    "vllm-v1-early": "vLLM (V1, 0.8 and 0.9)",
    "vllm-v0": "vLLM (V0)",
    "llama-server": "llama-server",
    "vllm-mlx": "vllm-mlx",
    "rapid-mlx": "Rapid-MLX",
}
COLUMNS = (
    "time", "hit_rate", "looked_up", "found", "kv_usage", "running", "waiting", "prompt_per_s",
    "generated_per_s", "note",
)  # fmt: skip
REMEMBERED = 1_000
PLOT_HEIGHT = 4
BLOCKS = " ▁▂▃▄▅▆▇█"
REFRESH_S = 0.25


def head_line(base: str, reading: Reading) -> str:
    """What is watched, and in which unit its hits count."""
    what = NAMES.get(reading.exporter, reading.exporter)
    model = f", {reading.model}" if reading.model else ""
    unit = {
        "tokens": "hits count prompt tokens",
        "lookups": "hits count lookups, however long",
        None: "it tells only a mean hit rate since its start"
        if reading.hit_rate is not None
        else "no hit counter",
    }[reading.unit]
    return cell(f"{what} at {base}{model}; {unit}")


def row_of(look: tuple[Reading, Interval] | str, *, since_start: bool = False) -> Row:
    """One look as plain data; shares are 0 to 1, None is unknown."""
    if isinstance(look, str):
        return {"at": _iso(time.time()), "error": look}
    reading, interval = look
    return {
        "at": _iso(reading.at),
        "since_start": since_start,
        "interval_s": interval.seconds,
        "exporter": reading.exporter,
        "model": reading.model,
        "restarted": interval.restarted,
        "unit": reading.unit,
        "lookups": interval.lookups,
        "hits": interval.hits,
        "hit_rate": interval.hit_rate,
        "hit_rate_source": interval.hit_rate_source,
        "external_lookups_total": reading.external_lookups,
        "external_hits_total": reading.external_hits,
        "kv_usage": reading.kv_usage,
        "running": reading.running,
        "waiting": reading.waiting,
        "prompt_tokens": interval.prompt_tokens,
        "generation_tokens": interval.generation_tokens,
        "prompt_tokens_per_s": interval.per_second("prompt_tokens"),
        "generation_tokens_per_s": interval.per_second("generation_tokens"),
    }


def cells_of(row: Row) -> list[str]:
    """A row as people read it, in the order of `COLUMNS`."""
    local = dt.datetime.fromisoformat(row["at"]).astimezone().strftime("%H:%M:%S")
    if "error" in row:
        return [local, *[""] * (len(COLUMNS) - 2), cell(row["error"])]
    mean = "≈" if row["hit_rate_source"] == "gauge" else ""
    return [
        local,
        _percent(row["hit_rate"], mean),
        _number(row["lookups"]),
        _number(row["hits"]),
        _percent(row["kv_usage"]),
        _number(row["running"]),
        _number(row["waiting"]),
        _number(row["prompt_tokens_per_s"]),
        _number(row["generation_tokens_per_s"]),
        _note(row),
    ]


def print_line(row: Row, *, as_json: bool, first: bool) -> None:
    """One line on standard output, at once, for whoever reads it through a pipe."""
    if as_json:
        click.echo(msgspec.json.encode(row).decode())
    elif sys.stdout.isatty():
        if first:
            click.echo(_aligned(COLUMNS))
        click.echo(_aligned(cells_of(row)))
    else:
        if first:
            click.echo("\t".join(COLUMNS))
        click.echo("\t".join(cells_of(row)))
    sys.stdout.flush()


def _aligned(cells: Sequence[str]) -> str:
    *numbers, note = cells
    return (" ".join(f"{text.replace('_', ' '):>15}" for text in numbers) + f"  {note}").rstrip()


class Board:
    """What has been seen so far; written by the looking thread, read by the screen's."""

    def __init__(self, base: str, first: Reading) -> None:
        self._lock = threading.Lock()
        self._rows: deque[Row] = deque(maxlen=REMEMBERED)
        self.head = head_line(base, first)
        self.trouble: str | None = None

    def take(self, row: Row) -> None:
        """Add one look."""
        with self._lock:
            self.trouble = row.get("error")
            self._rows.append(row)

    def rows(self) -> list[Row]:
        """All that is remembered, oldest first."""
        with self._lock:
            return list(self._rows)


def live(board: Board, looks: Iterator[tuple[Reading, Interval] | str]) -> None:
    """Show the screen until Ctrl-C."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes never need it
    from rich.live import Live  # noqa: PLC0415

    console = Console(highlight=False)
    threading.Thread(target=_feed, args=(board, looks), daemon=True).start()
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            screen.update(draw(board, console.size.width, console.size.height), refresh=True)
            time.sleep(REFRESH_S)


def _feed(board: Board, looks: Iterator[tuple[Reading, Interval] | str]) -> None:
    for number, look in enumerate(looks):
        board.take(row_of(look, since_start=number == 0))


def draw(board: Board, width: int, height: int) -> "Group":
    """The screen: what is watched, the plots, the latest intervals."""
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = board.rows()
    parts: list[Any] = [Text(board.head, style="bold")]
    if board.trouble:
        parts.append(Text(board.trouble, style="yellow"))
    past = [row for row in rows if not row.get("since_start")]
    load = [_load(row) for row in past]
    most = max([1.0, *(value for value in load if value is not None)])
    for title, values, top, style in (
        ("hit rate, 100 % at the top", [row.get("hit_rate") for row in past], 1.0, "green"),
        ("KV cache in use, 100 % at the top", [row.get("kv_usage") for row in past], 1.0, "blue"),
        (f"requests running and waiting, {most:.0f} at the top", load, most, "magenta"),
    ):
        if any(value is not None for value in values):
            parts += [Text(title, style="dim"), *_plot(values, top, width, style)]
    parts += [Text(), _table(rows[-max(1, height - len(parts) - 3) :])]
    return Group(*parts)


def plot(values: Sequence[float | None], top: float, width: int, height: int = PLOT_HEIGHT) -> list[str]:
    """The latest values as columns of block characters, a text for each row; unknown is a gap. Pure."""
    shown = list(values)[-width:]
    steps = len(BLOCKS) - 1
    filled = [_filled(value, top, height * steps) for value in shown]
    return [
        "".join(BLOCKS[min(steps, max(0, level - floor * steps))] for level in filled)
        for floor in reversed(range(height))
    ]


def _filled(value: float | None, top: float, most: int) -> int:
    """How many eighths of a column a value fills: a known one at least one, so that zero is no gap."""
    return 0 if value is None else max(1, round(min(value / top, 1.0) * most))


def _plot(values: Sequence[float | None], top: float, width: int, style: str) -> list["Text"]:
    from rich.text import Text  # noqa: PLC0415

    return [Text(line, style=style, no_wrap=True) for line in plot(values, top, width)]


def _table(rows: Sequence[Row]) -> "Table":
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in COLUMNS:
        table.add_column(name.replace("_", " "), justify="left" if name in {"time", "note"} else "right")
    for row in rows:
        table.add_row(
            *map(Text, cells_of(row)), style="yellow" if row.get("error") or row.get("restarted") else None
        )
    return table


def _load(row: Row) -> float | None:
    known = [row[name] for name in ("running", "waiting") if row.get(name) is not None]
    return sum(known) if known else None


def _note(row: Row) -> str:
    if row["since_start"]:
        return "since the server's start"
    return "the server was restarted" if row["restarted"] else ""


def _percent(share: float | None, before: str = "") -> str:
    return "" if share is None else f"{before}{share:.1%}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _iso(seconds: float) -> str:
    stamp = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
