"""``metalanchor explain`` says why one request did not reuse what it could have, as a person reads it."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click

from services.cli import client
from services.cli.errors import Failure, Unreachable
from services.cli.history import reading
from services.cli.output import as_json, print_json
from services.settings import Settings, load

EXACT_S = 130.0  # four questions to the backend, each of which the proxy gives 30 s


@click.command()
@click.argument("request_id", required=False, metavar="[ID]")
@click.option("--last", is_flag=True, help="Explain the latest recorded generation.")
@click.option("--bodies", is_flag=True, help="Also show request and answer, where bodies are kept.")
@click.option(
    "--exact", is_flag=True, help="Also find the very token, by the backend's template and tokeniser."
)
@as_json
def explain(request_id: str | None, *, last: bool, bodies: bool, exact: bool, as_json: bool) -> None:
    """Say why a request did not reuse what it could have.

    Asks the running proxy, which alone still has the text; without it, tells what was recorded.
    """
    settings = load()
    if bool(request_id) == last:
        raise click.UsageError("Name a request's ID, or use --last. `metalanchor requests` lists them.")
    found = _explanation(settings, request_id or _latest(settings))
    if exact:
        found["exact"] = _exact(settings, found["id"])
    if bodies:
        found["bodies"] = _bodies(settings, found["id"])
    if as_json:
        print_json(found)
    else:
        for line in lines(found):
            click.echo(line)


def _latest(settings: Settings) -> str:
    from services.history.queries import Filters, list_requests  # noqa: PLC0415

    with reading(settings) as connection:
        items = list_requests(connection, Filters(kind="generation"), None, 1)["items"]
    if not items:
        raise Failure("No generation has been recorded yet.")
    return str(items[0]["id"])


def _explanation(settings: Settings, request_id: str) -> dict[str, Any]:
    found = None
    with suppress(Unreachable):
        found = client.get(settings, f"/api/requests/{request_id}/explain")
    found = found or _recorded(settings, request_id)
    if not found:
        raise Failure(f"No request {request_id} is known. `metalanchor requests` lists them.")
    return dict(found)


def _exact(settings: Settings, request_id: str) -> dict[str, Any]:
    found = client.post(settings, f"/api/requests/{request_id}/exact", EXACT_S)
    if found is None:
        raise Failure("The running proxy did not answer that request itself, so it has no text to render.")
    return dict(found)


def _bodies(settings: Settings, request_id: str) -> dict[str, Any]:
    from services.history.bodies import get_bodies  # noqa: PLC0415

    with reading(settings) as connection:
        found = get_bodies(connection, request_id)
    if found is None:
        off = "" if settings.store_bodies else " METALANCHOR_STORE_BODIES=true keeps those to come."
        raise Failure(f"No bodies are kept of request {request_id}.{off}")
    return found


def _recorded(settings: Settings, request_id: str) -> dict[str, Any] | None:
    from services.history.queries import get_request  # noqa: PLC0415
    from services.proxy.settling.explain import explain_row  # noqa: PLC0415

    with reading(settings) as connection:
        row = get_request(connection, request_id)
    return explain_row(row) if row else None


def lines(found: dict[str, Any]) -> list[str]:
    """An explanation as lines of text, with ANSI colours that a pipe does not get."""
    predicted, observed = found["predicted"], found["observed"]
    out = [
        f"Request    {found['id']}",
        f"Compared   {found['parent_id'] or 'with nothing: the first of its kind'}",
        f"Relation   {found['relation'] or 'unknown'}, hit {found['hit'] or 'unknown'}",
        f"Predicted  {_predicted(predicted)}",
        f"Measured   {_measured(observed)}",
    ]
    if found["lost_tokens"] is not None or found["lost_ms"] is not None:
        seconds = "" if found["lost_ms"] is None else f", about {found['lost_ms'] / 1000:.1f} s"
        lost = f"Lost       {_count(found['lost_tokens'])} tokens{seconds}{_booked(found)}"
        out.append(click.style(lost, fg="yellow"))
    if found["diverged_at"]:
        out += ["", *_divergence(found)]
    if "exact" in found:
        out += ["", *_token(found["exact"])]
    if found["causes"]:
        out += ["", "Causes"]
        out += [f"  {_cause(cause)}" for cause in found["causes"]]
    if found["advice"]:
        out += ["", click.style(f"Advice     {found['advice']}", bold=True)]
    for name, body in found.get("bodies", {}).items():
        if isinstance(body, dict):
            cut = ", of which the head is kept" if body["cut"] else ""
            out += ["", f"{name.capitalize():11}{_count(body['bytes'])} bytes{cut}", _printable(body["text"])]
    return out


def _booked(found: dict[str, Any]) -> str:
    """To which of several causes the loss is booked: mending that one shows what the next one costs."""
    codes = [cause["code"] for cause in found["causes"] if cause["severity"] in {"break", "loss"}]
    return f", all booked to the first cause, {codes[0]}" if len(codes) > 1 else ""


def _divergence(found: dict[str, Any]) -> list[str]:
    precision = found["offset_precision"] or 1
    near = "" if precision == 1 else f" (to within {precision} bytes)"
    after = found["equal_after_divergence"]
    equal = "" if after is None else f"; {after} bytes behind it are equal again"
    out = [f"Diverged   {found['diverged_at']} at byte {_count(found['byte_offset'])}{near}{equal}"]
    before, now = found["before"], found["after"]
    if before is not None and now is not None:
        out += diff(before, now)
    return out


def _token(found: dict[str, Any]) -> list[str]:
    """Where the rendered prompts part, by the backend's own account."""
    if not found["broken"]:
        return ["Exact      the whole rendered prompt before it is kept"]
    place = f"byte {_count(found['byte_offset'])} of the rendered prompt"
    if found["token"] is not None:
        known = f"token {_count(found['token'])} of {_count(found['tokens'])}"
        place = known if found["byte_offset"] is None else f"{known}, {place}"
    out = [f"Exact      the rendered prompts part at {place}"]
    if found["before"] is not None and found["after"] is not None:
        out += diff(found["before"], found["after"])
    return out


