"""``metalanchor report`` sums up a span of the history, for a person or a program."""

from typing import Any

import click

from services.cli import client
from services.cli.history import reading
from services.cli.output import as_json, print_json, print_table
from services.cli.times import Moment
from services.costs.prices import load_prices
from services.settings import Settings, load

GROUPS = ("agent", "session", "model", "cause", "hit", "hour")


@click.command()
@click.option(
    "--since", type=Moment(), default="7d", show_default=True, help="An age (24h) or an ISO time, in UTC."
)
@click.option("--until", type=Moment(), help="Up to this time.")
@click.option("--by", type=click.Choice(GROUPS), help="Also show the figures of each of these.")
@click.option("--agent", help="Only this agent.")
@click.option("--session", help="Only this session.")
@click.option("--model", help="Only this model.")
@click.option("--all", "everything", is_flag=True, help="Include probes and management calls.")
@click.option("--csv", "form", flag_value="csv", help="The figures as comma-separated values.")
@click.option("--md", "form", flag_value="md", help="The report as Markdown.")
@click.option("--html", "form", flag_value="html", help="The report as one page with charts.")
@as_json
def report(*, by: str | None, everything: bool, form: str | None, as_json: bool, **filters: Any) -> None:
    """Sum up the requests of a span of time: hits, reuse, times, and what was lost by which cause."""
    settings = load()
    if not everything:
        filters["kind"] = "generation"
    with reading(settings) as connection:
        from services.history.queries import Filters  # noqa: PLC0415 - SQLAlchemy is slow to import
        from services.report.document import asks_for_words, document, put_words  # noqa: PLC0415

        found = document(connection, Filters(**filters), by, load_prices(settings.prices))
    if asks_for_words(found):
        put_words(found, _words(settings))
    if as_json:
        print_json(found)
    elif form:
        click.echo(_written(found, form).encode(), nl=False)  # for a file: the page says that it is UTF-8
    else:
        _show(found)


def _words(settings: Settings) -> dict[str, str]:
    """The questions that a running proxy's cache knows, by the requests that were answered."""
    try:
        page = client.get(settings, "/api/cache/entries?limit=1000")
    except click.ClickException:  # no proxy, or no cache: the report does without words
        return {}
    return {entry["original"]: entry["question"] for entry in page["items"]}


def _written(found: dict[str, Any], form: str) -> str:
    if form == "html":
        from services.report.page import page  # noqa: PLC0415

        return page(found)
    from services.report.text import comma_separated, markdown  # noqa: PLC0415

    return comma_separated(found) if form == "csv" else markdown(found)


def _show(found: dict[str, Any]) -> None:
    from services.report.tables import tables  # noqa: PLC0415
    from services.report.text import title  # noqa: PLC0415

    click.echo(title(found))
    made = tables(found)
    if not made:
        click.echo("There are no requests in this span. --since 90d looks further back.")
    for table in made:
        click.echo(f"\n{table.title}. {table.note}")
        print_table(table.head, table.rows)
