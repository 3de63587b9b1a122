"""Which requests may be matched by meaning at all: self-contained, single-turn, tool-free, text-only ones.

Pure. A request that fails here may still match exactly. The reason goes into ``X-MetalAnchor-Cache:
bypass:REASON``; the checks stand in the order in which the more telling reason comes first.
"""

# ruff: noqa: E501 - one list of words a line

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.semantic.volatile import NEVER, life
from services.settings import CacheRule

LONGEST = 2_000  # characters: e5 reads 512 tokens; beyond that two texts differ where no vector sees it

# Members of a body that let the model do more than answer in text, by the reason they give.
_MEMBERS: tuple[tuple[str, frozenset[str]], ...] = (
    ("agentic", frozenset({
        "tools", "functions", "tool_choice", "function_call", "mcp_servers", "previous_response_id",
        "conversation", "web_search_options", "container",
    })),
    ("media", frozenset({"images", "audio", "modalities", "image_data", "multimodal_data"})),
    ("structured", frozenset({
        "response_format", "format", "output_config", "grammar", "json_schema", "guided_json", "guided_regex",
        "guided_choice", "structured_outputs",
    })),
    ("several", frozenset({"n", "best_of", "logprobs", "top_logprobs", "n_probs", "logit_bias"})),
    ("raw", frozenset({"raw", "template", "context", "suffix", "prefill", "prediction", "background"})),
)  # fmt: skip
# Values with which a member asks for nothing.
_NOTHING: tuple[Any, ...] = (None, False, 0, 1, "", "none", [], {}, ["text"], {"type": "text"})
_SYSTEM = frozenset({"system", "developer"})
_TURNS = {
    "anthropic": "messages",
    "ollama_chat": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
}
_TEXT_BLOCKS = frozenset({"text", "input_text"})
_TOOL_BLOCKS = frozenset({"tool_use", "tool_result", "function_call", "function_call_output", "tool_call"})
# Words that lean on something that was said before.
_LEANING = re.compile(
    r"^(?:continue|go on|keep going|yes|no|ok|okay|sure|more|again|why|how|what|thanks?|and|next|elaborate|explain)\W*$"
    r"|\b(?:above|as before|previous(?:ly)? (?:answer|message|question|said|mentioned)|you (?:just )?(?:said|wrote|told)"
    r"|the (?:former|latter)|same as (?:before|last)|my last (?:question|message)|earlier (?:answer|message))\b"
    r"|^(?:继续|接着说?|是的?|好的?|不是?|为什么|然后呢|还有呢|再来|展开|详细点)[。！？!?.~]*$|上面|上述|上文|刚才|之前说|前面说|你说的|上一个(?:问题|回答)",
    re.IGNORECASE,
)  # fmt: skip


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may be matched by meaning: the question's `text`, and the `rest` of its body without it.

    `rest` has to be equal, so its canonical digest belongs into `Question.group`. `life_s` is how long an
    answer may be kept, in seconds; None is as long as any other.
    """

    text: str
    rest: dict[str, Any]
    life_s: float | None = None


class Bypass(msgspec.Struct, frozen=True):
    """Why a request is not matched by meaning: the REASON of ``bypass:REASON``."""

    reason: str


def asked(dialect: str, body: Mapping[str, Any], rules: Sequence[CacheRule] = ()) -> Asked | Bypass:
    """The question that a parsed request body of a dialect (`Dialect.name`) asks, or why there is none.

    `rules` are the user's, on how long answers stay true.
    """
    for reason, members in _MEMBERS:
        if any(name in members and (value is True or value not in _NOTHING) for name, value in body.items()):
            return Bypass(reason)
    if _formatted(body.get("text")):
        return Bypass("structured")
    if dialect in _TURNS:
        found = _turns(dict(body), _TURNS[dialect])
    elif dialect == "ollama_generate":
        found = _question(body.get("prompt"), {**body, "prompt": None})
    else:
        return Bypass("raw")
    return found if isinstance(found, Bypass) else _fit(found, rules)


def _fit(found: Asked, rules: Sequence[CacheRule]) -> Asked | Bypass:
    if len(found.text) > LONGEST:
        return Bypass("long")
    if not found.text.strip():
        return Bypass("empty")
    if _LEANING.search(found.text.strip()):
        return Bypass("context")
    life_s = life(found.text, rules)
    if life_s == NEVER:
        return Bypass("volatile")
    return msgspec.structs.replace(found, life_s=life_s)


def _formatted(text: Any) -> bool:
    """Whether the Responses API's `text` asks for another form than plain text."""
    return isinstance(text, dict) and text.get("format", {"type": "text"}) != {"type": "text"}


def _turns(body: dict[str, Any], name: str) -> Asked | Bypass:
    """The question of a body whose list of turns has that name."""
    turns = body.get(name)
    if isinstance(turns, str):
        return Asked(text=turns, rest={**body, name: None})
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        return Bypass("unparsed")
    others = [turn for turn in turns if turn.get("role") not in _SYSTEM]
    if any(_is_agentic(turn) for turn in others):
        return Bypass("agentic")
    if len(others) != 1 or others[0].get("role") != "user" or turns[-1] is not others[0]:
        return Bypass("multi_turn")
    (asking,) = others
    rest = {**body, name: [*turns[:-1], {**asking, "content": None}]}
    return Bypass("media") if asking.get("images") else _question(asking.get("content"), rest)


def _is_agentic(turn: Mapping[str, Any]) -> bool:
    if turn.get("role") in {"tool", "function"} or turn.get("tool_calls") or turn.get("type") in _TOOL_BLOCKS:
        return True
    content = turn.get("content")
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and block.get("type") in _TOOL_BLOCKS for block in blocks)


def _question(content: Any, rest: dict[str, Any]) -> Asked | Bypass:
    """The one text that a turn's content is."""
    if isinstance(content, str):
        return Asked(text=content, rest=rest)
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        return Bypass("unparsed")
    if any(block.get("type") not in _TEXT_BLOCKS for block in content):
        return Bypass("media")
    if len(content) != 1 or not isinstance(content[0].get("text"), str):
        return Bypass("several_parts")
    return Asked(text=content[0]["text"], rest=rest)
