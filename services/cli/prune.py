"""``metalanchor prune`` deletes old history now, in the worker's small steps."""

import datetime as dt
import sys

import click

from services.cli.history import history_errors, refuse_absent
from services.cli.output import as_json, print_json, progress
from services.settings import load


@click.command()
@click.option(
    "--days", type=click.FloatRange(0), help="Keep this many days instead of METALANCHOR_RETENTION_DAYS."
)
@as_json
def prune(days: float | None, as_json: bool) -> None:
    """Delete history older than the retention time."""
    settings = load()
    kept = settings.retention_days if days is None else days
    with history_errors():
        refuse_absent(settings)
        from services.logger.retention import cutoff, prune  # noqa: PLC0415

        before = cutoff(kept)
        if as_json or not sys.stderr.isatty():
            deleted = prune(settings.database, before)
        else:
            deleted = _with_bar(settings.database, before)
    if as_json:
        print_json({"deleted": deleted, "before": before.isoformat()})
    else:
        click.echo(f"Deleted {deleted} requests received before {before:%Y-%m-%d %H:%M} UTC.")


def _with_bar(url: str, before: dt.datetime) -> int:
    from services.logger.retention import prune  # noqa: PLC0415

    with progress() as bar:
        task = bar.add_task("Deleting", total=None)
        return prune(url, before, lambda done, total: bar.update(task, completed=done, total=total))
