"""What a request's answer proves: measured reuse, the causes of what was not reused, and their cost.

Pure steps over a `Flow`; what they know besides comes through `Knowledge`, the few long-lived parts they
read and teach. `foresee` runs before the answer, `judge` when it ended, before the headers of a whole one;
`teach` once the last byte was sent, `finish` some time after. None waits for anything.
"""

import time
from array import array
from collections.abc import Sequence
from typing import Protocol

from services.proxy.causes.find import foreseen, scene_of, settled
from services.proxy.causes.misses import expected, reply_tokens
from services.proxy.causes.notes import respelt, spellings_of
from services.proxy.causes.scene import Scene
from services.proxy.flow import Breaker, Flow, Measured
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Estimator, bulk_of, model_key
from services.proxy.settling.billing import Billing
from services.proxy.settling.endings import Endings
from services.proxy.settling.explain import Explanations
from services.proxy.settling.replies import reply_digests
from services.proxy.settling.row import headline, record_of
from services.proxy.settling.speed import MIN_TOKENS, Key, Speeds
from services.proxy.settling.usage import measure
from services.proxy.state.base import Settled

__all__ = [
    "Knowledge", "finish", "foresee", "headline", "judge", "record_of", "settle", "settled_of", "teach",
]  # fmt: skip

QUIET_MS = 600_000  # a call that has not ended after ten minutes is taken for lost, not for running
OVERLAP_MS = 50  # less than that is rounding, and the end of an answer that its reader had already read
COLD_SHARE = 0.05  # of a prompt: less predicted reuse than that makes a request cold


class Knowledge(Protocol):
    """The long-lived parts of the process that settling reads and teaches."""

    key: bytes
    texts: Texts
    estimator: Estimator
    speeds: Speeds
    explanations: Explanations
    endings: Endings
    billing: Billing


def foresee(flow: Flow, ctx: Knowledge) -> None:
    """Name the causes known before the answer; fills `flow.causes`."""
    flow.foreseen = True
    if flow.sighting is not None:
        ctx.endings.complete(flow.sighting)
    scene = scene_of(flow, ctx.texts)
    if scene is not None:
        flow.causes = foreseen(scene, flow, ctx.key)


def settle(flow: Flow, ctx: Knowledge) -> None:
    """All that an answer tells, in one step; fills `measured`, `causes`, `lost_*`."""
    judge(flow, ctx)
    teach(flow, ctx)
    finish(flow, ctx)


def judge(flow: Flow, ctx: Knowledge) -> None:
    """What the headers may say of an ended answer: the engine's figures and the causes; fills both."""
    if flow.outcome is not None and flow.dialect is not None:
        flow.measured = measure(flow.outcome, flow.dialect, flow.backend)
        flow.cost = ctx.billing.bill(flow)
        if flow.ended_at is None and flow.outcome.terminal and (flow.http_status or 0) < 400:
            flow.status = "completed"  # held until its headers are written; the wire has the last word
    if flow.verdict is None or flow.prompt is None:
        return
    if not flow.foreseen:
        foresee(flow, ctx)
    _infer(flow, ctx.speeds)
    scene = scene_of(flow, ctx.texts)
    if scene is not None:
        flow.causes = settled(scene, flow, flow.causes)


def teach(flow: Flow, ctx: Knowledge) -> None:
    """What this answer teaches, and what later requests are told of it; after `judge`."""
    _learn(flow, ctx)
    ctx.endings.put(settled_of(flow, ctx.key))


def finish(flow: Flow, ctx: Knowledge) -> None:
    """Notes and costs, which nobody waits for; after `teach`."""
    if flow.verdict is None or flow.prompt is None:
        return
    spellings = array("q", spellings_of(flow.prompt.chunks))
    before = ctx.endings.spellings(_parent(flow))
    if flow.causes or any(before):
        scene = scene_of(flow, ctx.texts)
        if scene is not None:
            flow.causes += respelt(scene, before, spellings)
            flow.lost_tokens = lost_tokens(scene, flow, ctx.estimator)
            flow.lost_ms = lost_ms(flow, ctx.speeds)
    ctx.endings.spell(flow.id, spellings)
    ctx.explanations.put(flow)


def settled_of(flow: Flow, key: bytes) -> Settled:
    """What the shared state keeps of a flow whose answer ended: figures and keyed digests, no text."""
    measured, outcome = flow.measured or Measured(), flow.outcome
    lasted = (flow.ended_at or time.perf_counter()) - flow.started
    return Settled(
        id=flow.id,
        lineage=flow.verdict.lineage if flow.verdict else "",
        ended=flow.received_at + round(lasted * 1e3),
        status=flow.status,
        prompt_tokens=measured.prompt_tokens,
        cached_tokens=measured.cached_tokens,
        load_ms=measured.load_ms,
        output=outcome.output_hash if outcome else None,
        reply=reply_digests(outcome.reply, key) if outcome else [],
        temperature=flow.prompt.engine.temperature if flow.prompt else None,
        completion_tokens=measured.completion_tokens,
    )


