"""A report as tables of text: what the terminal, Markdown and the printed page have in common. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

Cell = str | int | float | None


class Table(NamedTuple):
    """A titled table; `note` stands below the title and says what the figures mean."""

    title: str
    note: str
    head: Sequence[str]
    rows: list[list[Cell]]


GROUP_HEAD = (
    "requests", "predicted", "measured", "warm p50 ms", "warm p95 ms", "warm p99 ms", "cold p50 ms",
    "cold p95 ms", "cold p99 ms", "prefill s", "lost s", "lost tokens", "hits",
)  # fmt: skip
QUESTION = 120  # characters of a question; JSON has it whole
TEMPERATURES = ("warm", "cold", "unmeasured")


def tables(report: dict[str, Any]) -> list[Table]:
    """All tables of a report, the summary first; empty ones are left out."""
    made = [
        _summary(report),
        _groups(report),
        _costs(report),
        _unpriced(report),
        _times(report),
        _losses(report["losses"]),
        _by_agent(report["losses_by_agent"]),
        _longest(report["longest_losses"]),
        _shared("Shared system prompts", report["shared_system_prompts"]),
        _shared("Shared tool schemas", report["shared_tools"]),
        _repeated(report["repeated_tool_calls"]),
        _moved(report["moved_chunks"]),
        _live(report["live_data"]),
        *([_same(report["homogeneity"])] if report["homogeneity"] else []),
        _buckets("Session lengths", "Sessions by number of requests.", report["session_lengths"], "requests"),
        _buckets("Request sizes", "Requests by the bytes of their body.", report["request_sizes"], "bytes"),
        _buckets("Message sizes", "Messages by their bytes, each once.", report["message_sizes"], "bytes"),
        _hours(report["hit_rate"]),
    ]
    return [table for table in made if table.rows]


def figures_row(row: dict[str, Any]) -> list[Cell]:
    """One row of `reports.figures` under `GROUP_HEAD`."""
    ttft = row["ttft_ms"]
    cells: list[Cell] = [row["requests"], share(row["predicted_reuse"]), share(row["measured_reuse"])]
    for temperature in ("warm", "cold"):
        cells += [whole((ttft.get(temperature) or {}).get(name)) for name in ("p50", "p95", "p99")]
    hits = ", ".join(
        f"{hit} {count}" for hit, count in sorted(row["hits"].items(), key=lambda h: (-h[1], h[0]))
    )
    return [*cells, seconds(row["prefill_ms"]), seconds(row["lost_ms"]), row["lost_tokens"], hits]


def share(value: float | None) -> str | None:
    """A share as people read it; None stays unknown."""
    return None if value is None else f"{value:.1%}"


def whole(value: float | None) -> int | None:
    """Milliseconds without their fractions."""
    return None if value is None else round(value)


def seconds(milliseconds: float | None) -> float | None:
    """Seconds with one digit."""
    return None if milliseconds is None else round(milliseconds / 1e3, 1)


def minutes(milliseconds: float | None) -> float | None:
    """Minutes with one digit."""
    return None if milliseconds is None else round(milliseconds / 6e4, 1)


def _summary(report: dict[str, Any]) -> Table:
    rows = [figures_row(report["total"])] if report["total"] else []
    note = (
        "Reuse is weighted by tokens. Warm: at least half of the prompt came from the cache, by the server's "
        "own count. Times are to the first token."
    )
    if report["percentile_error"]:
        note += f" Percentiles are within {report['percentile_error']:.0%} of the exact ones."
    return Table("In all", note, GROUP_HEAD, rows)


def _groups(report: dict[str, Any]) -> Table:
    rows = [[row["group"], *figures_row(row)] for row in report["groups"]]
    head: tuple[str, ...] = (str(report["by"]), *GROUP_HEAD)
    if any(row["cost_usd"] is not None for row in report["groups"]):
        head = (*head, "cost $", "saved $")
        rows = [
            [*cells, dollars(row["cost_usd"]), dollars(row["savings_usd"])]
            for cells, row in zip(rows, report["groups"], strict=True)
        ]
    return Table(f"By {report['by']}", "Most requests first.", head, rows)


def dollars(amount: float | None) -> str | None:
    """An amount of dollars to a hundredth of a cent."""
    return None if amount is None else f"{amount:,.4f}"


def _costs(report: dict[str, Any]) -> Table:
    costs = report["costs"] or {"models": []}
    rows: list[list[Cell]] = [
        [row["model"], *_spent(row), row["reads_per_write"], row["break_even"], row["break_even_1h"]]
        for row in costs["models"]
        if row["priced"]
    ]
    if len(rows) > 1:
        rows.append(["in all", *_spent(costs), None, None, None])
    note = (
        "By list price, standard tier. Saved: against no caching, writes counted as dearer. A write has paid "
        "for itself when each written token was read that often, where it lives five minutes or an hour."
    )
    head = (
        "model", "requests", "cost $", "saved $", "prompt tokens", "read", "written", "written (1 h)",
        "reads per write", "pays from", "pays from (1 h)",
    )  # fmt: skip
    return Table("What cloud models cost", note, head, rows)


def _spent(row: dict[str, Any]) -> list[Cell]:
    names = ("prompt_tokens", "cached_tokens", "written_tokens", "written_1h_tokens")
    amounts: list[Cell] = [row["priced"], dollars(row["cost_usd"]), dollars(row["savings_usd"])]
    return [*amounts, *(row[name] for name in names)]


def _unpriced(report: dict[str, Any]) -> Table:
    rows: list[list[Cell]] = [
        [row["model"], row["backend_kind"], row["requests"]]
        for row in (report["costs"] or {}).get("unpriced", [])
    ]
    note = (
        "Their costs are unknown, not zero, unless the server is a local one. METALANCHOR_PRICES adds prices."
    )
    return Table("Models without a price", note, ("model", "kind of server", "requests"), rows)


def _times(report: dict[str, Any]) -> Table:
    rows: list[list[Cell]] = []
    for title, name in (("to the first token", "ttft_ms"), ("in all", "total_ms")):
        for temperature in TEMPERATURES:
            if figures := (report["total"] or {}).get(name, {}).get(temperature):
                ranks = [whole(figures[rank]) for rank in ("p50", "p95", "p99")]
                rows.append([title, temperature, figures["count"], *ranks])
    head = ("time", "prompt", "requests", "p50 ms", "p95 ms", "p99 ms")
    return Table("Times, cold against warm", "Nearest rank; unmeasured: no cached tokens known.", head, rows)


def _losses(losses: list[dict[str, Any]]) -> Table:
    rows = [
        [
            row["cause"],
            row["requests"],
            row["lost_tokens"],
            seconds(row["lost_ms"]),
            seconds(row["prefill_ms"]),
        ]
        for row in losses
    ]
    head = ("cause", "requests", "lost tokens", "lost s", "prefill s")
    return Table("Lost by cause", "Prefilled again although sent before; worst first.", head, rows)


def _by_agent(losses: list[dict[str, Any]]) -> Table:
    rows: list[list[Cell]] = [
        [row["agent"], row["cause"], minutes(row["lost_ms"]), row["requests"], row["lost_tokens"]]
        for row in losses
    ]
    head = ("agent", "cause", "lost min", "requests", "lost tokens")
    return Table("Lost by agent and cause", "What each habit of each agent cost; worst first.", head, rows)


def _longest(losses: list[dict[str, Any]]) -> Table:
    names = ("received_at", "agent", "model", "cause", "diverged_at", "lost_tokens")
    rows = [[*(row[name] for name in names), seconds(row["lost_ms"]), row["id"]] for row in losses]
    head = ("received", "agent", "model", "cause", "diverged at", "lost tokens", "lost s", "id")
    return Table("Longest losses", "`metalanchor explain ID` says more of each.", head, rows)


def _shared(title: str, shared: list[dict[str, Any]]) -> Table:
    rows: list[list[Cell]] = [
        [row["hash"][:12], row["requests"], row["sessions"], row["models"], ", ".join(row["agent_names"])]
        for row in shared
    ]
    head = ("hash", "requests", "sessions", "models", "agents")
    return Table(title, "Seen more than once.", head, rows)


def _repeated(found: dict[str, Any]) -> Table:
    note = (
        f"{found['repeated']:,} of {found['calls']:,} calls had been made before with the same arguments; "
        f"remembering their results could have saved {found['bytes']:,} bytes of prompt."
        f" Of the newest {found['newest']:,} requests."
    )
    return Table("Tool calls made again", note, ("call", "times", "sessions", "bytes again"), _items(found))


def _moved(found: dict[str, Any]) -> Table:
    note = (
        f"{found['repeated']:,} of {found['chunks']:,} chunks had been sent before at another place; reuse "
        f"of more than prefixes could have saved {found['bytes']:,} bytes. Of the newest "
        f"{found['newest']:,} requests."
    )
    head = ("chunk", "times", "sessions", "bytes again")
    return Table("Chunks seen again elsewhere", note, head, _items(found))


def _live(found: dict[str, Any]) -> Table:
    rows: list[list[Cell]] = [
        [row["agent"], row["cause"], row["at"], row["requests"], row["behind_bytes"], row["measured"],
         row["saves_tokens"], seconds(row["saves_ms"])]
        for row in found["items"]
    ]  # fmt: skip
    note = (
        "What changes stands before text that does not, which was prefilled again. Moved to the end it would "
        f"have saved {found['saves_tokens']:,} tokens and {seconds(found['saves_ms'])} s, by the server's "
        f"own count. Of the newest {found['newest']:,} requests."
    )
    head = ("agent", "cause", "at", "requests", "bytes behind", "measured", "saves tokens", "saves s")
    return Table("Live data before stable text", note, head, rows)


def _same(found: dict[str, Any]) -> Table:
    rows: list[list[Cell]] = [
        [(row["question"] or "")[:QUESTION] or None, row["hits"], share(row["share"]), row["saved_tokens"],
         seconds(row["saved_ms"]), row["calls"], seconds(row["call_ms"]), row["request"]]
        for row in found["few"]
    ]  # fmt: skip
    spared = found["template"]
    note = (
        f"{share(found['hit_rate'])} of {found['looked']:,} looks hit, and it stays so: these few questions "
        f"make most of it. A fixed template for them would also spare the {spared['calls']:,} calls that "
        f"they still took: {spared['call_tokens']:,} tokens, {seconds(spared['call_ms'])} s. Their words "
        f"come from the live cache. Of the newest {found['newest']:,} requests."
    )
    head = ("question", "hits", "share", "saved tokens", "saved s", "calls", "calls s", "answered by")
    return Table("The same few questions", note, head, rows)


def _items(found: dict[str, Any]) -> list[list[Cell]]:
    return [[row["hash"], row["times"], row["sessions"], row["bytes"]] for row in found["items"]]


def _buckets(title: str, note: str, buckets: list[dict[str, Any]], unit: str) -> Table:
    rows: list[list[Cell]] = [[label(row["up_to"], buckets), row["count"]] for row in buckets]
    return Table(title, note, (unit, "count"), rows if any(row["count"] for row in buckets) else [])


def label(top: int | None, buckets: list[dict[str, Any]]) -> str:
    """The name of a bucket by its upper bound; the open one is named by the bound below."""
    if top is None:
        return f"over {_short(buckets[-2]['up_to'])}"
    return f"up to {_short(top)}"


def _short(number: int) -> str:
    for power, unit in ((20, "Mi"), (10, "Ki")):
        if number >= 1 << power and number % (1 << power) == 0:
            return f"{number >> power} {unit}"
    return str(number)


def _hours(hours: list[dict[str, Any]]) -> Table:
    rows: list[list[Cell]] = [
        [
            row["hour"],
            row["requests"],
            share(row["hit_rate"]),
            share(row["predicted_reuse"]),
            share(row["measured_reuse"]),
        ]
        for row in hours[-48:]
    ]
    head = ("hour (UTC)", "requests", "hit anything", "predicted", "measured")
    return Table("Hit rate over time", "The last 48 hours with requests.", head, rows)
