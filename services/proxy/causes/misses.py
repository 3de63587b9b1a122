"""What else can explain that an engine found less than the text held: its template, its kind, its blocks.

Pure. None of this can be seen from outside, so each code needs a pattern that fits it: where in the prompt
the reuse ended, what the request added, and whether this model is known to reuse at all. Without one it is
unknown.
"""

from typing import Any

from services.proxy.causes.scene import Scene
from services.proxy.flow import Cause

MINIMUM = 16  # tokens; engines re-evaluate the last token, and some a block of 16, in any case
EXACT_SLACK = 0.05  # of the parent's own token count: what tokenising a joint differently may move
ESTIMATE_SLACK = 0.15  # of an estimate
INFERRED_SLACK = 0.35  # of what was inferred from time: fixed costs of a request look like prefill
TAIL = 64  # tokens; a generation prompt with an empty think block has under a dozen
SUFFIX_SLACK = 2  # tokens below the parent's own count that already betray a differing generation prompt
GRANULES = {"vllm": 16, "openai": 128, "ds4": 2_048}  # tokens a block; BACKENDS: vLLM default, OpenAI, ds4
LEAST = {"openai": 1_024, "anthropic": 1_024, "ds4": 512}  # tokens below which these keep nothing
LARGEST_GRANULE = 1_024  # blocks of vLLM's hybrid models
CUTTING = frozenset({"llama-server", "ollama"})  # reuse a slot by cutting it back to what is common
PROMPT_ONLY = frozenset({"openai", "anthropic"})  # keep what was sent, not what they generated
REPLY_CODES = frozenset({"reasoning_dropped_by_client", "tool_args_reserialised", "reply_altered_by_client"})
LONG_REPLY = 32  # tokens of an answer from which a trimmed blank or a changed word in it is worth naming
SHORT_REPLY = 1  # a part that was dropped or spelt anew is named whatever its length
PREFILLED = frozenset({"completed", "incomplete"})
MISMATCH = "template_generation_prompt_mismatch_suspected"
THINKING_OFF = frozenset({b"false", b'"none"', b'"off"', b"0"})
DISABLED = (b'"disabled"', b'"none"')  # inside an object: Anthropic's thinking, OpenAI's reasoning
THINKING = ("think", "thinking", "enable_thinking", "reasoning_effort", "reasoning.effort", "thinking.type")


def expected(scene: Scene) -> tuple[int, bool]:
    """Tokens that the text lets one expect from the cache, and whether they were counted, not estimated."""
    verdict, parent = scene.verdict, scene.parent
    total = (scene.measured.prompt_tokens if scene.measured else None) or verdict.prompt_estimate
    known = parent.settled.prompt_tokens if parent and parent.settled else None
    if known and verdict.relation in ("append", "exact_repeat"):
        return max(0, min(known, total - 1)), True
    return round(verdict.predicted_reuse * total), False


def shortfall(scene: Scene) -> int:
    """Tokens measured below expectation; 0 within the slack, or where nothing was measured or expected."""
    cached, verdict = scene.cached, scene.verdict
    total = scene.measured.prompt_tokens if scene.measured else None
    settled = scene.parent.settled if scene.parent else None
    if cached is None or total == 0 or verdict.relation == "first":
        return 0
    if settled is None or settled.status not in PREFILLED:
        return 0  # it failed, was given up or still runs: nobody knows what the engine kept of it
    tokens, counted = expected(scene)
    missing = tokens - cached
    inferred = scene.measured is not None and scene.measured.source == "inferred_ttft"
    slack = INFERRED_SLACK if inferred else EXACT_SLACK if counted else ESTIMATE_SLACK
    if missing <= max(MINIMUM, tokens * slack):
        return missing if counted and not inferred and _suffix_differs(scene, missing) else 0
    return missing


def reply_missed(scene: Scene, code: str) -> bool:
    """Whether the parent's prompt was reused but its answer, replayed otherwise than relayed, was not."""
    settled = scene.parent.settled if scene.parent else None
    if settled is None or settled.prompt_tokens is None or scene.cached is None:
        return False
    reply, found = settled.completion_tokens or 0, scene.cached - settled.prompt_tokens
    least = LONG_REPLY if code == "reply_altered_by_client" else SHORT_REPLY
    return scene.kind not in PROMPT_ONLY and reply >= least and 2 * found < reply


def reply_tokens(scene: Scene, code: str) -> int:
    """Tokens of the parent's answer that would have been reused, had this cause not been there."""
    settled = scene.parent.settled if scene.parent else None
    if settled is None or code not in REPLY_CODES or not reply_missed(scene, code):
        return 0
    return settled.completion_tokens or 0


def engine_cause(scene: Scene, missing: int) -> Cause | None:
    """The one engine cause that best fits a shortfall nothing else explains."""
    if missing <= 0:
        return None
    if scene.verdict.relation == "fork":
        return _granularity(scene, missing) or _cut(scene)
    if any(b.section != "params" and not scene.only_shortens(b) for b in scene.verdict.breakers):
        return _loss("checkpoint_or_window", predicted=expected(scene)[0], cached=scene.cached)
    for code in (_granularity, _rewind, _template):
        found = code(scene, missing)
        if found is not None:
            return found
    return _loss("engine_unknown", correlates=correlates(scene))


