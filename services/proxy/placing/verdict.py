"""What the text says about reuse, before the engine answers: relation, hit, breakers, prediction. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from services.proxy.flow import Breaker, Hit, Relation, Verdict
from services.proxy.placing.compare import Comparison, Side, compare, compare_head
from services.proxy.placing.lineage import Choice, Request, choose
from services.proxy.placing.sides import newer, older
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Bulk, Estimator, bulk_of, model_key
from services.proxy.prompt import Chunk, Prompt
from services.proxy.state.base import Call, Marks, Node, Query, Sighting


class Blocks(NamedTuple):
    """Block digests of earlier requests by id, and the key they were made with."""

    key: bytes
    marks: Mapping[str, Marks]


NO_BLOCKS = Blocks(b"", {})
CREDIBLE = 2.0  # times more or less than estimated: beyond, a count is of another prompt than the one sent


class _Price(NamedTuple):
    """Tokens of chunks under one model."""

    estimator: Estimator
    model: str

    def of(self, chunks: list[Chunk]) -> float:
        return self.estimator.exact(self.model, bulk_of(chunks), whole=False)

    @property
    def frame(self) -> float:
        """What there is once a prompt, whatever its chunks."""
        return self.estimator.exact(self.model, Bulk(turns=1)) - self.estimator.exact(
            self.model, Bulk(turns=1), whole=False
        )

    def part(self, chunk: Chunk, share: float) -> float:
        return self.estimator.exact(self.model, bulk_of((chunk,)).part(share), whole=False)


def decide(
    prompt: Prompt,
    query: Query,
    sighting: Sighting,
    texts: Texts,
    estimator: Estimator,
    *,
    blocks: Blocks = NO_BLOCKS,
) -> Verdict:
    """The verdict on a request given what was seen before it; `texts` holds the request's own dialect.

    Which text or digests are at hand changes offsets and excerpts, never hit, relation or parent, except for
    requests that only text can tell to be related.
    """
    node = query.node
    assert node is not None
    new = newer(prompt, node, texts)

    sides: dict[str, Side] = {}

    def side(old: Node) -> Side:
        if old.id not in sides:
            sides[old.id] = older(old, texts, blocks.marks.get(old.id), blocks.key)
        return sides[old.id]

    choice = choose(Request(node, query.call, new, side), sighting)
    verdict = Verdict(lineage=node.id, intervening=choice.intervening, prompt_estimate=node.estimate)
    shared, kept = (_seen_chunks(node, sighting), 0), (0, 0)
    if choice.parent is not None:
        comparison = (compare if choice.continued else compare_head)(side(choice.parent.node), new)
        kept = comparison.whole, comparison.head
        shared = max(shared, kept)
        _against(verdict, choice, node, comparison)
    elif choice.switched is not None:
        verdict.breakers = [_switch(choice.switched, query.call)]
    if sighting.exact_seen or verdict.relation == "exact_repeat":
        shared = _texts(node), 0
    _predict(verdict, prompt, node, shared, _Price(estimator, model_key(query.backend, query.call.model)))
    verdict.hit = _hit(choice, node, sighting, verdict, kept)
    return verdict


def _against(verdict: Verdict, choice: Choice, node: Node, comparison: Comparison) -> None:
    """What the comparison with `choice.parent` says."""
    assert choice.parent is not None
    old = choice.parent.node
    verdict.parent = choice.parent
    verdict.breakers = comparison.breakers
    verdict.relation = _relation(choice.continued, old, node, comparison.breakers)
    apart = node.session is not None and old.session is not None and node.session != old.session
    if choice.continued and not apart:
        verdict.lineage = old.lineage or old.id


def _relation(continued: bool, old: Node, node: Node, breakers: list[Breaker]) -> Relation:
    if not continued:
        return "fork" if (node.system, node.tools) == (old.system, old.tools) else "first"
    if node.request == old.request:
        return "exact_repeat"
    intact = all(breaker.section == "params" for breaker in breakers)
    longer = _texts(node) > _texts(old) or ("q" in node.kinds and sum(node.sizes) > sum(old.sizes))
    return "append" if intact and longer else "rewrite"


def _texts(node: Node) -> int:
    """Number of chunks that are text: all but the params."""
    return len(node.kinds) - node.kinds.startswith("p")


def _seen_chunks(node: Node, sighting: Sighting) -> int:
    """Leading chunks (params apart) that any session has shown the engine."""
    if not sighting.tools_seen or (node.system and not sighting.system_seen):
        return 1 if node.tools and sighting.tools_seen else 0
    return bool(node.tools) + bool(node.system)


def _predict(verdict: Verdict, prompt: Prompt, node: Node, shared: tuple[int, int], price: _Price) -> None:
    """Tokens of the common prefix, to the byte inside the diverging chunk, as a share of all."""
    whole, head = shared
    chunks = prompt.chunks[1:] if node.kinds.startswith("p") else prompt.chunks
    verdict.reused_chunks = whole + (whole > 0 and _same_params(verdict, node))
    if whole == len(chunks):
        verdict.predicted_tokens, verdict.predicted_reuse = node.estimate, 1.0
        return
    tokens, total = _common(verdict, chunks, whole, price)
    if head:
        tokens += price.part(chunks[whole], min(1.0, head / max(1, chunks[whole].size)))
    verdict.predicted_tokens = min(round(tokens), verdict.prompt_estimate)
    verdict.predicted_reuse = round(min(1.0, tokens / max(1.0, total)), 4)


def _common(verdict: Verdict, chunks: list[Chunk], whole: int, price: _Price) -> tuple[float, float]:
    """Tokens of the first `whole` chunks and of the prompt; the shorter part is added up."""
    total = verdict.prompt_estimate
    if 2 * whole < len(chunks):
        return price.of(chunks[:whole]), total
    rest = price.of(chunks[whole:])
    tokens = total - rest - price.frame
    counted = _counted(verdict, whole, tokens)
    if counted is None:
        return tokens, total
    verdict.prompt_estimate = max(total, round(counted + rest))
    return counted, counted + rest


def _counted(verdict: Verdict, whole: int, estimate: float) -> int | None:
    """The engine's own count of the prompt that this one continues whole, once that has ended.

    One far from the estimate is of something else: of a prompt that was cut, or of processed tokens alone.
    """
    past = verdict.parent
    if verdict.relation != "append" or past is None or past.settled is None or whole < _texts(past.node):
        return None
    count = past.settled.prompt_tokens
    return count if count and estimate / CREDIBLE <= count <= estimate * CREDIBLE else None


def _same_params(verdict: Verdict, node: Node) -> bool:
    """Whether there is a params chunk that is equal to the parent's."""
    if not node.kinds.startswith("p") or verdict.parent is None:
        return False
    return node.params == verdict.parent.node.params


