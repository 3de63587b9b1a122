"""``metalanchor migrate`` brings the history's schema up, or takes it down."""

import click

from services.cli.history import history_errors
from services.cli.output import as_json, print_json
from services.settings import load


@click.command()
@click.option("--down", "down_to", metavar="REVISION", help="Go down to a revision; `base` drops everything.")
@click.option("--yes", is_flag=True, help="Do not ask before going down.")
@as_json
def migrate(down_to: str | None, yes: bool, as_json: bool) -> None:
    """Bring the request history to the present schema."""
    settings = load()
    if down_to and not yes:
        click.confirm(f"Going down to {down_to} deletes data. Go on?", abort=True, err=True)
    with history_errors():
        from services.history.migrate import downgrade, upgrade  # noqa: PLC0415

        url = settings.database
        revision = downgrade(url, down_to) if down_to else upgrade(url)
    if as_json:
        print_json({"revision": revision})
    else:
        click.echo(f"The history is at revision {revision or 'none'}.")
