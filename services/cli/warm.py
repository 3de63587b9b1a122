"""``metalanchor cache warm`` fills the response cache: it sends requests through the running proxy."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from services.cli.errors import Failure
from services.cli.history import reading
from services.cli.output import as_json, print_json, progress
from services.settings import Settings, load

if TYPE_CHECKING:
    from services.cli.warming import Tally, Wanted

NEEDED = (
    "The history holds no text, unless METALANCHOR_STORE_BODIES=true: then requests are kept from that "
    "moment on, and the most repeated ones can be sent again. Until then give a FILE."
)


class Header(click.ParamType[tuple[str, str]]):
    """``Name: value``."""

    name = "header"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Name and value; fails with what is accepted."""
        name, colon, text = str(value).partition(":")
        if not colon or not name.strip() or not text.isprintable():
            self.fail(f"{value!r} is no header such as 'Authorization: Bearer KEY'.", param, ctx)
        return name.strip(), text.strip()


@click.command()
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--from-history", type=click.IntRange(1, 10_000), metavar="N",
              help="The N most repeated requests whose bodies are kept.")  # fmt: skip
@click.option("--header", "headers", type=Header(), multiple=True, metavar="'NAME: VALUE'",
              help="Sent with each, as the clients send it: answers are apart by credential.")  # fmt: skip
@click.option("--concurrency", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Requests at a time.")  # fmt: skip
@as_json
def warm(
    *, file: IO[bytes] | None, from_history: int | None, headers: tuple[tuple[str, str], ...],
    concurrency: int, as_json: bool,
) -> int:  # fmt: skip
    """Have requests answered before somebody asks.

    FILE (- is standard input) holds JSON lines: {"path": …, "body": …, "headers": {…}}, or a chat body alone.
    They go through the running proxy, and wait while it works for others. What is cached already costs a
    lookup, so the same file may be given again. Exit code 1: some of them failed.
    """
    from services.cli.warming import read_lines, run  # noqa: PLC0415

    settings = load()
    if (file is None) == (from_history is None):
        raise click.UsageError("Give a FILE of requests or --from-history N, one of the two.")
    wanted = read_lines(file) if file is not None else _repeated(settings, from_history or 0, headers)
    with _progress(len(wanted)) as told:
        tally = run(settings, wanted, headers, concurrency, told)
    if as_json:
        print_json(tally)
    else:
        _tell(tally)
    return 1 if tally.failed else 0


def _repeated(settings: Settings, most: int, headers: Sequence[tuple[str, str]]) -> "Sequence[Wanted]":
    from services.cli.warming import Wanted  # noqa: PLC0415
    from services.history.repeated import most_repeated  # noqa: PLC0415 - SQLAlchemy is slow to import
    from services.proxy.identity import identify  # noqa: PLC0415
    from services.proxy.key import load_key  # noqa: PLC0415

    with reading(settings) as connection:
        found = most_repeated(connection, most)
    if not found.requests and not found.unusable:
        raise Failure(
            NEEDED if not settings.store_bodies else "No request with a kept body was repeated yet."
        )
    if found.unusable:
        click.echo(f"{found.unusable} are left out: cut or masked when they were kept.", err=True)
    lower = [(name.lower().encode(), value.encode()) for name, value in headers]
    scope = identify(lower, None, load_key(settings), settings.tenant_header).scope
    others = sum(request.scope != scope for request in found.requests)
    if others:
        click.echo(
            f"{others} of {len(found.requests)} were asked with another credential, so their clients will "
            "not find these answers: give it with --header.",
            err=True,
        )
    return [Wanted(request.endpoint, request.body, {}) for request in found.requests]


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """Told after each request (an empty text), and why it waits."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with progress() as bar:
        task = bar.add_task("Warming up", total=total)

        def told(waiting: str) -> None:
            bar.update(task, advance=0 if waiting else 1, description=waiting or "Warming up")

        yield told


def _tell(tally: "Tally") -> None:
    click.echo(
        f"{tally.requests} requests in {tally.seconds:.1f} s: {tally.cached} were cached already, "
        f"{tally.asked} were answered by the backend, {tally.failed} failed."
    )
    for reason, count in sorted(tally.bypassed.items()):
        click.echo(f"{count} cannot be cached ({reason}).")
    for error, count in sorted(tally.errors.items()):
        click.echo(f"{count} failed: {error}", err=True)
    if tally.waited_s:
        click.echo(f"Waited {tally.waited_s:.1f} s for others.")
