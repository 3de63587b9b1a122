"""``metalanchor lineages`` lists conversations by their latest request: sent, reused, lost."""

import click

from services.cli.errors import Failure
from services.cli.history import reading
from services.cli.output import as_json, print_json, print_rows
from services.settings import load

COLUMNS = (
    "lineage", "last_agent", "last_model", "requests", "last_at", "prompt_tokens", "cached_tokens",
    "lost_tokens", "last_hit", "last_cause",
)  # fmt: skip
SPARE = ("last_hit", "last_at", "last_model", "last_agent", "last_cause", "requests", "cached_tokens")


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=30, show_default=True, help="Rows to show.")
@click.option("--cursor", help="Continue after a page, from its `next`.")
@as_json
def lineages(limit: int, cursor: str | None, as_json: bool) -> None:
    """List the conversations that continue one another, latest first."""
    settings = load()
    from services.history.queries import BadCursor, list_lineages  # noqa: PLC0415 - SQLAlchemy is slow

    with reading(settings) as connection:
        try:
            page = list_lineages(connection, cursor, limit)
        except BadCursor as error:
            raise Failure(f"--cursor: {error}.") from None
    if as_json:
        print_json(page)
        return
    print_rows(page["items"], COLUMNS, spare=SPARE)
    if page["next"]:
        click.echo(f"More: --cursor {page['next']}", err=True)
