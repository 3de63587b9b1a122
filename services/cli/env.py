"""``metalanchor env`` prints the line that points an agent at the proxy."""

import click

from services.cli import client
from services.cli.agents import AGENTS, BY_NAME, text_for
from services.cli.output import as_json, print_json, print_rows
from services.settings import load

PLACEHOLDER = "MODEL"


@click.command()
@click.argument("agent", required=False, type=click.Choice(sorted(BY_NAME)))
@click.option("--model", default=PLACEHOLDER, metavar="NAME", help="The model's name as the server knows it.")
@as_json
def env(agent: str | None, model: str, as_json: bool) -> None:
    """Print the line that points an agent at the proxy; without an agent, list them all."""
    settings = load()
    base = f"http://{client.address(settings)}"
    chosen = AGENTS if agent is None else (BY_NAME[agent],)
    rows = [
        {"agent": a.name, "title": a.title, "file": a.file, "text": text_for(a, base, model, settings.token)}
        for a in chosen
    ]
    if as_json:
        print_json(rows[0] if agent else {"items": rows, "next": None})
    elif agent is None:
        print_rows(
            [{**row, "where": row["file"] or "command line"} for row in rows], ("agent", "title", "where")
        )
    else:
        if rows[0]["file"]:
            click.echo(f"Into {rows[0]['file']}:", err=True)
        click.echo(rows[0]["text"])
        if model == PLACEHOLDER and PLACEHOLDER in (rows[0]["text"] or ""):
            click.echo(
                "MODEL stands for the name that your server knows; --model NAME fills it in.", err=True
            )
