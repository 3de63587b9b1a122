"""The step that places a request among earlier ones: what it continues, what broke, what may be reused.

Deciding is pure; `place` is the thin part around it that asks the shared state and tells it the outcome.
"""

import asyncio
import re
from typing import Protocol

from services.proxy.chunking.escapes import readable
from services.proxy.flow import Flow, Verdict
from services.proxy.identity import WEAK_SOURCES
from services.proxy.later import Later
from services.proxy.placing.compare import start_of
from services.proxy.placing.outline import outline
from services.proxy.placing.spans import common_prefix
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Estimator, model_key
from services.proxy.placing.verdict import NO_BLOCKS, Blocks, decide
from services.proxy.prompt import Prompt, hex_of, plain_model
from services.proxy.state.base import HASH_BYTES, Call, Marks, Node, Query, Sighting, State
from services.settings import Settings

INLINE_BYTES = 256 << 10  # of text: were all these messages edited, comparing takes some 2 ms

# What agents ask of a model beside the conversation: titles, tags, follow-up questions, commit messages.
_SIDE = re.compile(
    rb"(?i)(?:\b|(?<=\\[nrt]))(?:generate|create|write|suggest|give|provide|produce|make|come up with|find)\b"
    rb"[^.\n]{0,100}"
    rb"\b(?:title|tags?|follow-?ups?(?: questions)?|topic|commit messages?|search quer(?:y|ies)|emoji)\b"
    rb"|\btitle generator\b|" + "(?:生成|起|写|拟).{0,30}(?:标题|标签)".encode()
)
_SIDE_WORDS = (
    b"title", b"tag", b"follow", b"topic", b"commit message", b"search quer", b"emoji", "标题".encode(),
    "标签".encode(),
)  # fmt: skip  # one of which every match holds
_SIDE_WINDOW = 1500  # bytes at either end of a message where such an instruction stands
_SIDE_TOKENS = 32  # an answer that short, without system prompt and tools, is a label


class Parts(Protocol):
    """The process's long-lived parts that placing reads and feeds."""

    settings: Settings
    key: bytes
    state: State
    texts: Texts
    estimator: Estimator
    later: Later


async def place(flow: Flow, parts: Parts) -> None:
    """Place a flow whose prompt and identity are known; fills `sighting` and `verdict`.

    Waits for the shared state no longer than that one's own budget.
    """
    prompt = flow.prompt
    if prompt is None or flow.identity is None or flow.dialect is None:
        return
    query = flow.query = query_of(flow, parts.settings, parts.estimator)
    early: list[tuple[Sighting, Verdict]] = []

    def decide_early(own: Sighting) -> None:
        """The shared state is on its way and seldom knows more than this process."""
        if query.node is not None and _is_quick(query.node, own):
            early.append((own, decide(prompt, query, own, parts.texts, parts.estimator)))

    if query.node is not None:
        parts.texts.put(prompt, flow.dialect)
        parts.texts.watch(asyncio.get_running_loop())
    flow.sighting = await parts.state.place(query, decide_early)
    if query.node is None:
        return
    if early and early[0][0] is flow.sighting:
        verdict = early[0][1]
    else:
        verdict = await _decided(prompt, query, flow.sighting, parts)
    if verdict.parent and any(breaker.precision > 1 for breaker in verdict.breakers):
        parts.later.flush()  # its marks, where it ended a moment ago
        marks = await parts.state.marks(verdict.parent.node.id)
        if marks is not None:
            blocks = Blocks(parts.key, {verdict.parent.node.id: marks})
            verdict = await _decided(prompt, query, flow.sighting, parts, blocks)
    flow.verdict = verdict
    if flow.identity.session is None:
        flow.identity.session, flow.identity.session_source = verdict.lineage, "lineage"
    query.node.lineage = verdict.lineage
    parts.state.adopt(query.node)


async def _decided(
    prompt: Prompt, query: Query, sighting: Sighting, parts: Parts, blocks: Blocks = NO_BLOCKS
) -> Verdict:
    """The verdict; one that takes long in a thread, so that comparing it holds no other request up."""
    known = prompt, query, sighting, parts.texts, parts.estimator
    if query.node is None or _is_quick(query.node, sighting):
        return decide(*known, blocks=blocks)
    return await asyncio.to_thread(decide, *known, blocks=blocks)


