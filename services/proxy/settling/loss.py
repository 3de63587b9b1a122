"""What was lost, in tokens and in time: booked whole to the first cause, so that sums count it once. Pure."""

from collections.abc import Sequence

from services.proxy.causes.misses import expected, reply_tokens
from services.proxy.causes.scene import Scene
from services.proxy.flow import Breaker, Flow
from services.proxy.placing.tokens import Estimator, bulk_of, model_key
from services.proxy.settling.row import headline
from services.proxy.settling.speed import Key, Speeds


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
        if cached is not None:  # more than expected, too: a template may leave out what changed
            tokens += expected(scene)[0] - cached
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
    return round(estimator.exact(model_of(flow), bulk.part(behind / size if size else 0.0), whole=False))


def lost_ms(flow: Flow, speeds: Speeds) -> float | None:
    """Milliseconds the lost tokens took: by this answer's own prefill time, else by the learnt rate."""
    lost, measured = flow.lost_tokens, flow.measured
    if not lost:
        return None
    if measured and measured.prefill_ms and measured.prompt_tokens and measured.cached_tokens is not None:
        uncached = measured.prompt_tokens - measured.cached_tokens
        if uncached >= lost:
            return round(measured.prefill_ms * lost / uncached, 3)
    return speeds.cost_ms(speed_key(flow), lost)


def model_of(flow: Flow) -> str:
    """How the estimates of a flow's model are kept."""
    return model_key(flow.backend.name, flow.prompt.model if flow.prompt else "")


def speed_key(flow: Flow) -> Key:
    """How its prefill rate is kept."""
    return flow.backend.name, flow.prompt.model if flow.prompt else ""
