"""``metalanchor demo`` shows a newcomer in two minutes what reuse is worth, on the small built-in model."""

import time
from typing import Any

import click

from services.cli import client
from services.cli.bench import leave_on_sigterm, measure
from services.cli.output import print_table
from services.cli.private_stack import private_stack
from services.cli.stack import free_port
from services.cli.target import engine_of, target_of, wait_for_backend
from services.settings import load

# On two busy cores the stand-in reads some 100 tokens a second: these take it about a minute.
SCALE, LENGTH, SCENARIOS = 0.4, 0.35, "CE"


@click.command()
@click.option("--exit", "leave", is_flag=True, help="Stop when the figures are printed.")
def demo(leave: bool) -> None:
    """See in two minutes what reuse is worth: a small model, a long session, the figures, the dashboard.

    Needs nothing that runs already and touches none of your settings or data.
    """
    settings = load()
    leave_on_sigterm()
    folder = settings.data_path / "demo"
    with private_stack(folder, click.echo, None, port=free_port(settings.port)) as stack:
        status = wait_for_backend(stack.settings)
        target = target_of(stack.settings, status["backend"]["url"], None, None)
        found = _run(target)
        _tell(found, engine_of(status, target.model))
        where = f"http://{client.address(stack.settings)}/metalanchor/"
        if leave:
            click.echo(f"The dashboard was at {where}; without --exit it stays.")
            return
        click.echo(f"\nLook at each request in the dashboard: {where}\nCtrl-C ends the demo.")
        while not stack.supervisor.pause(1.0):
            pass


def _run(target: Any) -> dict[str, Any]:
    from services.evidence.scenarios import load as load_scenarios  # noqa: PLC0415

    click.echo("Running a session of an agent that controls a desktop, then one request several times …")
    book = load_scenarios(SCALE, LENGTH, SCENARIOS)
    return measure(target, book, {"scale": SCALE, "length": LENGTH, "seed": time.time_ns(), "cold": True})


def _tell(found: dict[str, Any], engine: dict[str, Any]) -> None:
    from services.evidence.markdown import HEAD, cells, percent  # noqa: PLC0415

    click.echo(f"\nMeasured on {engine['model']} ({engine['kind']}), {engine['cpus']} CPUs:\n")
    print_table(HEAD, [cells(name, figures) for name, figures in found["scenarios"].items()])
    session = found["scenarios"]["C"]
    turns = ", ".join(map(percent, session["reuse_by_turn"]))
    click.echo(f"\nReused at each turn of the session: {turns}.")
    times, again = session["ttft_ms"], found["scenarios"]["E"]["speedup"]
    if times["cold_p50"] and times["warm_p50"]:
        click.echo(
            f"A cold prompt took {times['cold_p50'] / 1e3:.1f} s to its first token, "
            f"a warm one {times['warm_p50'] / 1e3:.1f} s."
        )
    if again["median"]:
        click.echo(f"The same request again was {again['median']:.0f} times as fast.")
