"""The requests that are under way, as people and programs see them: phase, progress, time. Pure.

A phase is what can be known from outside. Whether an engine still queues a request is judged by what else of
this proxy it works on: as many as it has slots, begun earlier and not ended, stand before it.
"""

import time
from collections.abc import Iterable, Sequence

import msgspec

from services.proxy.causes.scene import same_model, slots_of
from services.proxy.flow import Flow, Identity
from services.proxy.settling.speed import Speeds

MOST = 100  # rows that a page shows; the number of all is told beside them
LOADING = frozenset({"model_reload", "model_unloaded"})


class Progress(msgspec.Struct, kw_only=True):
    """Prompt tokens done and to do. `source`: ``engine`` (it tells) or ``rate`` (time at a learnt rate)."""

    done: int
    total: int
    source: str


class Underway(msgspec.Struct, kw_only=True):
    """One request that has not ended. `ahead` counts those that stand before it in the engine's queue."""

    id: str
    received_at: int
    elapsed_ms: int
    phase: str
    ahead: int
    progress: Progress | None
    agent: str | None
    session: str | None
    model: str | None
    backend: str
    kind: str
    hit: str | None
    predicted_reuse: float | None
    estimated_tokens: int | None
    streamed_deltas: int


def describe(flows: Iterable[Flow], speeds: Speeds, *, everything: bool = False) -> list[Underway]:
    """The flows as they stand now, oldest first; generations alone unless `everything`."""
    now = time.perf_counter()
    live = list(flows)
    shown = [flow for flow in live if everything or _kind(flow) == "generation"]
    return [_item(flow, live, speeds, now) for flow in shown[:MOST]]


def phase_of(flow: Flow, ahead: int) -> str:
    """``queued``, ``loading``, ``prefill`` or ``streaming``."""
    outcome = flow.outcome
    if outcome is not None and outcome.first_token_at is not None:
        return "streaming"
    if flow.sent_at is None or ahead:
        return "queued"
    if flow.answered_at is None and any(cause.code in LOADING for cause in flow.causes):
        return "loading"
    return "prefill"


def ahead_of(flow: Flow, live: Sequence[Flow]) -> int:
    """How many requests the engine has to finish before it can begin this one; 0 once it answers."""
    slots = slots_of(flow.backend)
    if slots is None or flow.prompt is None or flow.answered_at is not None:
        return 0
    before = 0
    for other in live:
        if other is flow:
            break
        if other.backend is flow.backend and other.prompt is not None and other.ended_at is None:
            before += same_model(other.prompt.model, flow.prompt.model)
    return max(0, before - slots + 1)


def progress_of(flow: Flow, phase: str, speeds: Speeds, now: float) -> Progress | None:
    """How far the engine has read the prompt, told by itself or judged by time; None where that is open."""
    if phase != "prefill" or flow.sent_at is None:
        return None
    outcome, verdict = flow.outcome, flow.verdict
    if outcome is not None and outcome.progress is not None:
        return Progress(done=int(outcome.progress[0]), total=int(outcome.progress[1]), source="engine")
    if verdict is None or flow.prompt is None:
        return None
    total = verdict.prompt_estimate - verdict.predicted_tokens
    expected = speeds.cost_ms((flow.backend.name, flow.prompt.model), total)
    if expected is None:
        return None
    share = min(1.0, (now - flow.sent_at) * 1e3 / expected)
    return Progress(done=round(total * share), total=total, source="rate")


def _item(flow: Flow, live: Sequence[Flow], speeds: Speeds, now: float) -> Underway:
    ahead = ahead_of(flow, live)
    phase = phase_of(flow, ahead)
    verdict, identity = flow.verdict, flow.identity or Identity(scope="")
    return Underway(
        id=flow.id,
        received_at=flow.received_at,
        elapsed_ms=round((now - flow.started) * 1e3),
        phase=phase,
        ahead=ahead if phase == "queued" else 0,
        progress=progress_of(flow, phase, speeds, now),
        agent=identity.agent,
        session=identity.session or (verdict.lineage if verdict else None),
        model=flow.prompt.model[:200] if flow.prompt else None,
        backend=flow.backend.name,
        kind=_kind(flow),
        hit=verdict.hit if verdict else None,
        predicted_reuse=round(verdict.predicted_reuse, 4) if verdict else None,
        estimated_tokens=verdict.prompt_estimate if verdict else None,
        streamed_deltas=flow.outcome.streamed_deltas if flow.outcome else 0,
    )


def _kind(flow: Flow) -> str:
    if flow.prompt is not None:
        return flow.prompt.kind
    return "generation" if flow.dialect is not None else "other"
