"""``metalanchor bench`` runs the five scenarios against a model server and says what was measured."""

import datetime as dt
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.errors import Failure
from services.cli.output import as_json, print_json, progress
from services.cli.target import target_for
from services.settings import load

if TYPE_CHECKING:
    from services.evidence.runner import Sample, Target
    from services.evidence.scenarios import Book


@click.command()
@click.option("--scale", type=click.FloatRange(0.01, 100), default=1.0, show_default=True,
              help="Multiply the 107 requests by this.")  # fmt: skip
@click.option("--length", type=click.FloatRange(0.05, 100), default=1.0, show_default=True,
              help="Multiply the length of prompts by this.")  # fmt: skip
@click.option("--scenarios", default="ABCDE", show_default=True, help="Run only these.")
@click.option("--backend", metavar="URL", help="The model server; `embedded` is the small built-in one.")
@click.option("--model", help="Its model; by default the first it lists.")
@click.option("--api-key", help="Sent to the server as a Bearer token.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the synthetic prompts.")
@click.option("--cold/--warm", default=True, show_default=True,
              help="Start from a prefix that no earlier run has sent, or from this seed's own.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), help="Also write FILE.json and FILE.md.")
@as_json
def bench(*, scenarios: str, output: Path | None, as_json: bool, **options: Any) -> None:
    """Run the five scenarios and print what was measured.

    They go through the proxy that runs here, or, where none does or --backend names another server, through
    one started for it. The same requests go directly to the server too, so that the proxy's own cost shows.
    """
    from services.evidence import scenarios as book  # noqa: PLC0415

    run = {name: options.pop(name) for name in ("scale", "length", "seed", "cold")}
    chosen = book.load(run["scale"], run["length"], scenarios)
    if not chosen.scenario:
        raise click.UsageError("--scenarios names none of A, B, C, D, E.")
    leave_on_sigterm()
    with target_for(load(), **options) as (target, engine):
        found = measure(target, chosen, run)
    found = {**found, "engine": engine}
    from services.evidence.markdown import render  # noqa: PLC0415

    text = render(found)
    if as_json:
        print_json(found)
    else:
        click.echo(text)
    if output:
        _write(output, found, text)


def measure(target: "Target", book: "Book", run: dict[str, Any]) -> dict[str, Any]:
    """Run a book of scenarios with a progress bar and sum it up."""
    from services.evidence.exchange import ExchangeError  # noqa: PLC0415
    from services.evidence.results import summary  # noqa: PLC0415
    from services.evidence.runner import Runner  # noqa: PLC0415

    salt = uuid.uuid4().hex[:8] if run["cold"] else "steady"
    began = time.monotonic()
    with _progress() as told:
        runner = Runner(target, book, run["seed"], salt, told=told)
        told.total = runner.total()
        try:
            samples = runner.run()
        except ExchangeError as error:
            raise Failure(f"The model server did not answer a request: {error}") from None
    took = {"seconds": round(time.monotonic() - began), "date": dt.datetime.now(dt.UTC).date().isoformat()}
    return {**summary(book, samples), "run": {**run, **took}}


class _Told:
    """Shows progress on standard error: a bar on a terminal, a line a scenario elsewhere."""

    def __init__(self) -> None:
        self.total = 0
        self._bar: Any = None
        self._task: Any = None
        self._last = ""

    def __call__(self, sample: "Sample") -> None:
        if self._bar is None:
            if sample.scenario != self._last:
                click.echo(f"Scenario {sample.scenario} …", err=True)
        else:
            self._bar.update(
                self._task, advance=1, total=self.total, description=f"Scenario {sample.scenario}"
            )
        self._last = sample.scenario

    def show(self, bar: Any) -> None:
        self._bar, self._task = bar, bar.add_task("Warming up", total=None)


@contextmanager
def _progress() -> Iterator[_Told]:
    told = _Told()
    if not sys.stderr.isatty():
        yield told
        return
    with progress() as bar:
        told.show(bar)
        yield told


def _write(output: Path, found: dict[str, Any], text: str) -> None:
    import msgspec  # noqa: PLC0415

    document = msgspec.json.format(msgspec.json.encode(found), indent=2)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.with_suffix(".json").write_bytes(document + b"\n")
        output.with_suffix(".md").write_text(text, "utf-8")
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror}.") from None


def leave_on_sigterm() -> None:
    """Let SIGTERM unwind, so that what was started is stopped."""

    def leave(*_: object) -> None:
        raise click.Abort

    signal.signal(signal.SIGTERM, leave)
