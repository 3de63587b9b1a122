"""A scripted model that makes every agent work: one tool call that reads a file, then a closing text.

It speaks chat completions, responses and messages, streamed or not, and ends the tool loop itself. Its tool
arguments are odd on purpose (a space after the colon), so that what a client makes of them shows.
"""

import json
from typing import Any

from tests.support.backend.engine import Counts, Engine
from tests.support.backend.script import Received, Reply, as_json, sse

TEXT = "The file prints hello.\n"
READERS = ("read", "read_file", "readfile", "exec_command", "shell", "bash", "terminal")


class Model:
    """Answers requests of any agent; `engine` counts tokens and what its two slots still hold."""

    def __init__(self) -> None:
        self.engine = Engine(slots=2)

    def __call__(self, received: Received) -> Reply:
        """Answer one request; unknown paths are 404, as Ollama and llama-server say."""
        routes = {"/v1/chat/completions": _chat, "/v1/responses": _responses, "/v1/messages": _messages}
        if received.path == "/v1/models":
            return as_json({"object": "list", "data": [{"id": "small-model", "object": "model"}]})
        if received.path not in routes or received.method != "POST":
            return as_json({"error": {"message": "not found"}}, status=404)
        request = received.json()
        return routes[received.path](request, self.engine.evaluate(request))


def _call(request: dict[str, Any]) -> tuple[str, str] | None:
    """The tool to call and its arguments; None where the text is due."""
    turns = request.get("messages") or request.get("input") or []
    tools = [tool.get("function", tool) for tool in request.get("tools") or []]
    named = {str(tool.get("name", "")).lower(): tool for tool in tools}
    reader = next((named[name] for name in READERS if name in named), None)
    if reader is None or _result_since_question(turns):
        return None
    schema = reader.get("parameters") or reader.get("input_schema") or {}
    names = schema.get("required") or list(schema.get("properties") or {"path": {}})
    word = "cat hello.py" if reader["name"] in {"exec_command", "shell", "bash", "terminal"} else "hello.py"
    value: Any = (
        word.split() if schema.get("properties", {}).get(names[0], {}).get("type") == "array" else word
    )
    return reader["name"], json.dumps({names[0]: value})


def _id(request: dict[str, Any]) -> str:
    """An id no earlier call of the conversation has: clients match results to calls by it."""
    return f"call_{len(request.get('messages') or request.get('input') or [])}"


def _result_since_question(turns: list[dict[str, Any]]) -> bool:
    """Whether the last turns hold a tool's result already, in any dialect's shape."""
    for turn in reversed(turns):
        if turn.get("role") == "tool" or turn.get("type") == "function_call_output":
            return True
        blocks = turn.get("content")
        if isinstance(blocks, list) and any(
            b.get("type") == "tool_result" for b in blocks if isinstance(b, dict)
        ):
            return True
        if turn.get("role") == "user":
            return False
    return False


def _chat(request: dict[str, Any], counts: Counts) -> Reply:
    call = _call(request)
    usage: dict[str, Any] = {"prompt_tokens": counts.prompt, "completion_tokens": counts.output}
    usage["prompt_tokens_details"] = {"cached_tokens": counts.cached}
    envelope = {"id": f"chatcmpl-{_id(request)}", "created": 1764417600, "model": request.get("model")}
    message: dict[str, Any] = {"role": "assistant", "content": None if call else TEXT}
    if call:
        function = {"name": call[0], "arguments": call[1]}
        message["tool_calls"] = [{"index": 0, "id": _id(request), "type": "function", "function": function}]
    finish = "tool_calls" if call else "stop"
    if not request.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return as_json(envelope | {"object": "chat.completion", "choices": [choice], "usage": usage})
    chunk = envelope | {"object": "chat.completion.chunk"}
    events: list[Any] = [
        chunk | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
    ]
    if (request.get("stream_options") or {}).get("include_usage"):
        events.append(chunk | {"choices": [], "usage": usage})
    return sse([*events, "data: [DONE]\n\n"])


def _responses(request: dict[str, Any], counts: Counts) -> Reply:
    call = _call(request)
    if call:
        item: dict[str, Any] = {
            "type": "function_call",
            "id": f"f{_id(request)}",
            "call_id": _id(request),
            "name": call[0],
        }
        item |= {"arguments": call[1], "status": "completed"}
    else:
        content = [{"type": "output_text", "text": TEXT, "annotations": []}]
        item = {
            "type": "message",
            "id": f"msg_{_id(request)}",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    usage: dict[str, Any] = {"input_tokens": counts.prompt, "output_tokens": counts.output}
    usage |= {"total_tokens": counts.prompt + counts.output, "output_tokens_details": {"reasoning_tokens": 0}}
    usage["input_tokens_details"] = {"cached_tokens": counts.cached}
    base = {"id": f"resp_{_id(request)}", "object": "response", "model": request.get("model")}
    events = [
        ("response.created", {"response": base | {"status": "in_progress", "output": []}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        (
            "response.completed",
            {"response": base | {"status": "completed", "output": [item], "usage": usage}},
        ),
    ]
    return sse([(name, {"type": name, "sequence_number": i} | data) for i, (name, data) in enumerate(events)])


def _messages(request: dict[str, Any], counts: Counts) -> Reply:
    call = _call(request)
    usage = {"input_tokens": counts.evaluated, "cache_read_input_tokens": counts.cached, "output_tokens": 9}
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": TEXT}
    if call:
        block = {"type": "tool_use", "id": _id(request), "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": call[1]}
    stop = "tool_use" if call else "end_turn"
    message = {
        "id": f"msg_{_id(request)}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model"),
    }
    if not request.get("stream"):
        whole = block | ({"input": json.loads(call[1])} if call else {"text": TEXT})
        return as_json(
            message | {"content": [whole], "stop_reason": stop, "stop_sequence": None, "usage": usage}
        )
    opened = message | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events = [
        {"type": "message_start", "message": opened},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return sse([(event["type"], event) for event in events])