def diff(before: str, now: str) -> list[str]:
    """Two excerpts, one under the other: what is equal plain, what differs coloured."""
    head = _common(before, now)
    tail = min(_common(before[::-1], now[::-1]), min(len(before), len(now)) - head)
    return [_marked("-", before, head, tail, "red"), _marked("+", now, head, tail, "green")]


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _marked(sign: str, text: str, head: int, tail: int, colour: str) -> str:
    end = len(text) - tail
    parts = (_visible(text[:head]), _visible(text[head:end]), _visible(text[end:]))
    return (
        f"  {click.style(sign, fg=colour)} {parts[0]}{click.style(parts[1], fg=colour, bold=True)}{parts[2]}"
    )


def _printable(text: str) -> str:
    return "\n".join(_visible(line) for line in text.splitlines())


def _visible(text: str) -> str:
    # Prompt text is a stranger's: control characters must not reach the terminal.
    shown = text.replace("\n", "⏎").replace("\t", "⇥")
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)


def _cause(cause: dict[str, Any]) -> str:
    colour = {"break": "red", "loss": "red", "risk": "yellow"}.get(cause["severity"], "")
    detail = ", ".join(_detail(cause.get("detail") or {}))
    place = f" at {cause['at']}" if cause.get("at") else ""
    return f"{click.style(cause['code'], fg=colour or None)} [{cause['severity']}]{place}  {detail}".rstrip()


def _detail(detail: dict[str, Any]) -> Iterator[str]:
    """Each known part in words; of all that may be null only an option's value says something by it."""
    for name, value in detail.items():
        if value is None and name in {"old", "new"}:
            yield f"{name} unset"
        elif isinstance(value, list):
            yield f"{name} {' '.join(_visible(str(one)) for one in value)}"
        elif value is not None:
            yield f"{name} {_visible(str(value))}"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _count(value: int | None) -> str:
    return "an unknown number of" if value is None else f"{value:,}"


def _predicted(predicted: dict[str, Any]) -> str:
    if predicted["reuse"] is None:
        return "unknown"
    return f"{_share(predicted['reuse'])} reusable ({_count(predicted['tokens'])} tokens)"


def _measured(observed: dict[str, Any]) -> str:
    if observed["cached_tokens"] is None:
        return "the engine did not say"
    sure = observed["confidence"]
    how = (observed["source"] or "source unknown") + ("" if sure is None else f", confidence {sure:.0%}")
    cached, total = _count(observed["cached_tokens"]), _count(observed["prompt_tokens"])
    return f"{_share(observed['reuse'])} reused ({cached} of {total} tokens; {how})"
