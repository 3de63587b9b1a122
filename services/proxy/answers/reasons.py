"""What the response cache's short words mean: why a request was not looked up, why a neighbour was refused.

Pure data. Metrics take their label values from here, so that no client can make series grow; people read the
sentences in `cache explain` and on the page.
"""

from collections.abc import Mapping

VERDICTS: Mapping[str, str] = {
    "hit": "An equal request had been answered before.",
    "semantic": "A stored question asks the same in other words.",
    "miss": "No equal request was stored, and no stored question asks the same; "
    "answers that were cut short or failed are not kept.",
}

# The REASON of `bypass:REASON`: these are not looked up and not stored …
NEVER: Mapping[str, str] = {
    "off": "The cache is off.",
    "no-cache": "The client wanted a new answer.",
    "unparsed": "The body is not the JSON that the route takes.",
    "ambiguous": "A member of the body stands twice.",
    "too_large": "The body is over 8 MiB.",
    "endpoint": "The cache does not know this route.",
    "no_prompt": "The request only loads or unloads a model.",
    "stateful": "The answer depends on what the server keeps.",
    "hosted_tools": "The server runs tools of its own, whose results are of the moment.",
    "error": "Looking into the cache failed; the proxy's log says where.",
    "volatile": "The question is about now, a price, the weather or chance: its answer does not stay true.",
}
# … and these are, but matched exactly, not by meaning.
EXACTLY: Mapping[str, str] = {
    "agentic": "Tools are in play, so only an equal request may have the answer.",
    "media": "There is more than text in it, so only an equal request may have the answer.",
    "structured": "It asks for a given form, so only an equal request may have the answer.",
    "several": "It asks for several answers or for probabilities, so only an equal request may have them.",
    "raw": "It steers the model by more than a question, so only an equal request may have the answer.",
    "context": "The question leans on something said before.",
    "empty": "There is no question in it.",
    "long": "The question is too long to be compared by meaning.",
    "multi_turn": "It goes on a conversation, so only an equal request may have the answer.",
    "several_parts": "The question is in several parts.",
}
BYPASSES: Mapping[str, str] = {**NEVER, **EXACTLY}

# What the judge says of two questions: `Ruling.rule`.
RULES: Mapping[str, str] = {
    "equal": "It asks the same.",
    "alias": "A model agreed that it asks the same.",
    "similarity": "Too far apart in meaning.",
    "language": "It is in another language.",
    "embedded_text": "A text that goes with the question differs.",
    "setting": "The asked language, form or length differs.",
    "order": "The order differs, and it may matter.",
    "count": "A word is said more often.",
    "quoted": "What is quoted differs.",
    "code": "A name in code differs.",
    "path": "A path differs.",
    "flag": "A flag differs.",
    "date": "A date differs.",
    "unit": "A unit differs.",
    "name": "A name differs.",
    "number": "A number differs.",
    "question": "What is asked of it differs: who, why, how, whether …",
    "opposite": "One says the opposite.",
    "negation": "One is negated.",
    "person": "It is about another person.",
    "tense": "It is about another time.",
    "scope": "All, some, only, best …: how much is meant differs.",
    "case": "Capital letters differ where they may matter.",
    "words": "A word differs, and nothing proves that it means the same.",
}


def meaning(verdict: str | None) -> str | None:
    """What a verdict of the header means; None for one that nobody knows."""
    if verdict is None:
        return None
    kind, _, reason = verdict.partition(":")
    return BYPASSES.get(reason) if kind == "bypass" else VERDICTS.get(kind)
