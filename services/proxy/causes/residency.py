"""Whether the engine could keep anything: the model reloaded or unloaded, its context cut, its cache off.

Pure. Before the answer these causes are foreseen from the timeline; afterwards a load time that the backend
reports confirms or refutes them, and a high measured reuse refutes them too.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from services.proxy.backends.restarts import Restart
from services.proxy.causes.scene import NEVER_RAN, Run, Scene, same_model
from services.proxy.dialects.engine import LOAD_OPTIONS
from services.proxy.flow import Cause
from services.proxy.state.base import Past

KEEP_ALIVE_S = 300.0  # Ollama's default; a backend with another is caught by its reported load time
LEAST_IDLE_S = 10.0  # no server ships with a shorter idle time; one that was set per call is known by it
LOADED_MS = 250.0  # Ollama reports 10 to 100 ms for a model that is ready; reading the smallest takes longer
OVERSIZE = 1.25  # estimate over context from which a cut is said: estimates of known models err by under 10 %
USUAL_CONTEXTS = frozenset(2**power for power in range(11, 19))


def residency(scene: Scene) -> list[Cause]:
    """The causes of this kind, what was cut before what was loaded."""
    reload = reloaded(scene)
    found = (truncated(scene), reload, None if reload else unloaded(scene), disabled(scene))
    return [cause for cause in found if cause]


def truncated(scene: Scene) -> Cause | None:
    """The prompt was longer than the context, so the engine drops its front, anew on every turn."""
    sent, limit = scene.verdict.prompt_estimate, scene.num_ctx
    evaluated = scene.measured.prompt_tokens if scene.measured else None
    if scene.kind in ("llama-server", "vllm", "openai", "anthropic"):
        return None  # these refuse a long prompt, they do not cut it
    if evaluated is None:
        over = limit is not None and sent > OVERSIZE * limit
    elif limit is not None:
        over = sent > OVERSIZE * limit and evaluated <= limit and evaluated * OVERSIZE < sent
    else:
        over = evaluated in USUAL_CONTEXTS and sent > 2 * evaluated
        limit = evaluated if over else None
    if not over:
        return None
    detail = {"sent_estimate": sent, "evaluated": evaluated, "num_ctx": limit}
    return Cause(code="context_truncated", severity="loss", detail=detail)


def reloaded(scene: Scene) -> Cause | None:
    """The server is another process, or a load-affecting option differs from the model's last load."""
    return None if _reused(scene) else _relaunched(scene) or _asked_otherwise(scene)


def _relaunched(scene: Scene) -> Cause | None:
    restart = restarted(scene)
    if restart is None or restart.evidence == "asleep":
        return None
    return _reload(restart.option, restart.old, restart.new, None, None, evidence=restart.evidence)


def _asked_otherwise(scene: Scene) -> Cause | None:
    """A load-affecting option differs from the one that the model was last loaded with."""
    if not _loads(scene):
        return None
    runs = _since_unload(scene.model_runs)
    here = scene.prompt.engine.options
    if runs and not _was_ready(scene) and (name := _changed(runs[-1].call.options, here)):
        return _reload(name, runs[-1].call.options.get(name), here.get(name), scene.agent, scene.request)
    if scene.parent is None:
        return None
    since = {run.call.id for run in scene.since_parent}
    for before, after in reversed(list(pairwise(runs))):
        if after.call.id in since and (name := _changed(before.call.options, after.call.options)):
            old, new = before.call.options.get(name), after.call.options.get(name)
            return _reload(name, old, new, after.call.agent, after.call.id)
    return None


def restarted(scene: Scene) -> Restart | None:
    """The server's restart between the parent's turn and this one, where that is when it was.

    A server that was last seen to be the old one before the parent's turn may have restarted before that;
    then it is said only if nobody else has used the model since, who could have taken the parent's place.
    """
    served = _last_served(scene)
    if served is None:
        return None
    began = served.node.at
    restart = next((r for r in reversed(scene.backend.restarts) if r.after <= scene.at), None)
    if restart is None or restart.by < began:
        return None
    certain = restart.after >= began or restart.evidence == "was_away"
    return restart if certain or not scene.since_parent else None


def _last_served(scene: Scene) -> Past | None:
    """The parent, or where that one found nobody there, the last of its conversation that did."""
    parent = scene.parent
    if parent is None or parent.settled is None or parent.settled.status not in NEVER_RAN:
        return parent
    return next(
        (
            past
            for past in scene.sighting.candidates
            if past.node.lineage == parent.node.lineage
            and past.settled is not None
            and past.settled.status not in NEVER_RAN
        ),
        None,
    )


