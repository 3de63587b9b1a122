"""``metalanchor requests`` lists the recorded requests, newest first, or as they come in."""

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from services.cli.errors import Failure
from services.cli.history import reading
from services.cli.output import Row, as_json, cell, print_json, print_rows
from services.cli.times import Moment
from services.record import HITS, STATUSES
from services.settings import Settings, load

COLUMNS = (
    "time", "agent", "session", "model", "hit", "relation", "predicted", "measured", "ttft_ms", "cause",
    "status", "id",
)  # fmt: skip
# What a narrow terminal does without, least needed first. The id stays whole: `explain` takes no part of it.
SPARE = ("session", "relation", "ttft_ms", "agent", "status", "model", "predicted", "cause", "time")
FOLLOW_S = 1.0
# A row comes when its request ends, so an older id may follow a newer one; this many are told apart.
REMEMBERED = 1_000


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include probes and management calls.")
@click.option("--session", help="Only this session.")
@click.option("--lineage", help="Only this lineage.")
@click.option("--agent", help="Only this agent.")
@click.option("--model", help="Only this model.")
@click.option("--backend", help="Only this backend.")
@click.option("--hit", type=click.Choice(HITS), metavar="HIT",
              help="Only this hit: exact, prefix, system+tools, …")  # fmt: skip
@click.option("--cause", help="Only requests with this first cause.")
@click.option("--status", type=click.Choice(STATUSES), metavar="STATUS",
              help="Only this status, such as completed or client_cancelled.")  # fmt: skip
@click.option("--since", type=Moment(), help="From this time on: an age (24h) or an ISO time, in UTC.")
@click.option("--until", type=Moment(), help="Up to this time.")
@click.option("--limit", type=click.IntRange(1, 1000), default=30, show_default=True, help="Rows to show.")
@click.option("--cursor", help="Continue after a page, from its `next`.")
@click.option("--follow", is_flag=True, help="Go on printing requests as they are recorded.")
@as_json
def requests(
    everything: bool, follow: bool, as_json: bool, limit: int, cursor: str | None, **filters: Any
) -> None:
    """List recorded requests, newest first.

    `predicted` is the share of the prompt that the engine could have reused, `measured` the share that it
    says it did reuse.
    """
    settings = load()
    if not everything:
        filters["kind"] = "generation"
    if follow:
        _follow(settings, filters, as_json)
        return
    page = _page(settings, filters, cursor, limit)
    if as_json:
        print_json(page)
        return
    print_rows([short(row) for row in page["items"]], COLUMNS, colour, spare=SPARE)
    if page["next"]:
        click.echo(f"More: --cursor {page['next']}", err=True)


def _page(settings: Settings, filters: dict[str, Any], cursor: str | None, limit: int) -> dict[str, Any]:
    from services.history.queries import BadCursor, Filters, list_requests  # noqa: PLC0415

    with reading(settings) as connection:
        try:
            return list_requests(connection, Filters(**filters), cursor, limit)
        except BadCursor as error:
            raise Failure(f"--cursor: {error}.") from None


def _follow(settings: Settings, filters: dict[str, Any], as_json: bool) -> None:
    for row in _arriving(settings, filters):
        if as_json:
            click.echo(msgspec.json.encode(row, enc_hook=str).decode())
        else:
            click.echo("\t".join(cell(value) for value in short(row).values()))


def _arriving(settings: Settings, filters: dict[str, Any]) -> Iterator[Row]:
    seen: dict[str, None] = {row["id"]: None for row in _page(settings, filters, None, REMEMBERED)["items"]}
    while True:
        time.sleep(FOLLOW_S)
        newest = _page(settings, filters, None, REMEMBERED // 2)["items"]
        for row in reversed([row for row in newest if row["id"] not in seen]):
            seen[row["id"]] = None
            yield row
        for old in list(seen)[:-REMEMBERED]:
            del seen[old]


def short(row: Row) -> Row:
    """A stored row as one line shows it."""
    cached, prompt = row["cached_tokens"], row["prompt_tokens"]
    measured = f"{cached / prompt:.0%} ({cached}/{prompt})" if cached is not None and prompt else None
    predicted = row["predicted_reuse"]
    moment = dt.datetime.fromisoformat(row["received_at"])
    return {
        "time": moment.astimezone().strftime("%m-%d %H:%M:%S"),
        "agent": row["agent"],
        "session": (row["session"] or "")[:12],
        "model": row["model"],
        "hit": row["hit"],
        "relation": row["relation"],
        "predicted": None if predicted is None else f"{predicted:.0%}",
        "measured": measured,
        "ttft_ms": None if row["ttft_ms"] is None else round(row["ttft_ms"]),
        "cause": row["cause"],
        "status": row["status"],
        "id": row["id"],
    }


def colour(row: Row) -> str:
    """Green where reuse was there to be had, yellow where something broke it, red where it failed."""
    if row["status"] not in {"completed", "client_cancelled", "response_cache"}:
        return "red"
    if row["cause"]:
        return "yellow"
    return "green" if row["hit"] in {"exact", "prefix"} else ""
