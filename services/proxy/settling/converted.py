"""Requests of the Messages and Responses APIs as the chat requests that local servers make of them. Pure.

llama-server and Ollama convert these APIs' requests inside before their chat template sees them; what is
here follows llama-server, and whoever renders a converted request has its tokens counted to be sure.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

Turn = dict[str, Any]

# llama-server overwrites this token of Claude Code's, so that it breaks no prefix.
_BILLING = re.compile(r"(x-anthropic-billing-header:[^\n]{0,600}?\bcch=)[0-9a-zA-Z]{5}")
_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "image"})  # of the Messages API alone
PINNED = r"\g<1>fffff"


def chat_of(
    system: list[Any], listed: list[Any], tools: list[Any], *, pinned: bool = False
) -> dict[str, Any]:
    """A chat body of a request's parts, each in the shape of whichever API it came in.

    `system` holds the system text, as a string or blocks, and leading system messages; `listed` messages or
    items; `pinned` overwrites the billing token, as llama-server does in the Messages API.
    """
    turns: list[Turn] = []
    for part in [*system, *listed]:
        for made in _turns(part, pinned=pinned):
            last = turns[-1] if turns else {}
            follows = made["role"] == "assistant" == last.get("role") and _is_item(part)
            if follows and ("tool_calls" in made or not last.get("content")):
                turns[-1] = _merged(last, made)
            else:
                turns.append(made)
    shaped = [shape for tool in tools if (shape := _tool(tool))]
    return {"messages": turns} | ({"tools": shaped} if shaped else {})


def _turns(part: Any, *, pinned: bool) -> Iterable[Turn]:
    if not isinstance(part, dict):
        text = _joined(part)
        return [{"role": "system", "content": _BILLING.sub(PINNED, text, count=1) if pinned else text}]
    return [_item(part)] if _is_item(part) else _message(part)


def _is_item(part: Any) -> bool:
    """Whether a part is one of the Responses API."""
    content = part.get("content") if isinstance(part, dict) else None
    blocks = content if isinstance(content, list) else []
    kinds = {block.get("type") for block in blocks if isinstance(block, dict)}
    return isinstance(part, dict) and ("type" in part or bool(kinds & {"input_text", "output_text"}))


def _message(message: Turn) -> Iterable[Turn]:
    """A turn, and a turn of its own for each tool result in it."""
    content = message.get("content")
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    if not any(b.get("type") in _BLOCKS for b in blocks):
        return [message]
    shown = [_part(b) for b in blocks if b.get("type") in ("text", "image")]
    calls = [_call(b) for b in blocks if b.get("type") == "tool_use"]
    thought = "".join(b.get("thinking", "") for b in blocks if b.get("type") == "thinking")
    turns: list[Turn] = []
    if shown or calls or thought:
        made = {"role": message.get("role"), "content": shown or ""}
        made |= {"tool_calls": calls} if calls else {}
        turns.append(made | ({"reasoning_content": thought} if thought else {}))
    for block in blocks:
        if block.get("type") == "tool_result":
            told = {"tool_call_id": block.get("tool_use_id", ""), "content": _joined(block.get("content"))}
            turns.append({"role": "tool", **told})
    return turns


def _item(item: Turn) -> Turn:
    """The turn that an item of a Responses body makes."""
    kind = item.get("type") or "message"
    if kind == "function_call":
        function = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
        call = {"id": item.get("call_id", ""), "type": "function", "function": function}
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    if kind == "function_call_output":
        return {
            "role": "tool",
            "tool_call_id": item.get("call_id", ""),
            "content": _joined(item.get("output")),
        }
    if kind == "reasoning":
        texts = [*(item.get("content") or ()), *(item.get("summary") or ())]
        return {
            "role": "assistant",
            "content": "",
            "reasoning_content": texts[0].get("text", "") if texts else "",
        }
    content = item.get("content")
    shown = [_part(part) for part in content] if isinstance(content, list) else content
    return {"role": item.get("role"), "content": shown}


def _merged(last: Turn, made: Turn) -> Turn:
    calls = [*last.get("tool_calls", ()), *made.get("tool_calls", ())]
    content = made.get("content") or last.get("content")
    return last | made | {"content": content or ""} | ({"tool_calls": calls} if calls else {})


def _part(block: Turn) -> Turn:
    """A block of text or an image as the chat API has it."""
    if "text" in block:
        return {"type": "text", "text": block["text"]}
    source = block.get("source") or {}
    data = f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
    url = block.get("image_url") or source.get("url") or data
    return {"type": "image_url", "image_url": {"url": url}}


def _call(block: Turn) -> Turn:
    arguments = json.dumps(block.get("input", {}), ensure_ascii=False, separators=(",", ":"))
    function = {"name": block.get("name", ""), "arguments": arguments}
    return {"id": block.get("id", ""), "type": "function", "function": function}


def _tool(tool: Any) -> Turn | None:
    """A tool with its schema where the chat API has it; None for those the server runs itself."""
    if not isinstance(tool, dict) or "function" in tool:
        return tool if isinstance(tool, dict) else None
    schema = tool.get("input_schema", tool.get("parameters"))
    if "name" not in tool or (schema is None and tool.get("type") != "function"):
        return None
    function = {"name": tool["name"], "description": tool.get("description", ""), "parameters": schema or {}}
    return {"type": "function", "function": function}


def _joined(content: Any) -> str:
    """The texts of blocks put together, or the text itself."""
    if isinstance(content, list):
        return "".join(block.get("text", "") for block in content if isinstance(block, dict))
    return content if isinstance(content, str) else ""