def unloaded(scene: Scene) -> Cause | None:
    """The model left memory since its last call: idle for longer than it was kept, or told to go."""
    if _reused(scene):
        return None
    restart = restarted(scene)
    asleep = restart is not None and restart.evidence == "asleep"
    if not asleep and (not _loads(scene) or _was_ready(scene)):
        return None
    if not scene.model_runs:
        return None
    gap_s = max(0.0, (scene.at - scene.model_runs[-1].ended) / 1e3)
    return _unload("idle_timeout", gap_s, None, None) if asleep else _let_go(scene, gap_s)


def _let_go(scene: Scene, gap_s: float) -> Cause | None:
    """By what was asked of it: told to go, or idle for longer than it was to be kept."""
    runs = scene.model_runs
    last = runs[-1]
    told = next((run for run in reversed(runs) if _ends(run)), None)
    if told is not None and (told is last or _touches_parent(scene, told)):
        return _unload("keep_alive_0", gap_s, 0.0, told.call.id)
    kept, setter = _keep_alive(runs)
    if kept >= 0 and gap_s > kept:
        return _unload("idle_timeout", gap_s, kept, setter.call.id if setter else last.call.id)
    if scene.parent is not None and _was_loaded(scene) and not _other_models(scene):
        # The server's own idle time is known to nobody here.
        default = setter is None and gap_s > LEAST_IDLE_S
        return _unload("idle_timeout" if default else None, gap_s, kept if setter else None, None)
    return None


def disabled(scene: Scene) -> Cause | None:
    """The request itself says that nothing shall be reused, and there was something to reuse.

    A server that does not know the option, and reused much all the same, refutes it.
    """
    asked = scene.prompt.engine.cache_prompt is False and scene.verdict.predicted_tokens > 0
    if not asked or _reused(scene):
        return None
    return Cause(
        code="client_disabled_cache", severity="loss", detail={"option": "cache_prompt", "value": False}
    )


def _loads(scene: Scene) -> bool:
    """Whether this backend loads and unloads models by request options and idle time, as Ollama does."""
    return scene.kind == "ollama" or scene.prompt.dialect.startswith("ollama")


def _reused(scene: Scene) -> bool:
    """Whether the answer shows that what was cached had survived."""
    cached, total = scene.cached, scene.measured.prompt_tokens if scene.measured else None
    return cached is not None and total is not None and cached > total / 4


def _was_ready(scene: Scene) -> bool:
    """Whether the answer reports that the model was in memory when the request came."""
    load_ms = scene.measured.load_ms if scene.measured else None
    return load_ms is not None and load_ms < LOADED_MS


def _changed(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    return next((name for name in (*LOAD_OPTIONS, "shift") if old.get(name) != new.get(name)), None)


def _ends(run: Run) -> bool:
    return run.call.kind == "unload" or run.call.keep_alive_s == 0


def _since_unload(runs: list[Run]) -> list[Run]:
    last = max((index for index, run in enumerate(runs) if _ends(run)), default=-1)
    return runs[last + 1 :]


def _touches_parent(scene: Scene, run: Run) -> bool:
    return any(run.call.id == other.call.id for other in scene.since_parent)


def _keep_alive(runs: Iterable[Run]) -> tuple[float, Run | None]:
    """The idle time that applies now, and the call that set it: an unset one leaves the former in force."""
    kept, setter = KEEP_ALIVE_S, None
    for run in runs:
        if run.call.keep_alive_s is not None:
            kept, setter = run.call.keep_alive_s, run
    return kept, setter


def _reload(
    option: str | None, old: Any, new: Any, agent: str | None, request: str | None, **more: str
) -> Cause:
    detail = {"option": option, "old": old, "new": new, "by": agent, "by_request": request, **more}
    return Cause(code="model_reload", severity="loss", detail=detail)


def _was_loaded(scene: Scene) -> bool:
    """Whether the answer reports that the model had to be loaded."""
    load_ms = scene.measured.load_ms if scene.measured else None
    return load_ms is not None and load_ms >= LOADED_MS


def _other_models(scene: Scene) -> bool:
    """Whether another model was called since the parent's request, and may have pushed this one out."""
    at = scene.parent.node.at if scene.parent else 0
    return any(run.call.at > at and not same_model(run.call.model, scene.prompt.model) for run in scene.runs)


def _unload(reason: str | None, gap_s: float, kept: float | None, request: str | None) -> Cause:
    """The cause; `reason` is None where only the load is proven, as when someone restarted the server."""
    detail = {"reason": reason, "gap_s": round(gap_s, 1), "keep_alive_s": kept, "by_request": request}
    return Cause(code="model_unloaded", severity="loss", detail=detail)
