"""What a request's answer proves: measured reuse, the causes of what was not reused, and their cost.

Pure steps over a `Flow`; what they know besides comes through `Knowledge`, the few long-lived parts they
read and teach. `foresee` runs before the answer, `judge` when it ended, before the headers of a whole one;
`teach` once the last byte was sent, `finish` some time after. None waits for anything.
"""

import time
from array import array
from typing import Protocol

from services.proxy.causes.find import foreseen, scene_of, settled
from services.proxy.causes.notes import respelt, spellings_of
from services.proxy.causes.replies import reply_digests
from services.proxy.flow import Flow, Measured
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Estimator
from services.proxy.settling.billing import Billing
from services.proxy.settling.endings import Endings
from services.proxy.settling.explain import Explanations
from services.proxy.settling.loss import lost_ms, lost_tokens, model_of, speed_key
from services.proxy.settling.replayed import expect_reply, learn_reply
from services.proxy.settling.speed import MIN_TOKENS, Speeds
from services.proxy.settling.usage import measure
from services.proxy.state.base import Settled

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
        expect_reply(scene, flow, ctx.estimator)


def judge(flow: Flow, ctx: Knowledge) -> None:
    """What the headers may say of an ended answer: the engine's figures and the causes; fills both."""
    if flow.outcome is not None and flow.dialect is not None:
        flow.measured = measure(flow.outcome, flow.dialect, flow.backend)
        flow.cost = ctx.billing.bill(flow)
        if flow.ended_at is None and _said_all(flow) and (flow.http_status or 0) < 400:
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
    reply = flow.outcome.reply if flow.outcome and flow.verdict else None
    if reply is not None and not reply.truncated:
        ctx.texts.put_answer(flow.id, reply.sections)


def _said_all(flow: Flow) -> bool:
    """Whether an answer is whole: it says so, or has arrived in one piece and says of no error."""
    outcome = flow.outcome
    streamed = flow.prompt is not None and flow.prompt.stream
    return outcome is not None and (outcome.terminal or not (streamed or outcome.error))


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
    parsed = flow.dialect is not None and flow.dialect.family == "ollama"
    return Settled(
        id=flow.id,
        lineage=flow.verdict.lineage if flow.verdict else "",
        ended=flow.received_at + round(lasted * 1e3),
        status=flow.status,
        prompt_tokens=measured.prompt_tokens,
        cached_tokens=measured.cached_tokens,
        load_ms=measured.load_ms,
        output=outcome.output_hash if outcome else None,
        reply=reply_digests(outcome.reply, key, parsed=parsed) if outcome else [],
        temperature=flow.prompt.engine.temperature if flow.prompt else None,
        completion_tokens=measured.completion_tokens,
    )


def _infer(flow: Flow, speeds: Speeds) -> None:
    """Where the backend reports no cached tokens, infer them from the time that prefill took."""
    measured, verdict = flow.measured, flow.verdict
    if measured is None or measured.cached_tokens is not None or verdict is None or _shared_engine(flow):
        return
    milliseconds = _prefill_ms(flow)
    tokens = measured.prompt_tokens or verdict.prompt_estimate
    if milliseconds is None or measured.uncached_only or flow.status != "completed":
        return
    found = speeds.infer(speed_key(flow), tokens, milliseconds)
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
        ctx.estimator.learn(model_of(flow), prompt, measured.prompt_tokens, told)
        if (scene := scene_of(flow, ctx.texts)) is not None:
            learn_reply(scene, flow, ctx.estimator)
    milliseconds = _prefill_ms(flow)
    if milliseconds is None or _shared_engine(flow):
        return
    total = measured.prompt_tokens or verdict.prompt_estimate
    if measured.cached_tokens is not None and measured.source != "inferred_ttft":
        ctx.speeds.learn(speed_key(flow), total - measured.cached_tokens, milliseconds)
    elif verdict.predicted_reuse < COLD_SHARE or (measured.cached_tokens == 0 and total >= MIN_TOKENS):
        ctx.speeds.learn(speed_key(flow), total, milliseconds)


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
