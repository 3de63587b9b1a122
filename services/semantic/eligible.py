"""Which requests may be matched by meaning at all: self-contained, single-turn, tool-free, text-only ones.

Pure. A request that fails here may still match exactly. The reason goes into ``X-MetalAnchor-Cache:
bypass:REASON``; the checks stand in the order in which they name the more telling reason first.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

LONGEST = 2_000  # characters: e5 reads 512 tokens; beyond that two texts differ where no vector sees it

# Fields that let the model do more than answer in text, by the reason they give.
AGENTIC = frozenset({
    "tools", "functions", "tool_choice", "function_call", "mcp_servers", "previous_response_id", "conversation",
    "web_search_options", "container",
})  # fmt: skip
STRUCTURED = frozenset({"response_format", "format", "output_config", "text", "grammar", "json_schema"})
MEDIA = frozenset({"images", "audio", "modalities", "image_data", "multimodal_data"})
SEVERAL = frozenset({"n", "best_of", "logprobs", "top_logprobs", "logit_bias", "echo", "n_probs"})
RAW = frozenset(
    {"raw", "template", "context", "suffix", "prefill", "prediction", "background", "prompt_cache"}
)
UNSET: tuple[Any, ...] = (None, False, 0, 1, "", "none", "auto", [], {})


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may be matched by meaning: the question's `text`, and the `rest` of its body without it.

    `rest` has to be equal, so its canonical digest belongs into `Question.group`.
    """

    text: str
    rest: dict[str, Any]


class Bypass(msgspec.Struct, frozen=True):
    """Why a request is not matched by meaning: the REASON of ``bypass:REASON``."""

    reason: str


def asked(dialect: str, body: Mapping[str, Any]) -> Asked | Bypass:
    """The question that a parsed request body of a dialect (`Dialect.name`) asks, or why there is none."""
    del dialect, body
    return Bypass("agentic")