def _hit(choice: Choice, node: Node, sighting: Sighting, verdict: Verdict, kept: tuple[int, int]) -> Hit:
    """The best hit that holds; `kept` of the request it continues are leading chunks and bytes of the next.

    What other conversations have warmed counts for `system+tools` and below, never for `prefix`.
    """
    if sighting.exact_seen or verdict.relation == "exact_repeat":
        return "exact"
    if choice.continued and choice.parent and _over_half(verdict, choice.parent.node, node, kept):
        return "prefix"
    if node.system and sighting.system_seen:
        return "system+tools" if sighting.tools_seen else "system_only"
    return "tools_only" if node.tools and sighting.tools_seen else "none"


def _over_half(verdict: Verdict, old: Node, node: Node, kept: tuple[int, int]) -> bool:
    """Whether the common prefix, to the byte, is over half of what it could be: of the shorter request."""
    if verdict.relation == "append":
        return True
    first_old, first_new = old.kinds.startswith("p"), node.kinds.startswith("p")
    whole, head = kept
    shared = sum(node.sizes[first_new : first_new + whole]) + head
    return 2 * shared > min(sum(old.sizes[first_old:]), sum(node.sizes[first_new:]))


def _switch(before: Call, now: Call) -> Breaker:
    """The conversation went on under another model, which shares nothing with the one before."""
    detail = {"from": before.model, "to": now.model, "previous": before.id}
    return Breaker(section="params", path="model", change="model", kind="name", detail=detail)
