"""``metalanchor export`` writes the rows of the history to a file: Parquet, CSV or JSON lines."""

import sys
from pathlib import Path
from typing import Any

import click

from services.cli.errors import Failure
from services.cli.history import reading
from services.cli.times import Moment
from services.settings import load

FORMATS = ("parquet", "csv", "jsonl")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Format of FILE; by default its extension says."
)
@click.option("--since", type=Moment(), help="From this time on: an age (24h) or an ISO time, in UTC.")
@click.option("--until", type=Moment(), help="Up to this time.")
@click.option("--agent", help="Only this agent.")
@click.option("--session", help="Only this session.")
@click.option("--model", help="Only this model.")
@click.option("--all", "everything", is_flag=True, help="Include probes and management calls.")
def export(file: Path, form: str | None, everything: bool, **filters: Any) -> None:
    """Write the rows to FILE, oldest first; `-` is standard output."""
    chosen = form or file.suffix.lstrip(".").lower()
    if chosen not in FORMATS:
        raise click.UsageError(f"{file} ends in none of {', '.join('.' + f for f in FORMATS)}; use --format.")
    if not everything:
        filters["kind"] = "generation"
    with reading(load()) as connection:
        from services.history.export import MissingPackage, write_rows  # noqa: PLC0415
        from services.history.queries import Filters  # noqa: PLC0415

        try:
            if str(file) == "-":
                write_rows(connection, Filters(**filters), chosen, sys.stdout.buffer)
            else:
                count = _to_file(connection, Filters(**filters), chosen, file)
                click.echo(f"Wrote {count:,} rows to {file}.", err=True)
        except MissingPackage as error:
            raise Failure(str(error)) from None
        except BrokenPipeError:  # whoever reads standard output has seen enough
            raise
        except OSError as error:
            raise Failure(f"{file} cannot be written: {error.strerror or error}.") from None


def _to_file(connection: Any, filters: Any, form: str, file: Path) -> int:
    from services.history.export import write_rows  # noqa: PLC0415

    partial = file.with_name(f".{file.name}.part")
    try:
        with partial.open("wb") as target:
            count = write_rows(connection, filters, form, target)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return count
