"""All causes of one request, what outranks first. Pure; called before headers leave, and at the end."""

from collections.abc import Callable

from services.proxy.causes.eviction import eviction
from services.proxy.causes.misses import engine_cause, reply_missed, shortfall
from services.proxy.causes.notes import notes
from services.proxy.causes.replies import replay_cause, replayed_turn
from services.proxy.causes.residency import residency
from services.proxy.causes.scene import Scene
from services.proxy.causes.text import text_causes
from services.proxy.flow import Cause, Flow
from services.proxy.placing.sides import KINDS
from services.proxy.placing.texts import Texts
from services.proxy.prompt import Section
from services.proxy.state.base import HASH_BYTES, Node

OLDER = 4  # earlier versions of a section looked at: two comparisons make a block dynamic
RESIDENCY = ("context_truncated", "model_reload", "model_unloaded", "client_disabled_cache")


def scene_of(flow: Flow, texts: Texts) -> Scene | None:
    """The scene of a placed flow; None for one that was not placed or holds no prompt."""
    prompt, verdict, sighting = flow.prompt, flow.verdict, flow.sighting
    if prompt is None or verdict is None or sighting is None:
        return None
    identity = flow.identity
    parent = verdict.parent.node if verdict.parent else None

    def sections(index: int) -> list[Section]:
        return _held(texts, parent, index) if parent else []

    def own(kind: str) -> list[Section]:
        chunk = next((chunk for chunk in prompt.chunks if chunk.kind == kind), None)
        return flow.dialect.sections(chunk.kind, chunk.raw) if chunk and flow.dialect else []

    return Scene(
        request=flow.id,
        at=flow.received_at,
        backend=flow.backend,
        prompt=prompt,
        verdict=verdict,
        sighting=sighting,
        measured=flow.measured,
        scope=identity.scope if identity else None,
        session=identity.session if identity else None,
        agent=identity.agent if identity else None,
        older=_older(flow, texts),
        sections=sections,
        own_sections=own,
        answer=lambda: texts.answer(parent.id) if parent else None,
    )


def foreseen(scene: Scene, flow: Flow, key: bytes) -> list[Cause]:
    """What is known before the answer: residency, text breaks, then risks and notes."""
    text = text_causes(scene)
    risks = [cause for cause in (_replay(scene, flow, key),) if cause]
    return _ordered(residency(scene), text + risks, [])


def settled(scene: Scene, flow: Flow, before: list[Cause]) -> list[Cause]:
    """The causes once the answer ended; `before` are those foreseen, of which the text's stay."""
    text = [cause for cause in before if cause.code not in RESIDENCY]
    if scene.prompt.kind != "generation":
        return _ordered(residency(scene), text, notes(scene, flow))
    resident = residency(scene)
    engine = [] if resident else _engine(scene, text)
    return _ordered(resident, [*text, *engine], notes(scene, flow))


def _engine(scene: Scene, text: list[Cause]) -> list[Cause]:
    """The engine's causes of reuse below prediction; risks of the text that explain it become losses."""
    missing = shortfall(scene)
    risks = [cause for cause in text if cause.severity == "risk"]
    params = [cause for cause in risks if cause.code == "template_param_changed"]
    replies = [cause for cause in risks if cause.code != "template_param_changed"]
    if not missing:
        proven = [cause for cause in replies if reply_missed(scene, cause.code)]
    elif found := eviction(scene):
        return found
    elif params and not _broken(text):
        proven = params
    else:
        cause = engine_cause(scene, missing)
        if cause is None or cause.code != "engine_unknown" or not replies:
            return [cause] if cause else []
        proven = replies
    for risk in proven:
        risk.severity = "loss"
    return []


def _broken(text: list[Cause]) -> bool:
    return any(cause.severity == "break" for cause in text)


def _ordered(resident: list[Cause], text: list[Cause], late: list[Cause]) -> list[Cause]:
    """Residency, breaks in prompt order, the engine's losses, risks, notes."""
    rest = [*text, *late]
    if not rest:
        return resident
    groups: list[list[Cause]] = [resident]
    groups += [
        [cause for cause in rest if cause.severity == wanted] for wanted in ("break", "loss", "risk", "note")
    ]
    return [cause for group in groups for cause in group]


def _replay(scene: Scene, flow: Flow, key: bytes) -> Cause | None:
    """The answer that was relayed, against what the client now says was answered."""
    past, dialect = scene.parent, flow.dialect
    if past is None or past.settled is None or dialect is None or scene.verdict.relation != "append":
        return None
    turn = replayed_turn(scene.prompt.chunks, len(scene.prompt.chunks) - _added(scene, past.node))
    sections = [
        section._replace(path=scene.prompt.path(chunk, section.path))
        for chunk in turn
        for section in dialect.sections(chunk.kind, chunk.raw)
    ]
    if not sections:
        return None
    parsed = dialect.family == "ollama"
    return replay_cause(past.settled.reply, sections, key, scene.answer, parsed=parsed)


def _added(scene: Scene, node: Node) -> int:
    """How many chunks this request has behind those of its parent."""
    messages = sum(chunk.kind == "message" for chunk in scene.prompt.chunks)
    return max(0, messages - node.kinds.count("m"))


def _older(flow: Flow, texts: Texts) -> Callable[[str], list[bytes]]:
    """Earlier texts of a system section, from requests before the parent of the same conversation."""
    verdict, sighting = flow.verdict, flow.sighting
    parent = verdict.parent.node if verdict and verdict.parent else None

    def older(path: str) -> list[bytes]:
        if parent is None or sighting is None:
            return []
        nodes = [past.node for past in sighting.candidates if past.node.id < parent.id]
        nodes = [node for node in nodes if node.lineage == parent.lineage][:OLDER]
        found = []
        for node in nodes:
            sections = _held(texts, node, node.kinds.find("s"))
            found += [section.text for section in sections if section.path == path]
        return found

    return older if parent is not None else lambda _: []


def _held(texts: Texts, node: Node, index: int) -> list[Section]:
    if not 0 <= index < len(node.kinds):
        return []
    name = node.chunks[index * HASH_BYTES : (index + 1) * HASH_BYTES]
    return texts.sections(KINDS[node.kinds[index]], name) or []
