"""Whether another request took the engine's cache while this conversation waited.

Pure. Said only of a measured loss, and only when enough other conversations used the model in between to fill
the slots that the engine is known to have; a free slot left over acquits them all.
"""

from itertools import pairwise

from services.proxy.causes.scene import Run, Scene
from services.proxy.flow import Cause

ROUNDS_LINEAGES = 3  # conversations that must miss in turn before room, not a neighbour, is to blame
BY_LIKENESS = frozenset({"llama-server", "ollama"})  # these choose the slot with the most in common
MISSED = 0.5  # of what was sent before: less than that found again counts as a miss


def eviction(scene: Scene) -> list[Cause]:
    """`capacity_suspected` and `evicted_by`, as far as the timeline proves them."""
    slots = scene.slots
    if slots is None or scene.parent is None:
        return []
    taker = _taker(scene, slots)
    if taker is None:
        return []
    found = [cause for cause in (_capacity(scene, slots),) if cause]
    session = taker.call.session if taker.call.scope == scene.scope else None
    detail = {
        "kind": _kind(scene, taker),
        "request": taker.call.id,
        "agent": taker.call.agent,
        "session": session,
    }
    return [*found, Cause(code="evicted_by", severity="loss", detail=detail)]


def _taker(scene: Scene, slots: int) -> Run | None:
    """The call that filled the last slot, else a fork: engines give it the slot of what it resembles."""
    takers = _takers(scene)
    if len(takers) >= slots:
        return takers[slots - 1]
    if scene.kind not in BY_LIKENESS:
        return None
    return next((run for run in takers if _kind(scene, run) == "fork"), None)


def _takers(scene: Scene) -> list[Run]:
    """The first call of each other conversation since the parent's, in order."""
    seen: set[str] = set()
    takers = []
    for run in scene.since_parent:
        if run.call.kind not in ("generation", "embedding"):
            continue
        name = _conversation(run)
        if name not in seen and not _continues(scene, run):
            seen.add(name)
            takers.append(run)
    return takers


def _conversation(run: Run) -> str:
    return run.call.lineage or run.call.id


def _continues(scene: Scene, run: Run) -> bool:
    """Whether it is this conversation's own unfinished business (a retry), which takes nothing away."""
    parent = scene.parent
    if parent is None or run.call.lineage != parent.node.lineage:
        return False
    return run.settled is not None and run.settled.status != "completed"


def _kind(scene: Scene, run: Run) -> str:
    if run.call.kind == "embedding":
        return "embed"
    if run.call.side:
        return "side_request"
    parent = scene.parent
    node = next((past.node for past in scene.sighting.candidates if past.node.id == run.call.id), None)
    if parent is not None and run.call.lineage == parent.node.lineage:
        return "fork"
    if node is not None and parent is not None and node.system and node.system == parent.node.system:
        return "fork" if node.tools == parent.node.tools else "other_lineage"
    same = scene.session is not None and run.call.session == scene.session and run.call.scope == scene.scope
    return "fork" if same else "other_lineage"


def _capacity(scene: Scene, slots: int) -> Cause | None:
    """Three or more conversations in turn, each missing, over two rounds: the engine has too little room."""
    parent = scene.parent
    assert parent is not None
    runs = [
        run
        for run in scene.model_runs
        if run.call.kind == "generation" and run.call.lineage and not run.call.side
    ]
    lineages: dict[str, list[Run]] = {}
    for run in runs:
        lineages.setdefault(run.call.lineage or "", []).append(run)
    own = lineages.get(parent.node.lineage, [])
    missing = {name for name, held in lineages.items() if name != parent.node.lineage and _misses(held)}
    if not _misses(own) or len(missing) + 1 < ROUNDS_LINEAGES:
        return None
    lately = {run.call.lineage for run in scene.since_parent if run.call.lineage in missing}
    if len(lately) + 1 < ROUNDS_LINEAGES:
        return None
    detail = {"warm_lineages": slots, "lineages": len(missing) + 1}
    return Cause(code="capacity_suspected", severity="loss", detail=detail)


def _misses(runs: list[Run]) -> int:
    """How often a conversation came back and found less than half of what it had sent before."""
    count = 0
    for before, after in pairwise(runs):
        sent = before.settled.prompt_tokens if before.settled else None
        found = after.settled.cached_tokens if after.settled else None
        count += bool(sent and found is not None and found < MISSED * sent)
    return count
