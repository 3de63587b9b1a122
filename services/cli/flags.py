"""The doctor's check of a model server's flags: those that hide its hits, and those that lose them.

Each finding rests on evidence: the server's own counters and settings, and what the history holds of it.
Nothing is said of a server that shows nothing.
"""

import datetime as dt
import http.client
from collections.abc import Iterator

import click

from services.cli import client
from services.cli.history import reading
from services.cli.verdict import Verdict
from services.probe import Found, ask, probe_blocking
from services.settings import Settings
from services.watch.evidence import Used, used_since
from services.watch.reading import Reading
from services.watch.scrape import Unwatchable, scrape

DAYS = 7
# So many requests make a habit; fewer may be somebody's first tries.
ENOUGH = 5
# On average half a block at the end of what is shared is computed again.
WORTH_SAYING = 0.1
Trouble = tuple[str, str]


def flags(settings: Settings) -> Verdict:
    """Whether the model servers show and keep their hits, as far as they and the history tell."""
    names = _backends(settings)
    asked, troubles = [], []
    for name, url in names.items():
        found = probe_blocking(url)
        if found is None or found.kind not in {"vllm", "llama-server"}:
            continue
        asked.append(f"{found.kind} at {url}")
        troubles += _troubles(found, url, _used(settings, name))
    if troubles:
        about, advice = zip(*troubles, strict=True)
        return Verdict("warn", "; ".join(about), " ".join(advice))
    if asked:
        return Verdict("ok", f"nothing seen that hides or loses hits of {', '.join(asked)}")
    return Verdict("ok", "no vLLM or llama-server to look at")


def _backends(settings: Settings) -> dict[str, str]:
    """The configured backends by name, else the one that a running proxy serves."""
    if found := {row.name: row.url for row in settings.named_backends}:
        return found
    return {one["name"]: one["url"] for one in client.running(settings).get("backends", [])}


def _used(settings: Settings, name: str) -> Used:
    since = dt.datetime.now(dt.UTC) - dt.timedelta(days=DAYS)
    try:
        with reading(settings) as connection:
            return used_since(connection, name, since)
    except click.ClickException:  # no history yet, or none that answers: no evidence from there
        return Used()


def _troubles(found: Found, url: str, used: Used) -> list[Trouble]:
    try:
        counted: Reading | None = scrape(url)
        code = None
    except Unwatchable as trouble:
        counted, code = None, trouble.code
    if found.kind == "vllm":
        return list(_vllm(counted, code, used))
    slots = ask(url, "/slots")
    hidden = slots is not None and slots.status == http.client.NOT_IMPLEMENTED
    return list(_llama_server(found.facts.get("total_slots"), code, used, hidden=hidden))


def _vllm(counted: Reading | None, code: str | None, used: Used) -> Iterator[Trouble]:
    if code == "no_counters":
        yield "vLLM exports no counters", "Start vLLM without --disable-log-stats."
    if counted is None:
        return
    if counted.facts.get("enable_prefix_caching", "").lower() == "false":
        yield "vLLM's prefix caching is off", "Start vLLM with --enable-prefix-caching."
    elif counted.hits and used.prompts >= ENOUGH and not used.reported:
        about = f"vLLM counts hits, but told of none in the last {used.prompts} answers"
        yield about, "Start vLLM with --enable-prompt-tokens-details."
    yield from _blocks(counted, used)


def _blocks(counted: Reading, used: Used) -> Iterator[Trouble]:
    """Only whole blocks are reused: a block is to be small against the prompts that really come."""
    size = counted.facts.get("block_size", "")
    if not size.isdecimal() or used.median_prompt is None or used.prompts < ENOUGH:
        return
    block, prompt = int(size), used.median_prompt
    if block / 2 < WORTH_SAYING * prompt:
        return
    share = f"{block / 2 / prompt:.0%} of such a prompt is lost"
    loss = "nothing of those can be reused" if block > prompt else share
    yield (
        f"vLLM's blocks have {block} tokens, half the prompts fewer than {prompt:,}: {loss}",
        "Start vLLM with a smaller --block-size, unless the model is a hybrid that needs it.",
    )


def _llama_server(slots: object, code: str | None, used: Used, *, hidden: bool) -> Iterator[Trouble]:
    if code == "no_metrics":
        yield "llama-server counts nothing", "Start llama-server with --metrics."
    if hidden:
        yield "llama-server hides its slots", "Start llama-server without --no-slots."
    if isinstance(slots, int) and used.crowded_out >= ENOUGH and used.conversations > slots:
        about = (
            f"{used.crowded_out} requests lost their cache to others: {used.conversations} conversations "
            f"in {DAYS} days on {slots} slot{'s' if slots > 1 else ''}"
        )
        yield about, "Start llama-server with more slots (-np) or a larger --cache-ram."