def _cut(scene: Scene) -> Cause | None:
    """A fork makes a slot's engine go back into what it holds, which those with a window cannot do anywhere.

    Of other engines nobody knows how they share a head between conversations.
    """
    if scene.kind not in CUTTING:
        return None
    return _loss("checkpoint_or_window", predicted=expected(scene)[0], cached=scene.cached)


def correlates(scene: Scene) -> list[str]:
    """What is special about this request and may go with the miss; correlation, no more."""
    found = ["stream"] if scene.prompt.stream else []
    names = [name for name, _ in _params(scene)]
    found += list(dict.fromkeys(name.partition(".")[0] for name in names))
    if scene.prompt.tool_count:
        found.append("tools")
    return [*found, "media"] if scene.prompt.has_media else found


def _granularity(scene: Scene, missing: int) -> Cause | None:
    kind, cached = scene.kind or "", scene.cached or 0
    total = scene.measured.prompt_tokens if scene.measured else None
    if cached == 0 and total is not None and total < LEAST.get(kind, 0):
        return _loss("engine_granularity", least_tokens=LEAST[kind])
    granule = GRANULES.get(kind)
    if granule is None or cached == 0 or cached % granule:
        return None
    while kind == "vllm" and granule < LARGEST_GRANULE and cached % (granule * 2) == 0:
        granule *= 2
    return _loss("engine_granularity", granule_tokens=granule) if missing <= granule else None


def _rewind(scene: Scene, _missing: int) -> Cause | None:
    """The engine had to go back behind what it had generated, and this model is known to reuse otherwise."""
    goes_back = scene.verdict.relation in ("exact_repeat", "rewrite")
    if not goes_back or not _reuses(scene):
        return None
    return _loss("engine_no_rewind_suspected", relation=scene.verdict.relation)


def _template(scene: Scene, missing: int) -> Cause | None:
    """What the request added, and where the reuse ended, speak for the chat template."""
    if scene.verdict.relation != "append" or not _credible(scene):
        return None
    added, cached = _added_roles(scene), scene.cached or 0
    user, tool, reply = "user" in added, "tool" in added, "assistant" in added
    near_end = cached > 0 and missing <= max(TAIL, expected(scene)[0] // 10)
    patterns = (
        (user and _assistant_since_user(scene), "template_history_rewrite_suspected", "new_user_turn"),
        (reply and thinking_off(scene), MISMATCH, "thinking_off"),
        (reply and near_end, MISMATCH, "end_of_prompt"),
        (tool and not user and cached, "tool_turn_rerender_suspected", "tool_turn"),
        (user and _has_assistant(scene) and cached, "template_history_rewrite_suspected", "new_user_turn"),
    )
    fitting = next(((code, evidence) for fits, code, evidence in patterns if fits), None)
    return _loss(fitting[0], evidence=fitting[1]) if fitting else None


def _suffix_differs(scene: Scene, missing: int) -> bool:
    """A few tokens short of the parent's own count, with thinking off: its generation prompt was dropped."""
    added = scene.verdict.relation == "append" and "assistant" in _added_roles(scene)
    slotless = scene.kind in GRANULES
    return missing > SUFFIX_SLACK and added and not slotless and thinking_off(scene)


def _credible(scene: Scene) -> bool:
    """Whether a template may be suspected: the engine reuses at all, or it has had only one chance so far."""
    if _reuses(scene):
        return True
    parent = scene.parent
    tried = parent is not None and parent.settled is not None and parent.settled.cached_tokens == 0
    others = [run for run in scene.model_runs if parent is None or run.call.id != parent.node.id]
    first = not any(parent and run.settled and run.call.lineage == parent.node.lineage for run in others)
    return (not tried or first) and scene.kind != "mlx_lm"


def _reuses(scene: Scene) -> bool:
    """Whether this model was ever seen to reuse anything."""
    if scene.cached:
        return True
    return any(run.settled is not None and bool(run.settled.cached_tokens) for run in scene.model_runs)


def thinking_off(scene: Scene) -> bool:
    """Whether the request switches the model's thinking off."""
    return any(
        name.rpartition("chat_template_kwargs.")[2] in THINKING
        and (value.strip() in THINKING_OFF or any(word in value[:64] for word in DISABLED))
        for name, value in _params(scene)
    )


def _params(scene: Scene) -> list[tuple[str, bytes]]:
    return [(s.path.removeprefix("params."), s.text) for s in scene.own_sections("params")]


def _added_roles(scene: Scene) -> set[str]:
    """Roles of the messages that this request has beyond its parent's."""
    node = scene.parent.node if scene.parent else None
    messages = [chunk for chunk in scene.prompt.chunks if chunk.kind == "message"]
    return {chunk.role for chunk in messages[node.kinds.count("m") if node else 0 :]}


def _assistant_since_user(scene: Scene) -> bool:
    """Whether the parent ended inside a tool loop: an assistant turn after its last user message."""
    roles = scene.parent.node.roles if scene.parent else ""
    return roles.rfind("a") > roles.rfind("u") >= 0


def _has_assistant(scene: Scene) -> bool:
    return scene.parent is not None and "a" in scene.parent.node.roles


def _loss(code: str, **detail: Any) -> Cause:
    return Cause(code=code, severity="loss", detail=detail)
