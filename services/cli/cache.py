"""``metalanchor cache`` looks into the response cache; ``cache judge`` asks its judge about pairs."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import IO, Any
from urllib.parse import urlencode

import click
import msgspec

from services.cli import client
from services.cli.errors import Failure
from services.cli.output import Row, as_json, print_json, print_rows
from services.cli.times import Age
from services.cli.warm import warm
from services.settings import load

INVALIDATE_S = 60.0  # a hundred thousand answers go in some 20 s, in small steps
LONGEST_LINE = 1 << 20  # bytes; no question is longer
SHOWN = ("key", "used", "hits", "bytes", "model", "namespace", "expires", "question")
SPARE = ("expires", "bytes", "namespace", "used")
# Questions of people fit; of the others the head is enough to know them again. `--json` has them whole.
HEAD = 60


class Pair(msgspec.Struct, frozen=True):
    """One line of input."""

    a: str
    b: str


@click.group()
def cache() -> None:
    """Look into the response cache, fill it, and drop answers."""


cache.add_command(warm)


@cache.command()
@as_json
def stats(as_json: bool) -> None:
    """Say how much the cache holds, how often it hit, and what that saved."""
    found = client.get(load(), "/api/cache/stats")
    if as_json:
        print_json(found)
        return
    semantic = found.pop("semantic")
    rows: list[Row] = [{"what": name.replace("_", " "), "value": value} for name, value in found.items()]
    rows += [{"what": f"semantic: {name}", "value": value} for name, value in (semantic or {}).items()]
    print_rows(rows, ("what", "value"))


@cache.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=30, show_default=True, help="Entries to show.")
@click.option("--cursor", help="Continue after a page, from its `next`.")
@as_json
def list_(limit: int, cursor: str | None, as_json: bool) -> None:
    """List cached answers by their questions, newest first."""
    query = {"limit": limit, **({"cursor": cursor} if cursor else {})}
    page = client.get(load(), f"/api/cache/entries?{urlencode(query)}")
    if as_json:
        print_json(page)
        return
    print_rows([{**row, "question": head(row["question"])} for row in page["items"]], SHOWN, spare=SPARE)
    if page["next"]:
        click.echo(f"More: --cursor {page['next']}", err=True)


@cache.command()
@click.argument("about")
@click.option("--model", help="Look only at answers of this model.")
@click.option("--namespace", help="Look only into this namespace.")
@as_json
def explain(about: str, model: str | None, namespace: str | None, as_json: bool) -> int:
    """Say why a question, a request (its id) or an entry (its key) missed or hit.

    Shows the near questions that are stored, and which rule refused each.
    """
    asked = {"about": about, "model": model, "namespace": namespace}
    found = client.post(load(), "/api/cache/explain", value=asked)
    if found is None:
        raise Failure(
            "Neither a request nor an entry of that id or key is known, or it is gone. "
            "`metalanchor cache list` shows the keys, `metalanchor requests` the ids."
        )
    if as_json:
        print_json(found)
    else:
        _tell(found)
    return 0


@cache.command()
@click.option("--key", help="The answer with this key.")
@click.option("--tag", help="Answers stored with this tag.")
@click.option("--model", help="Answers of this model.")
@click.option("--backend", help="Answers of this backend (its name).")
@click.option("--namespace", help="Answers in this namespace.")
@click.option("--scope", help="Answers of this caller, as `requests --json` shows it.")
@click.option("--keyword", help="Answers with these words in question or answer.")
@click.option(
    "--older-than",
    "older_than_s",
    type=Age(),
    help="Answers stored longer ago than this, such as 90m, 24h, 7d.",
)
@click.option("--everything", is_flag=True, help="All answers.")
@click.option("--yes", is_flag=True, help="Drop them; without it they are only counted.")
@as_json
def invalidate(*, yes: bool, as_json: bool, **selector: Any) -> None:
    """Drop the answers that match all options given; without --yes only count them."""
    found = client.post(load(), "/api/cache/invalidate", INVALIDATE_S, {"dry_run": not yes, **selector})
    if as_json:
        print_json(found)
    elif found["dry_run"]:
        click.echo(f"{found['count']} answers would be dropped. --yes drops them.")
    else:
        click.echo(f"{found['count']} answers were dropped.")


@cache.command()
@click.option("--revoke", multiple=True, metavar="ID", help="Drop this alias; may be given several times.")
@as_json
def aliases(revoke: tuple[str, ...], as_json: bool) -> None:
    """List the questions that a model found to ask the same, with their evidence."""
    if revoke:
        found = client.post(load(), "/api/cache/aliases/revoke", value={"ids": revoke})
        print_json(found) if as_json else click.echo(f"{found['revoked']} aliases were dropped.")
        return
    page = client.get(load(), "/api/cache/aliases")
    if as_json:
        print_json(page)
        return
    rows = [{**row, **row["evidence"], "asked": head(row["asked"]), "stored": head(row["stored"])}
            for row in page["items"]]  # fmt: skip
    print_rows(rows, ("id", "at", "model", "votes", "similarity", "until", "asked", "stored"))


def head(text: str) -> str:
    """The beginning of a question, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= HEAD else f"{line[:HEAD]}…"


def _tell(found: dict[str, Any]) -> None:
    request, entry = found["request"], found["entry"]
    if request:
        said = request["because"] or "The log does not say what the cache did."
        click.echo(f"{request['verdict'] or 'not looked up'}: {said}")
    if entry:
        click.echo(f"Its answer is stored under {entry['key']} until {entry['expires']}.")
    if found["question"] is None:
        click.echo("The text of the question is not in the cache, so nothing can be compared with it.")
        return
    if found["bypass"]:
        click.echo(f"Never matched by meaning ({found['bypass']['reason']}): {found['bypass']['because']}")
    if found["same"]:
        click.echo("\nStored with the same words:")
        print_rows(found["same"], ("key", "model", "namespace", "endpoint", "differs"))
    near = found["neighbours"]
    if near is None:
        click.echo(
            "Only equal requests are matched: METALANCHOR_RESPONSE_CACHE=semantic looks for equal questions."
        )
    elif near:
        click.echo("\nNear it, nearest first:")
        rows = [{**row, "question": head(row["question"])} for row in near]
        print_rows(rows, ("similarity", "rule", "because", "question", "key"), spare=("key",))
    else:
        click.echo(f"Nothing near it is stored, among the newest {found['looked_at']} answers.")


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
