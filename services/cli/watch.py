"""``metalanchor watch`` shows a model server's own counters as rates: live on a terminal, else as lines."""

import sys
import time
from collections.abc import Iterator

import click

from services.cli import client
from services.cli.errors import Failure, Unreachable
from services.cli.output import as_json
from services.cli.watch_view import Board, head_line, live, print_line, row_of
from services.settings import Settings, load
from services.watch.reading import Interval, Reading, between, total_of
from services.watch.scrape import Unwatchable, advice, base_of, scrape

# What a scrape ends with when nobody answers; a script may wait for that to pass.
AWAY = frozenset({"unreachable", "timeout"})
Look = tuple[Reading, Interval] | str


@click.command()
@click.argument("url", required=False)
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3_600),
    default=5.0,
    show_default=True,
    help="Seconds between looks.",
)
@click.option("--count", type=click.IntRange(1), help="End after this many lines.")
@click.option("--api-key", help="Sent as Bearer, where the server asks for a key.")
@as_json
def watch(url: str | None, interval: float, count: int | None, api_key: str | None, as_json: bool) -> None:
    """Watch the counters of a model server: the one at URL, else the configured backend.

    Known are vLLM of every generation, llama-server, vllm-mlx and Rapid-MLX. The first line sums up since the
    server's start, each further one the time since the line before; a restart of the server is recognised.
    With --json each line is one JSON object.
    """
    base = base_of(url or _backend(load()))
    first = _first(base, api_key)
    looks = _looks(base, api_key, first, interval)
    if as_json or count or not sys.stdout.isatty():
        _print(looks, base, count, as_json)
    else:
        live(Board(base, first), looks)


def _backend(settings: Settings) -> str:
    """The configured backend, else the one that a running proxy serves, else one found on this machine."""
    if (url := client.served(settings)) is not None:
        return url
    from services.local_backend import look  # noqa: PLC0415

    found = look()
    if found is None or found.url is None:
        raise Failure("No model server answers on this machine. Name one: metalanchor watch http://HOST:PORT")
    return found.url


def _first(base: str, api_key: str | None) -> Reading:
    if not base.startswith(("http://", "https://")):
        raise click.UsageError(f"{base!r} is no address; it must start with http:// or https://.")
    try:
        return scrape(base, api_key)
    except Unwatchable as trouble:
        if trouble.code in AWAY:
            raise Unreachable(str(trouble)) from None
        raise Failure(f"{trouble} {advice(base)}".rstrip()) from None


def _looks(base: str, api_key: str | None, first: Reading, interval: float) -> Iterator[Look]:
    """One look after the other, at equal distances; a trouble is a sentence, and the next look goes on."""
    before, due = first, time.monotonic()
    yield first, total_of(first)
    while True:
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            now = scrape(base, api_key)
        except Unwatchable as trouble:
            yield str(trouble)
            continue
        yield now, between(before, now)
        before = now


def _print(looks: Iterator[Look], base: str, count: int | None, as_json: bool) -> None:
    for number, look in enumerate(looks):
        if number == 0 and not as_json and not isinstance(look, str):
            click.echo(head_line(base, look[0]), err=True)
        print_line(row_of(look, since_start=number == 0), as_json=as_json, first=number == 0)
        if number + 1 == count:
            return
