"""``metalanchor up`` runs everything on this machine, in the foreground, until Ctrl-C or SIGTERM."""

import shutil
import sys
from pathlib import Path

import click

from services.cli import client
from services.settings import load
from services.signals import set_on


@click.command()
def up() -> None:
    """Start everything on this machine: Redis, migrations, worker, proxy.

    Stays in the foreground; Ctrl-C stops all of it. Logs are in the data folder.
    """
    from services.cli.stack import Stack  # noqa: PLC0415 - keeps --help fast

    settings = load()
    stack = Stack(settings, click.echo)

    set_on(stack.supervisor.stopping)
    try:
        stack.start()
        if not stack.supervisor.stopping.is_set():
            _announce(f"http://{client.address(settings)}", settings.data_path)
            stack.tend()
        click.echo("Stopping.")
    finally:
        stack.stop()


def _announce(address: str, data: object) -> None:
    program = _program()
    click.echo(f"\nMetalAnchor serves at {address}, its dashboard at {address}/metalanchor/")
    click.echo(f"Point an agent at it:  export OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY=x")
    click.echo(f"                  or:  export ANTHROPIC_BASE_URL={address} ANTHROPIC_AUTH_TOKEN=x")
    click.echo(f"Other agents: `{program} env`. What was reused, and why not: `{program} requests`.")
    click.echo(f"Data and logs: {data}. Ctrl-C stops everything.\n")


def _program() -> str:
    """How the shell that started this finds the program: by its bare name where that is this very one."""
    here = Path(sys.executable).with_name("metalanchor")
    found = shutil.which("metalanchor")
    if not here.exists() or (found is not None and Path(found).samefile(here)):
        return "metalanchor"
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)
