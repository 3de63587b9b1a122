"""What to do about a cause, in one sentence, naming the setting that cures it for that agent or engine.

Pure data and a lookup. An entry is used when its agent and engine conditions hold; the first that fits
wins, so the particular ones stand before the general one.
"""

from typing import NamedTuple

from services.proxy.flow import Cause


class Advice(NamedTuple):
    """A sentence for a code; `agent` and `kind` limit it to an agent (by name prefix) or backend kind.

    `unproven` names a part of the cause's detail that must be unknown.
    """

    code: str
    text: str
    agent: str = ""
    kind: str = ""
    unproven: str = ""


ADVICE: tuple[Advice, ...] = (
    Advice(
        "client_attribution_token",
        (
            "Set CLAUDE_CODE_ATTRIBUTION_HEADER=0 in Claude Code's environment, which removes the billing "
            "block from its system prompt."
        ),
    ),
    Advice(
        "timestamp",
        "Turn off the clock in OpenClaw's system prompt, or move it into the newest user message.",
        agent="openclaw",
    ),
    Advice(
        "timestamp",
        "Take the clock out of the prompt's head, or put it into the newest user message.",
    ),
    Advice(
        "date_rollover",
        (
            "This break comes once a day; pin the date when the session starts, or put it into the newest "
            "message."
        ),
    ),
    Advice(
        "counter",
        "Move the changing number behind the history, or leave it out of the system prompt.",
    ),
    Advice(
        "workspace_snapshot",
        "Take the git and work-tree snapshot once per session, or move it into the newest user message.",
    ),
    Advice(
        "dynamic_block",
        "Move the changing block to the end of the prompt, behind everything that stays.",
    ),
    Advice(
        "system_edit",
        "Keep the system prompt as it is within a session; add news as a message instead.",
    ),
    Advice(
        "tool_reorder",
        "Have the client send its tools in one fixed order, such as sorted by name.",
    ),
    Advice(
        "tools_added",
        (
            "Let tool servers connect before the first request, so that the tool list is complete from "
            "the start."
        ),
    ),
    Advice(
        "tools_removed",
        "Keep the tool list constant within a session, and refuse calls to a tool instead.",
    ),
    Advice(
        "tool_schema_key_order",
        "Have the client serialise tool schemas with keys in one fixed order.",
    ),
    Advice(
        "tool_description_dynamic",
        "Take changing facts out of tool descriptions; put them into a message.",
    ),
    Advice(
        "tool_schema_changed",
        "Restart the session after changing a tool; each change costs the whole prompt.",
    ),
    Advice(
        "tool_args_reserialised",
        "Have the client replay tool-call arguments as the exact string it received, without parsing them.",
    ),
    Advice(
        "template_param_changed",
        "Keep template parameters such as reasoning effort constant within a session.",
    ),
    Advice(
        "reasoning_dropped_by_client",
        (
            "Have the client send reasoning_content back with its assistant messages (in Pi and OpenClaw: "
            "set the model to reasoning: true)."
        ),
    ),
    Advice(
        "reply_altered_by_client",
        "Have the client replay answers byte for byte, untrimmed.",
    ),
    Advice(
        "transient_block_removed",
        (
            "Have the client keep what it once sent in a user message, or send transient context only at "
            "the very end."
        ),
    ),
    Advice(
        "tool_result_pruned",
        "Turn off pruning of tool results (in opencode: compaction.prune=false).",
        agent="opencode",
    ),
    Advice(
        "tool_result_pruned",
        "Prune tool results only when the context is nearly full: each pruning costs everything behind it.",
    ),
    Advice(
        "history_rewrite",
        "Have the client leave sent messages untouched; only append to the history.",
    ),
    Advice(
        "compaction",
        "Compaction costs one cold prefill; raise its threshold if it comes often.",
    ),
    Advice(
        "model_switch",
        "Each model has its own cache; come back to the former model to find it warm.",
    ),
    Advice(
        "alternating_variants",
        "Two variants of one prompt take turns; give each its own slot or its own session.",
    ),
    Advice(
        "evicted_by",
        "Start Ollama with OLLAMA_NUM_PARALLEL=2 or more, so that side requests do not take the only slot.",
        kind="ollama",
    ),
    Advice(
        "evicted_by",
        (
            "Start llama-server with more slots (-np) or a host prompt cache (--cache-ram), or send side "
            "requests elsewhere."
        ),
        kind="llama-server",
    ),
    Advice(
        "evicted_by",
        "Give the server two or more slots, or send side requests to another model or server.",
    ),
    Advice(
        "capacity_suspected",
        "Raise OLLAMA_NUM_PARALLEL to the number of conversations in use, or use fewer at a time.",
        kind="ollama",
    ),
    Advice(
        "capacity_suspected",
        "Give the server one slot per conversation in use (llama-server: -np and --cache-ram).",
    ),
    Advice(
        "model_reload",
        (
            "The server was started anew between the two requests and kept nothing: see what restarts it; a "
            "llama-server can save its slots before and restore them after (--slot-save-path)."
        ),
        unproven="by_request",
    ),
    Advice(
        "model_reload",
        (
            "Give every client the same load options; set num_ctx once (OLLAMA_CONTEXT_LENGTH or the "
            "Modelfile) and nowhere else."
        ),
    ),
    Advice(
        "model_unloaded",
        (
            "The model was loaded anew although nothing sent through this proxy let it go: see whether the "
            "server restarted or ran short of memory, or whether other clients reach it directly."
        ),
        unproven="reason",
    ),
    Advice(
        "model_unloaded",
        "Set OLLAMA_KEEP_ALIVE=-1, or a longer keep_alive in the request, so that the model stays loaded.",
    ),
    Advice(
        "context_truncated",
        (
            "Raise num_ctx (OLLAMA_CONTEXT_LENGTH) above the prompt's size: the engine cuts off the "
            "oldest messages, and reuses nothing."
        ),
    ),
    Advice(
        "client_disabled_cache",
        "Take cache_prompt: false out of the client's request settings.",
    ),
    Advice(
        "template_history_rewrite_suspected",
        (
            "Keep earlier thinking in the prompt: preserve_thinking in chat_template_kwargs, or "
            "llama-server's --reasoning-preserve."
        ),
    ),
    Advice(
        "template_generation_prompt_mismatch_suspected",
        "Use a chat template whose history repeats the empty think block of its generation prompt.",
    ),
    Advice(
        "tool_turn_rerender_suspected",
        "Use a chat template that prints earlier turns the same when a tool result follows.",
    ),
    Advice(
        "engine_no_rewind_suspected",
        (
            "This engine cannot go back within its cache; llama-server's --ctx-checkpoints or --swa-full "
            "give it places to go back to."
        ),
    ),
    Advice(
        "engine_granularity",
        "The engine reuses whole blocks only; what is lost is the rest of one block.",
    ),
    Advice(
        "checkpoint_or_window",
        (
            "This model restarts from checkpoints; llama-server's --swa-full or more --ctx-checkpoints "
            "make late edits cheaper."
        ),
    ),
    Advice(
        "after_cancel",
        "The request before was cancelled; its prefill may have been kept in part.",
    ),
    Advice(
        "client_timeout_suspected",
        "Raise the client's read timeout: it left before a cold prefill could end.",
    ),
    Advice(
        "retry_of",
        "The client repeated a request that had failed; nothing was lost by the prompt.",
    ),
)


def advice_for(cause: Cause | None, agent: str | None, kind: str | None) -> str | None:
    """The sentence for a cause, as particular as agent and backend kind allow; None where there is none."""
    if cause is None:
        return None
    for advice in ADVICE:
        fits = (agent or "").lower().startswith(advice.agent) and advice.kind in ("", kind)
        fits = fits and (not advice.unproven or cause.detail.get(advice.unproven) is None)
        if advice.code == cause.code and fits:
            return advice.text
    return None
