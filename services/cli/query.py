"""``metalanchor query`` runs one read-only SQL statement on the history."""

import csv
import io
from typing import Any

import click

from services.cli.errors import Failure
from services.cli.history import history_errors, refuse_absent
from services.cli.output import as_json, print_json, print_table
from services.history.ready import QUERIES
from services.settings import load


@click.command()
@click.argument("sql", required=False)
@click.option("--ready", type=click.Choice([query.name for query in QUERIES]), help="Run this ready query.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Rows at most.")
@click.option(
    "--timeout", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Seconds at most."
)
@as_json
def query(
    *, sql: str | None, ready: str | None, as_csv: bool, limit: int, timeout: float, as_json: bool
) -> None:
    """Run one read-only SQL statement on the history.

    The table is `requests`, one row a request; it cannot be written, and no other file can be read.
    """
    if (sql is None) is (ready is None):
        raise click.UsageError("Give one SQL statement, or the name of a ready query with --ready.")
    statement = sql or next(query.sql for query in QUERIES if query.name == ready)
    settings = load()
    with history_errors():
        refuse_absent(settings)
        from services.history.console import Refused, run_sql  # noqa: PLC0415 - SQLAlchemy is slow to import

        try:
            found = run_sql(settings.database, statement, limit, timeout)
        except Refused as error:
            raise Failure(str(error)) from None
    if as_csv:
        _print_csv(found.columns, found.rows)
    else:
        # Two columns may bear one name (SELECT a.id, b.id): a JSON object keeps the last, a table shows both.
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        if as_json:
            print_json({"items": rows, "truncated": found.truncated})
        else:
            print_table(found.columns, found.rows)
    if found.truncated and not as_json:
        click.echo(f"Cut after {limit} rows; --limit sets another number.", err=True)


def _print_csv(columns: list[str], rows: list[list[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    click.echo(text.getvalue().encode(), nl=False)
