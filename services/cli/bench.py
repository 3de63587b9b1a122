"""``metalanchor bench`` runs the five scenarios against a model server and says what was measured."""

import datetime as dt
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli import client
from services.cli.errors import Failure, Unreachable
from services.cli.output import as_json, print_json
from services.settings import Settings, load

if TYPE_CHECKING:
    from services.evidence.runner import Sample, Target
    from services.evidence.scenarios import Book

WAIT_BACKEND_S = 120.0  # a large model may still be loading
EMBEDDED = "embedded"


@click.command()
@click.option("--scale", type=click.FloatRange(0.01, 100), default=1.0, show_default=True,
              help="Times as many requests as the 107.")  # fmt: skip
@click.option("--length", type=click.FloatRange(0.05, 100), default=1.0, show_default=True,
              help="Times as long prompts.")  # fmt: skip
@click.option("--scenarios", default="ABCDE", show_default=True, help="Only these.")
@click.option("--backend", metavar="URL", help="The model server; `embedded` is the small built-in one.")
@click.option("--model", help="Its model; the first it lists otherwise.")
@click.option("--api-key", help="Sent to the server as a Bearer token.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the synthetic prompts.")
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
    if output:
        _write(output, found, text)
    if as_json:
        print_json(found)
    else:
        click.echo(text)


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


@contextmanager
def target_for(
    settings: Settings, backend: str | None, model: str | None, api_key: str | None
) -> Iterator[tuple["Target", dict[str, Any]]]:
    """The running proxy where it fits, else one of our own; and what is known of the engine behind it."""
    running = None if backend else _running(settings)
    if running:
        direct = settings.backend_url or running["backend"]["url"]
        yield _target(settings, direct, model, api_key), _engine(running, direct, model, api_key)
        return
    from services.cli.private_stack import private_stack  # noqa: PLC0415
    from services.local_backend import choose  # noqa: PLC0415

    url = backend or choose(settings).url
    folder = Path(tempfile.mkdtemp(prefix="ma-bench-"))
    try:
        with private_stack(folder, _say, None if url in {None, EMBEDDED} else url) as stack:
            status = _wait_for_backend(stack.settings)
            direct = status["backend"]["url"] if url in {None, EMBEDDED} else str(url)
            yield _target(stack.settings, direct, model, api_key), _engine(status, direct, model, api_key)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _running(settings: Settings) -> dict[str, Any] | None:
    try:
        status = client.get(settings, "/status")
    except (Failure, Unreachable):
        return None
    return status if status and (status.get("backend") or {}).get("status") == "up" else None


def _wait_for_backend(settings: Settings) -> dict[str, Any]:
    until = time.monotonic() + WAIT_BACKEND_S
    while time.monotonic() < until:
        if status := _running(settings):
            return status
        time.sleep(0.2)
    raise Failure(f"The model server did not become ready within {WAIT_BACKEND_S:.0f} s.")


def _target(settings: Settings, direct: str, model: str | None, api_key: str | None) -> "Target":
    from services.evidence.runner import Target  # noqa: PLC0415

    ours = {"X-MetalAnchor-Token": settings.token} if settings.token else {}
    theirs = _auth(api_key)
    return Target(
        proxy=f"http://{client.address(settings)}",
        direct=direct,
        model=model or _first_model(direct, theirs),
        look_up=lambda request_id: client.get(settings, f"/api/requests/{request_id}"),
        proxy_headers={**theirs, **ours},
        direct_headers=theirs,
    )


def _auth(api_key: str | None) -> dict[str, str]:
    agent = {"User-Agent": "metalanchor-bench"}
    return {**agent, "Authorization": f"Bearer {api_key}"} if api_key else agent


def _first_model(direct: str, headers: dict[str, str]) -> str:
    from services.evidence.exchange import ExchangeError, models  # noqa: PLC0415

    try:
        return models(direct, headers)[0]
    except (ExchangeError, IndexError) as error:
        raise Failure(f"The model server lists no model ({error}); name one with --model.") from None


def _engine(status: dict[str, Any], direct: str, model: str | None, api_key: str | None) -> dict[str, Any]:
    backend = status["backend"]
    return {
        "kind": backend["kind"],
        "version": backend["version"],
        "model": model or _first_model(direct, _auth(api_key)),
        "cpus": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "proxy_version": status["version"],
    }


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
    from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes never need it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn  # noqa: PLC0415

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        told.show(bar)
        yield told


def _write(output: Path, found: dict[str, Any], text: str) -> None:
    import msgspec  # noqa: PLC0415

    output.parent.mkdir(parents=True, exist_ok=True)
    document = msgspec.json.format(msgspec.json.encode(found), indent=2)
    output.with_suffix(".json").write_bytes(document + b"\n")
    output.with_suffix(".md").write_text(text, "utf-8")


def _say(text: str) -> None:
    click.echo(text, err=True)


def leave_on_sigterm() -> None:
    """Let SIGTERM unwind, so that what was started is stopped."""

    def leave(*_: object) -> None:
        raise click.Abort

    signal.signal(signal.SIGTERM, leave)
