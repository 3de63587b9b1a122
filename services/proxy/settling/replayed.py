"""What an engine keeps beside the prompt: the answer it generated, where the client repeats it.

Whether that is found again depends on more than the text: a template or tokeniser may spell it otherwise than
the engine generated it, and clouds keep prompts alone. So it is learnt per model from what was measured, and
nothing is expected before.
"""

from services.proxy.causes.misses import PROMPT_ONLY, REPLY_CODES
from services.proxy.causes.replies import replayed_turn
from services.proxy.causes.scene import Scene
from services.proxy.flow import Flow
from services.proxy.placing.tokens import Estimator, bulk_of
from services.proxy.settling.loss import model_of

LEAST_REPLY = 8  # tokens of an answer that tell whether it was found again: joints cost a few in any case
FOUND = 0.9  # of the parent's own prompt: with less found again, its answer says nothing


def expect_reply(scene: Scene, flow: Flow, estimator: Estimator) -> None:
    """Count the parent's answer among what may be reused, as far as this model was seen to keep answers."""
    share, verdict = estimator.reply_share(model_of(flow)), scene.verdict
    reply = repeated(scene, flow, estimator) if share else 0
    if reply and verdict.predicted_reuse:
        total = verdict.predicted_tokens / verdict.predicted_reuse
        tokens = verdict.predicted_tokens + share * reply
        verdict.predicted_tokens = min(round(tokens), verdict.prompt_estimate)
        verdict.predicted_reuse = round(min(1.0, tokens / total), 4)


def learn_reply(scene: Scene, flow: Flow, estimator: Estimator) -> None:
    """Take in how much of the parent's answer was found again behind its prompt."""
    measured, past = flow.measured, scene.parent
    prompt = past.settled.prompt_tokens if past is not None and past.settled is not None else None
    if measured is None or measured.cached_tokens is None or measured.source == "inferred_ttft" or not prompt:
        return
    reply = repeated(scene, flow, estimator)
    if reply >= LEAST_REPLY and measured.cached_tokens >= FOUND * prompt:
        share = (measured.cached_tokens - prompt) / reply
        estimator.learn_reply(model_of(flow), min(1.0, max(0.0, share)))


def repeated(scene: Scene, flow: Flow, estimator: Estimator) -> int:
    """Tokens of the parent's answer that the request repeats as it was relayed.

    Never more than the engine says it generated, nor than the text of the turn can be.
    """
    past = scene.parent
    settled = past.settled if past is not None else None
    if past is None or settled is None or scene.verdict.relation != "append":
        return 0
    if not settled.reply or not settled.completion_tokens or settled.status != "completed":
        return 0
    if scene.kind in PROMPT_ONLY or any(cause.code in REPLY_CODES for cause in flow.causes):
        return 0
    messages = [chunk for chunk in scene.prompt.chunks if chunk.kind == "message"]
    turn = replayed_turn(messages, past.node.kinds.count("m"))
    text = estimator.exact(model_of(flow), bulk_of(turn), whole=False)
    return min(settled.completion_tokens, round(text))