def _is_quick(node: Node, sighting: Sighting) -> bool:
    """Whether there is little text to compare: what follows the chunks shared with some earlier request."""
    if not sighting.candidates or sum(node.sizes) <= INLINE_BYTES:
        return True
    shared = max(common_prefix(past.node.chunks, node.chunks) for past in sighting.candidates) // HASH_BYTES
    return sum(node.sizes[shared:]) <= INLINE_BYTES


def marks_of(flow: Flow, parts: Parts) -> Marks | None:
    """The block digests to leave for later comparisons; made when the answer has ended, off the hot path.

    None where nobody could need them: this process has the text, and there is no other.
    """
    prompt = flow.prompt
    if prompt is None or flow.dialect is None or prompt.kind != "generation":
        return None
    if parts.texts.enabled and parts.settings.redis_url is None:
        return None
    dialect = flow.dialect
    return parts.texts.mark_cache(parts.key).marks(prompt.chunks, lambda c: dialect.sections(c.kind, c.raw))


def node_of(flow: Flow, estimate: int) -> Node:
    """The request of `flow` as later ones are compared with it; its lineage is not decided yet."""
    prompt, who = flow.prompt, flow.identity
    assert prompt is not None
    assert who is not None
    lines = outline(prompt)
    return Node(
        id=flow.id, at=flow.received_at, scope=who.scope, lineage="",
        session=None if who.session_source in WEAK_SOURCES else who.session, agent=who.agent,
        system=hex_of(prompt.system_hash), tools=hex_of(prompt.tools_hash), params=hex_of(prompt.params_hash),
        first=hex_of(prompt.first_hash), request=hex_of(prompt.request_hash) or "", raw=prompt.raw_hash.hex(),
        kinds=lines.kinds, roles=lines.roles, chunks=lines.hashes, sizes=lines.sizes,
        estimate=estimate, stream=prompt.stream, dialect=prompt.dialect,
    )  # fmt: skip


def call_of(flow: Flow, estimate: int) -> Call:
    """The request of `flow` as the model's timeline shows it."""
    prompt, who = flow.prompt, flow.identity
    assert prompt is not None
    assert who is not None
    engine = prompt.engine
    kind = "load" if engine.load else "unload" if engine.unload else prompt.kind
    return Call(
        id=flow.id, at=flow.received_at, kind=kind, scope=who.scope, model=prompt.model, session=who.session,
        agent=who.agent, options=engine.options, keep_alive_s=engine.keep_alive_s, estimate=estimate,
        side=_is_side(prompt), first=hex_of(prompt.first_hash), system=hex_of(prompt.system_hash),
    )  # fmt: skip


def query_of(flow: Flow, settings: Settings, estimator: Estimator) -> Query:
    """What `flow` asks of the shared state. Only generations leave a node; any call is in the timeline.

    Shared parts are counted machine-wide, and inside the tenant once tenants are in use.
    """
    prompt, who, backend = flow.prompt, flow.identity, flow.backend.name
    assert prompt is not None
    assert who is not None
    lines = outline(prompt)
    estimate = estimator.estimate(model_key(backend, prompt.model), lines.bulk)
    tenant = who.tenant or ("" if settings.tenant_header else None)
    model = plain_model(prompt.model)
    group = "\x1f".join([backend, model] if tenant is None else [backend, model, tenant])
    placed = (
        prompt.kind == "generation"
        and bool(prompt.chunks)
        and not (prompt.engine.load or prompt.engine.unload)
    )
    return Query(
        scope=who.scope, group=group, backend=backend, tenant=tenant,
        node=node_of(flow, estimate) if placed else None, call=call_of(flow, estimate),
    )  # fmt: skip


def _is_side(prompt: Prompt) -> bool:
    """Whether a request asks for a label of a conversation (a title, tags) and is no turn of one."""
    kinds = outline(prompt).kinds
    if prompt.tool_count or not 1 <= len(kinds) - start_of(kinds) <= 2:
        return False
    limit = prompt.engine.max_tokens
    if limit is not None and 0 < limit <= _SIDE_TOKENS and prompt.system_hash is None:
        return True
    raws = [chunk.raw for chunk in prompt.chunks if chunk.kind != "params"]
    ends = (part for raw in raws for part in (raw[:_SIDE_WINDOW], raw[-_SIDE_WINDOW:]))
    return any(_asks_for_label(readable(bytes(part))) for part in ends)


def _asks_for_label(text: bytes) -> bool:
    """The words are looked for first: the pattern alone takes 0.2 ms where there are none."""
    low = text.lower()
    return any(word in low for word in _SIDE_WORDS) and _SIDE.search(text) is not None
