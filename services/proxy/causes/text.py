"""The text causes of a request: what its breakers mean, in prompt order. Pure."""

from typing import Any

from services.proxy.causes.messages import message_causes
from services.proxy.causes.prose import change_of, is_blank, recognise
from services.proxy.causes.scene import Scene
from services.proxy.causes.schema import param_cause, tool_causes
from services.proxy.flow import Breaker, Cause
from services.proxy.state.base import Node

Version = tuple[str | None, str | None, str | None]  # hashes of system, tools and params

VARIANTS = 4  # requests that must swap between two versions (A B A B) before it is called alternating


def text_causes(scene: Scene) -> list[Cause]:
    """All causes that lie in the text: breaks in prompt order, then risks, then the note on alternation."""
    breakers = scene.verdict.breakers
    if not breakers:
        note = alternation(scene)
        return [note] if note else []
    if switch := model_switch(breakers):
        return [switch]
    by_section: dict[str, list[Breaker]] = {"params": [], "tools": [], "system": [], "messages": []}
    for breaker in breakers:
        by_section[breaker.section].append(breaker)
    found = [(breaker, param_cause(breaker)) for breaker in by_section["params"]]
    found += tool_causes(by_section["tools"], scene.verdict.intervening)
    found += [(breaker, system_cause(scene, breaker)) for breaker in by_section["system"]]
    found += message_causes(scene, by_section["messages"])
    causes = [_placed(breaker, cause) for breaker, cause in found]
    breaks = [cause for cause in causes if cause.severity == "break"]
    note = alternation(scene)
    return breaks + [c for c in causes if c.severity != "break"] + ([note] if note else [])


def system_cause(scene: Scene, breaker: Breaker) -> Cause:
    """What a change of the system text is; without both texts it is an edit."""
    code, detail = "system_edit", {}
    if breaker.change == "edit" and breaker.old is not None and breaker.new is not None:
        if is_blank(breaker.old, breaker.new, breaker.offset):
            detail = {"whitespace_only": True}
        else:
            older = scene.older(breaker.path)
            code = recognise(change_of(breaker.old, breaker.new, breaker.offset, older)) or code
    return Cause(code=code, severity="break", at=breaker.path, detail=dict(detail))


def model_switch(breakers: list[Breaker]) -> Cause | None:
    """The conversation's last request went to another model; nothing is shared between models."""
    switch = next((breaker for breaker in breakers if breaker.change == "model"), None)
    if switch is None:
        return None
    return Cause(
        code="model_switch", severity="break", at="model", detail={**switch.detail, "byte_offset": 0}
    )


def alternation(scene: Scene) -> Cause | None:
    """Two versions of params, tools or system take turns in one conversation, or one odd request lay between.

    `intervening` is the latest request of the other version, where this one goes on with one before it.
    """
    parent = scene.parent
    if parent is None:
        return None
    here, past = _version_of(scene), _versions(scene, parent.node)
    outlier = _outlier(scene, parent.node.id, past)
    recent = [here, *past.values()][:VARIANTS]
    swaps = len(recent) == VARIANTS and recent[0] == recent[2] != recent[1] == recent[3]
    other = outlier or (recent[1] if swaps else None)
    if other is None:
        return None
    names = ("system", "tools", "params")
    sections = [name for name, a, b in zip(names, here, other, strict=True) if a != b]
    detail = {"sections": sections, "variants": 2, "intervening": scene.verdict.intervening}
    return Cause(code="alternating_variants", severity="note", detail=detail)


def _version_of(scene: Scene) -> Version:
    prompt = scene.prompt
    hashes = (prompt.system_hash, prompt.tools_hash, prompt.params_hash)
    system, tools, params = (value.hex() if value else None for value in hashes)
    return system, tools, params


def _versions(scene: Scene, parent: Node) -> dict[str, Version]:
    """What earlier requests of the conversation had in front of their messages, by id, newest first."""
    nodes = (past.node for past in scene.sighting.candidates)
    return {
        node.id: (node.system, node.tools, node.params)
        for node in nodes
        if node.lineage == parent.lineage or (node.session is not None and node.session == scene.session)
    }


def _outlier(scene: Scene, parent: str, past: dict[str, Version]) -> Version | None:
    """The version of the request in between, when this one returns to its parent's; not a side request's."""
    between = scene.verdict.intervening
    if between is None or past.get(parent) != _version_of(scene):
        return None
    if any(run.call.side for run in scene.model_runs if run.call.id == between):
        return None
    version = past.get(between)
    return version if version != past[parent] else None


def _placed(breaker: Breaker, cause: Cause) -> Cause:
    """With the measures that every text cause carries."""
    measures: dict[str, Any] = {"byte_offset": breaker.offset}
    if cause.severity != "risk":
        measures |= {"inserted": breaker.inserted, "deleted": breaker.deleted}
    measures["equal_after_divergence"] = breaker.equal_after
    if breaker.precision != 1:
        measures["offset_precision"] = breaker.precision
    cause.detail = {**cause.detail, **measures}
    return cause
