"""What codes mean, in words that need no documentation: causes, hits, outcomes, sources. Pure data.

Every text is an English one that `zh.json` translates. A cause has a title for tables, and a clause that
completes "because …".
"""

from typing import NamedTuple


class Meaning(NamedTuple):
    """A code in words."""

    title: str
    clause: str


CAUSES: dict[str, Meaning] = {
    "client_attribution_token": Meaning(
        "Billing token in the prompt", "the client puts a changing billing token into the prompt"
    ),
    "timestamp": Meaning("Clock in the prompt", "a clock time in the prompt changed"),
    "date_rollover": Meaning("Date in the prompt", "the date in the prompt changed"),
    "counter": Meaning("Counter in the prompt", "a number in the prompt kept changing"),
    "workspace_snapshot": Meaning("Work-tree snapshot", "a snapshot of the work tree in the prompt changed"),
    "dynamic_block": Meaning("Changing block", "a block of the prompt changes again and again"),
    "system_edit": Meaning("System prompt edited", "the system prompt was edited"),
    "tool_reorder": Meaning("Tools reordered", "the same tools came in another order"),
    "tools_added": Meaning("Tools added", "tools were added"),
    "tools_removed": Meaning("Tools removed", "tools were removed"),
    "tool_schema_key_order": Meaning("Tool schema keys reordered", "the keys of a tool schema changed order"),
    "tool_description_dynamic": Meaning("Changing tool description", "the description of a tool changed"),
    "tool_schema_changed": Meaning("Tool changed", "a tool's schema changed"),
    "tool_args_reserialised": Meaning(
        "Tool arguments rewritten", "the client rewrote tool-call arguments it had received"
    ),
    "template_param_changed": Meaning(
        "Template parameter changed", "a parameter of the chat template changed"
    ),
    "reasoning_dropped_by_client": Meaning(
        "Reasoning dropped", "the client did not send the model's reasoning back"
    ),
    "reply_altered_by_client": Meaning(
        "Reply altered", "the client altered the model's reply in the history"
    ),
    "transient_block_removed": Meaning(
        "Passing block removed", "a block that was in the last message is gone from the history"
    ),
    "tool_result_pruned": Meaning("Tool result pruned", "an old tool result was shortened"),
    "history_rewrite": Meaning("History rewritten", "the history was rewritten"),
    "compaction": Meaning("Compaction", "the conversation was compacted"),
    "model_switch": Meaning("Model switched", "the conversation went on with another model"),
    "alternating_variants": Meaning("Alternating prompts", "two variants of one prompt take turns"),
    "evicted_by": Meaning("Evicted", "another request took its place in the engine's cache"),
    "capacity_suspected": Meaning(
        "Too many conversations", "more conversations take turns than the engine keeps"
    ),
    "model_reload": Meaning("Model reloaded", "the model was loaded again with other options"),
    "model_unloaded": Meaning("Model unloaded", "the model had been unloaded"),
    "context_truncated": Meaning(
        "Context cut off", "the prompt was longer than the context, so its head was cut"
    ),
    "client_disabled_cache": Meaning("Cache switched off", "the client switched the cache off"),
    "template_history_rewrite_suspected": Meaning(
        "Template rewrites history", "the chat template seems to print earlier turns differently"
    ),
    "template_generation_prompt_mismatch_suspected": Meaning(
        "Template mismatch", "the chat template seems to print the last answer differently"
    ),
    "tool_turn_rerender_suspected": Meaning(
        "Tool turn printed anew", "the chat template seems to print a turn anew once a tool result follows"
    ),
    "engine_no_rewind_suspected": Meaning(
        "Engine cannot rewind", "the engine seems unable to go back within its cache"
    ),
    "engine_granularity": Meaning("Block rest", "the engine reuses whole blocks only"),
    "checkpoint_or_window": Meaning(
        "Checkpoint too early", "the model had to restart from an earlier checkpoint"
    ),
    "engine_unknown": Meaning(
        "Engine, reason unknown", "the engine reused less, for a reason not visible from outside"
    ),
    "tool_id_changed": Meaning("Tool-call id changed", "a tool-call id changed"),
    "image_encoding_changed": Meaning("Image encoded anew", "an image was encoded anew"),
    "after_cancel": Meaning("After a cancelled request", "the request before was cancelled"),
    "client_timeout_suspected": Meaning("Client gave up", "the client seems to have given up waiting"),
    "retry_of": Meaning("Retry", "the client repeated a failed request"),
    "nondeterministic_repeat": Meaning("Answer differs", "the same request got another answer"),
}

HITS: dict[str, str] = {
    "exact": "seen before, whole",
    "prefix": "continues a conversation",
    "system+tools": "system prompt and tools seen before",
    "system_only": "system prompt seen before",
    "tools_only": "tools seen before",
    "none": "new",
}

STATUSES: dict[str, str] = {
    "completed": "completed",
    "incomplete": "ended without an end mark",
    "client_cancelled": "client left",
    "upstream_error": "model server's error",
    "error_midstream": "error inside the answer",
    "upstream_reset": "model server broke off",
    "upstream_unreachable": "model server not reachable",
    "rejected": "refused by MetalAnchor",
    "response_cache": "answered from the cache",
    "proxy_stopped": "MetalAnchor was stopped",
    "proxy_lost": "MetalAnchor was killed",
}

RELATIONS: dict[str, str] = {
    "first": "first of its conversation",
    "append": "adds to the conversation",
    "exact_repeat": "repeats a request exactly",
    "fork": "branches off",
    "rewrite": "rewrites the conversation",
}

STATES: dict[str, str] = {
    "warm": "warm",
    "probably_evicted": "probably evicted",
    "cold": "cold",
    "unloaded": "unloaded",
}

PHASES: dict[str, str] = {
    "queued": "queued",
    "loading": "loading the model",
    "prefill": "reading the prompt",
    "streaming": "answering",
}

SEVERITIES: dict[str, str] = {
    "break": "the text changed",
    "loss": "the engine reused less",
    "risk": "may cost reuse",
    "note": "note",
}

CHUNKS: dict[str, str] = {
    "p": "parameters",
    "t": "tools",
    "s": "system prompt",
    "m": "message",
    "q": "prompt",
}

CHUNK_STATES: dict[str, str] = {
    "reused": "reusable",
    "changed": "differs here",
    "again": "read again",
}

OVERALL: dict[str, str] = {
    "ok": "All is well.",
    "degraded": "Requests pass, but something is amiss.",
    "down": "No model server answers.",
}

HEALTH: dict[str, str] = {"ok": "well", "degraded": "amiss", "down": "down"}

ROLES: dict[str, str] = {"u": "user", "a": "assistant", "t": "tool result", "s": "system", "-": ""}


def title(code: str | None) -> str:
    """A cause's title; a code that is not known here stands for itself."""
    known = CAUSES.get(code or "")
    return known.title if known else (code or "")


def clause(code: str | None) -> str:
    """What completes "because …"."""
    known = CAUSES.get(code or "")
    return known.clause if known else (code or "")
