"""``metalanchor cache`` looks into the response cache; ``cache judge`` asks its judge about pairs."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import IO, Any

import click
import msgspec

from services.cli.errors import Failure
from services.settings import load

LONGEST_LINE = 1 << 20  # bytes; no question is longer


class Pair(msgspec.Struct, frozen=True):
    """One line of input."""

    a: str
    b: str


@click.group()
def cache() -> None:
    """Look into the response cache."""


@cache.command()
@click.argument("file", type=click.File("rb"), default="-")
def judge(file: IO[bytes]) -> None:
    """Say of pairs of questions whether one answer may serve both.

    Reads JSON lines {"a": …, "b": …} from FILE or standard input and writes one JSON line for each, in order:
    {"same", "similarity", "rule"}, by the embeddings, the threshold and the gate that live requests meet.
    `similarity` is null where there are no embeddings; then the gate alone decides. A line that is no such
    pair ends the command with its number.
    """
    with asyncio.Runner() as runner:
        runner.run(_judge(file))


async def _judge(file: IO[bytes]) -> None:
    from services.semantic.embeddings import open_embedder  # noqa: PLC0415 - word lists take 0.1 s to read
    from services.semantic.ruling import Rulings  # noqa: PLC0415

    rulings = Rulings(open_embedder(load()))
    try:
        async for verdict in _verdicts(rulings, file):
            click.echo(verdict)
    finally:
        await rulings.close()


async def _verdicts(rulings: Any, file: IO[bytes]) -> AsyncIterator[str]:
    for pair in _pairs(file):
        yield msgspec.json.encode(await rulings.ruling(pair.a, pair.b)).decode()


def _pairs(file: IO[bytes]) -> Iterator[Pair]:
    """The pairs of the lines; empty lines are skipped."""
    decode = msgspec.json.Decoder(Pair).decode
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise Failure(f"Line {number} is longer than {LONGEST_LINE} bytes.")
        if not line.strip():
            continue
        try:
            yield decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Failure(f'Line {number} is no JSON object with the texts "a" and "b": {error}.') from None
