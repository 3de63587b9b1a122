"""``metalanchor up`` runs everything on this machine, in the foreground, until Ctrl-C or SIGTERM."""

import signal
from types import FrameType

import click

from services.cli import client
from services.settings import load


@click.command()
def up() -> None:
    """Start everything on this machine: Redis, migrations, worker, proxy.

    Stays in the foreground; Ctrl-C stops all of it. Logs are in the data folder.
    """
    from services.cli.stack import Stack  # noqa: PLC0415 - keeps --help fast

    settings = load()
    stack = Stack(settings, click.echo)

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stack.supervisor.stopping.set()

    signal.signal(signal.SIGINT, ask_to_stop)
    signal.signal(signal.SIGTERM, ask_to_stop)
    try:
        stack.start()
        if not stack.supervisor.stopping.is_set():
            _announce(f"http://{client.address(settings)}", settings.data_path)
            stack.tend()
        click.echo("Stopping.")
    finally:
        stack.stop()


def _announce(address: str, data: object) -> None:
    click.echo(f"\nMetalAnchor serves at {address}  (status: {address}/metalanchor/status)")
    click.echo(f"Point an agent at it:  export OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY=x")
    click.echo(f"                  or:  export ANTHROPIC_BASE_URL={address} ANTHROPIC_AUTH_TOKEN=x")
    click.echo("Other agents: `metalanchor env`. What was reused, and why not: `metalanchor requests`.")
    click.echo(f"Data and logs: {data}. Ctrl-C stops everything.\n")
