"""How commands print: a table on a terminal, tab-separated text in a pipe, JSON when asked.

All three show the same values; None is an empty cell in text and null in JSON, never zero.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from rich.progress import Progress

Row = dict[str, Any]

GAP = 2  # between two columns of a table: rich pads each by one on either side, and not the edges

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Any) -> None:
    """One JSON document, readable."""
    # As bytes: JSON is UTF-8, whatever the locale.
    click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2))


def print_rows(
    rows: Iterable[Row],
    columns: Sequence[str],
    style: Callable[[Row], str] | None = None,
    *,
    spare: Sequence[str] = (),
) -> None:
    """Rows by column name. `style` colours a row on a terminal.

    The `spare` columns give way in their order where a terminal is too narrow: a row that is folded into
    columns of three letters can neither be read nor copied from.
    """
    listed = list(rows)
    styles = [style(row) for row in listed] if style else []
    shown = _fitting(listed, columns, spare) if spare and sys.stdout.isatty() else columns
    print_table(shown, [[row.get(name) for name in shown] for row in listed], styles)
    if len(shown) < len(columns):
        hidden = ", ".join(name for name in columns if name not in shown)
        click.echo(f"A wider terminal also shows {hidden}; --json shows everything.", err=True)


def _fitting(rows: Sequence[Row], columns: Sequence[str], spare: Sequence[str]) -> list[str]:
    """The columns that fit side by side."""
    from rich.cells import cell_len  # noqa: PLC0415 - slow to import, and pipes never need it
    from rich.console import Console  # noqa: PLC0415

    width = {
        name: GAP + max([cell_len(name), *(cell_len(cell(row.get(name))) for row in rows)])
        for name in columns
    }
    shown, room = list(columns), Console().width + GAP  # nothing stands behind the last one
    for name in spare:
        if sum(width[one] for one in shown) <= room:
            break
        shown.remove(name)
    return shown


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], styles: Sequence[str] = ()) -> None:
    """A table on a terminal, tab-separated lines with a head line elsewhere."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            click.echo("\t".join(cell(value) for value in row))
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes never need it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(Text(name.replace("_", " ")), overflow="fold")
    for number, row in enumerate(rows):
        style = styles[number] if styles else None
        table.add_row(*(Text(cell(value)) for value in row), style=style)  # Text: values hold no markup
    Console(highlight=False).print(table)


def progress() -> "Progress":
    """A progress bar on standard error, gone when it ends; only for a terminal."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes never need it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn  # noqa: PLC0415

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def cell(value: Any) -> str:
    """One value as text on one line."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, list | tuple | dict):
        return msgspec.json.encode(value, enc_hook=str).decode()
    # Names come from strangers: neither a line break nor an escape sequence may reach the terminal.
    return "".join(char if char.isprintable() else " " for char in str(value))