def lost_tokens(scene: Scene, flow: Flow, estimator: Estimator) -> int | None:
    """Tokens prefilled that need not have been, had the first cause not been there; None where unknown."""
    first = headline(flow.causes)
    if first is None or first.code == "model_switch":
        return None
    total = (scene.measured.prompt_tokens if scene.measured else None) or scene.verdict.prompt_estimate
    cached = scene.cached
    uncached = total - cached if cached is not None else total
    if first.severity == "break":
        tokens = _tokens_behind(
            flow, first.at or "", equal_behind(scene.verdict.breakers, first.at), estimator
        )
        if cached is not None:
            tokens += max(0, expected(scene)[0] - cached)
    elif cached is not None:
        tokens = max(0, expected(scene)[0] + reply_tokens(scene, first.code) - cached)
    elif scene.verdict.parent is not None and first.code in (
        "model_reload",
        "model_unloaded",
        "client_disabled_cache",
    ):
        tokens = expected(scene)[0]
    else:
        return None
    return max(0, min(tokens, uncached))


def equal_behind(breakers: Sequence[Breaker], at: str | None) -> int:
    """Bytes equal again anywhere behind the break at `at`: what all breaks from there on cost together.

    Each was in the way of what stands behind it, so no share is one's own; the first carries the whole.
    """
    places = [breaker.path for breaker in breakers]
    breaks = breakers[places.index(at) :] if at in places else []
    ends = (
        len(b.new) - b.offset - b.inserted for b in breaks[1:] if b.change == "edit" and b.new is not None
    )
    whole = (breaks[0].equal_after if breaks else 0) + sum(max(0, end) for end in ends)
    return max([whole, *(breaker.equal_after for breaker in breaks)])


def _tokens_behind(flow: Flow, at: str, behind: int, estimator: Estimator) -> int:
    """Tokens of so many bytes behind a break at `at`: tool schemas are among them only if it is in those."""
    chunks = flow.prompt.chunks if flow.prompt else []
    bulk = bulk_of(chunk for chunk in chunks if chunk.kind != "tools" or at.startswith("tools"))
    size = bulk.narrow + bulk.wide + bulk.tools
    return round(estimator.exact(_model(flow), bulk.part(behind / size if size else 0.0), whole=False))


def lost_ms(flow: Flow, speeds: Speeds) -> float | None:
    """Milliseconds the lost tokens took: by this answer's own prefill time, else by the learnt rate."""
    lost, measured = flow.lost_tokens, flow.measured
    if not lost:
        return None
    if measured and measured.prefill_ms and measured.prompt_tokens and measured.cached_tokens is not None:
        uncached = measured.prompt_tokens - measured.cached_tokens
        if uncached >= lost:
            return round(measured.prefill_ms * lost / uncached, 3)
    return speeds.cost_ms(_speed_key(flow), lost)


def _infer(flow: Flow, speeds: Speeds) -> None:
    """Where the backend reports no cached tokens, infer them from the time that prefill took."""
    measured, verdict = flow.measured, flow.verdict
    if measured is None or measured.cached_tokens is not None or verdict is None or _shared_engine(flow):
        return
    milliseconds = _prefill_ms(flow)
    tokens = measured.prompt_tokens or verdict.prompt_estimate
    if milliseconds is None or measured.uncached_only or flow.status != "completed":
        return
    found = speeds.infer(_speed_key(flow), tokens, milliseconds)
    if found is not None:
        measured.cached_tokens, measured.confidence = found.cached_tokens, found.confidence
        measured.source, measured.field = "inferred_ttft", None


def _learn(flow: Flow, ctx: Knowledge) -> None:
    """Teach what this answer shows: bytes to tokens, and tokens to milliseconds."""
    measured, prompt, verdict = flow.measured, flow.prompt, flow.verdict
    if measured is None or prompt is None or verdict is None or flow.status != "completed":
        return
    cut = any(cause.code == "context_truncated" for cause in flow.causes)
    if measured.prompt_tokens and not measured.uncached_only and not cut:
        told = flow.backend.facts.get("template")
        ctx.estimator.learn(_model(flow), prompt, measured.prompt_tokens, told)
    milliseconds = _prefill_ms(flow)
    if milliseconds is None or _shared_engine(flow):
        return
    total = measured.prompt_tokens or verdict.prompt_estimate
    if measured.cached_tokens is not None and measured.source != "inferred_ttft":
        ctx.speeds.learn(_speed_key(flow), total - measured.cached_tokens, milliseconds)
    elif verdict.predicted_reuse < COLD_SHARE or (measured.cached_tokens == 0 and total >= MIN_TOKENS):
        ctx.speeds.learn(_speed_key(flow), total, milliseconds)


def _prefill_ms(flow: Flow) -> float | None:
    """Prefill time: as reported, else time to the first token without the load."""
    measured, outcome = flow.measured, flow.outcome
    if measured is not None and measured.prefill_ms is not None:
        return measured.prefill_ms
    if outcome is None or outcome.first_token_at is None or flow.body_at is None:
        return None
    waited = (outcome.first_token_at - (flow.sent_at or flow.body_at)) * 1e3
    return max(0.0, waited - ((measured.load_ms if measured else None) or 0.0))


def _shared_engine(flow: Flow) -> bool:
    """Whether other calls were under way on the backend, so that the wait was not this prompt's alone."""
    if flow.measured is not None and flow.measured.prefill_ms is not None:
        return False
    calls = flow.sighting.calls if flow.sighting else []
    return any(
        (settled is None and flow.received_at - call.at < QUIET_MS)
        or (settled is not None and settled.ended - flow.received_at > OVERLAP_MS)
        for call, settled in calls
    )


def _parent(flow: Flow) -> str:
    return flow.verdict.parent.node.id if flow.verdict and flow.verdict.parent else ""


def _model(flow: Flow) -> str:
    return model_key(flow.backend.name, flow.prompt.model if flow.prompt else "")


def _speed_key(flow: Flow) -> Key:
    return flow.backend.name, flow.prompt.model if flow.prompt else ""
