"""One request: every figure with its source, the chunk strip, the explanation, and whom it belongs to."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.history import History
from services.proxy.admin.pages.language import Speech
from services.proxy.admin.pages.site import Site
from services.proxy.admin.pages.strip import draw
from services.proxy.admin.pages.words import (
    UNKNOWN,
    count,
    dollars,
    measured_reuse,
    milliseconds,
    percent,
    size,
)
from services.proxy.admin.parts import Parts
from services.proxy.admin.rows import row_of
from services.proxy.admin.strips import blocks_of
from services.proxy.admin.underway import describe
from services.proxy.settling.explain import explain_row

CHILDREN = 20
ALIKE = 4


def routes(ctx: Parts, history: History, site: Site) -> list[Any]:
    """``/requests/{id}``."""

    @get("/requests/{request_id:str}", summary="One request as a page")
    async def one(request: Request[Any, Any, Any], request_id: str) -> Response[str]:
        say = site.speech(request)
        try:
            row = await row_of(ctx, history, request_id)
        except NotFoundException:
            return _not_there(ctx, site, request, request_id)
        explanation = ctx.explanations.get(request_id) or explain_row(row)
        strip = ctx.strips.get(request_id)
        return site.page(
            request,
            "request",
            row=row,
            explanation=explanation,
            drawing=draw(blocks_of(row, strip), row, exact=strip is not None, say=say),
            figures=figures(row, say),
            difference=difference(explanation["before"], explanation["after"]),
            **await _family(history, row),
        )

    return [one]


def _not_there(ctx: Parts, site: Site, request: Request[Any, Any, Any], request_id: str) -> Response[str]:
    live = [underway.flow for underway in ctx.live if underway.flow.id == request_id]
    flows = describe(live, ctx.speeds, everything=True)
    return site.page(request, "missing", status=200 if flows else 404, flow=flows[0] if flows else None)


async def _family(history: History, row: Mapping[str, Any]) -> dict[str, Any]:
    """The request it was compared with and those compared with it; without a database these are unknown."""
    try:
        return await history.ask(_relatives, row["parent_id"], row["id"])
    except HistoryUnavailable:
        return {"parent": None, "children": []}


def _relatives(connection: Any, parent_id: str | None, request_id: str) -> dict[str, Any]:
    from services.history import queries  # noqa: PLC0415  # not before somebody looks

    return {
        "parent": queries.get_request(connection, parent_id) if parent_id else None,
        "children": queries.children(connection, request_id, CHILDREN),
    }


class Difference(NamedTuple):
    """Two excerpts, taken apart: what they begin with alike, what differs, and how each goes on."""

    head: str
    old: str
    new: str
    old_tail: str
    new_tail: str


def difference(before: str | None, after: str | None) -> Difference | None:
    """Where two excerpts differ; None where either is not at hand. Pure."""
    if before is None or after is None:
        return None
    head = before[: _alike(before, after)]
    old, new = before[len(head) :], after[len(head) :]
    tail = _alike(old[::-1], new[::-1])
    # Excerpts are cut to length, so their ends need not correspond; a short common end is chance.
    tail = tail if tail >= ALIKE else 0
    cut_old, cut_new = len(old) - tail, len(new) - tail
    return Difference(head, old[:cut_old], new[:cut_new], old[cut_old:], new[cut_new:])


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def figures(row: Mapping[str, Any], say: Speech) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Groups of (name, figure, source). What is unknown is a dash, and says why. Pure."""
    backend, ours = say("the model server reports it"), say("MetalAnchor measured it")
    estimated = say("estimated from bytes, at the ratio learnt for this model")
    cached = _cached_source(row, say)
    return [
        (
            say("Reuse"),
            [
                (
                    say("Predicted reuse"),
                    percent(row["predicted_reuse"]),
                    say("from the text, before the answer"),
                ),
                (say("Measured reuse"), percent(measured_reuse(dict(row))), cached),
                (say("Prompt tokens"), count(row["prompt_tokens"]), backend),
                (say("Cached tokens"), count(row["cached_tokens"]), cached),
                (say("Predicted tokens"), count(row["predicted_tokens"]), estimated),
                (say("Tokens lost"), count(row["lost_tokens"]), say("what the first cause cost")),
            ],
        ),
        (
            say("Time"),
            [
                (say("First token"), milliseconds(row["ttft_ms"]), _ttft_source(row, say)),
                (say("Whole answer"), milliseconds(row["total_ms"]), ours),
                (say("Reading the prompt"), milliseconds(row["prefill_ms"]), backend),
                (say("Loading the model"), milliseconds(row["load_ms"]), backend),
                (say("Time lost"), milliseconds(row["lost_ms"]), say("tokens lost, at this model's speed")),
                (say("Added by MetalAnchor"), milliseconds(row["overhead_ms"]), ours),
            ],
        ),
        (
            say("Size"),
            [
                (say("Body"), size(row["request_bytes"]), ours),
                (say("Messages"), count(row["message_count"]), ours),
                (say("Tools"), count(row["tool_count"]), ours),
                (say("Tokens answered"), count(row["completion_tokens"]), backend),
                (say("Pieces streamed"), count(row["streamed_deltas"]), ours),
            ],
        ),
        *_money(row, say),
    ]


def _money(row: Mapping[str, Any], say: Speech) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """What a request to a service that charges cost; nothing is said of others."""
    if row["cost_usd"] is None:
        return []
    by_list = say("list prices of the tokens that the service reported")
    against = say("against no caching; writing to a cache costs more than not using one")
    figures = [
        (say("Cost"), dollars(row["cost_usd"]), by_list),
        (say("Saved by prompt caching"), dollars(row["savings_usd"]), against),
        (say("Written for five minutes"), count(row["written_tokens"]), say("the model server reports it")),
        (say("Written for an hour"), count(row["written_1h_tokens"]), say("the model server reports it")),
    ]
    return [(say("Money"), figures)]


def _cached_source(row: Mapping[str, Any], say: Speech) -> str:
    source, field = row["cached_source"], row["cached_field"]
    if row["cached_tokens"] is None:
        return say("the model server does not report it")
    text = f"{source or UNKNOWN}: {field}" if field else (source or UNKNOWN)
    if row["cached_confidence"] is not None and row["cached_confidence"] < 1:
        return say("{source}, confidence {share}", source=text, share=percent(row["cached_confidence"]))
    return text


def _ttft_source(row: Mapping[str, Any], say: Speech) -> str:
    if row["ttft_ms"] is None:
        return say("unknown for an answer that is not streamed")
    return say("MetalAnchor measured it") if row["stream"] else say("the model server reports it")
