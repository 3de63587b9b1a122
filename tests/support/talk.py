"""The same conversation in the words of each API: what the variants of the cases are told with.

A `Route` says how one API carries system text and messages, and what the proxy calls the place of its
system text.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, Story, Told

Body = dict[str, Any]

ASK = "Please look into the loader and say what it does with a bad header. " * 4
MORE, AGAIN, LAST = "And what about an empty file?", "Good. Now the tests.", "Thank you, one more thing."
REPLY = "ok"  # what `tests.support.story` answers
ASK_ZH = "请检查加载器，并说明它如何处理损坏的文件头。" * 6
RULES = "Work in small steps. Read before you write. Never guess an API. " * 12
RULES_ZH = "请分小步工作。先阅读，再修改。不要猜测接口。" * 12


@dataclass(frozen=True)
class Route:
    """How one API says what any of them can say. `body` takes system text and (role, text) turns."""

    name: str
    path: str
    body: Callable[[str, list[Body]], Body]
    at: str = "system"


def turn(role: str, content: Any, **more: Any) -> Body:
    """A message."""
    return {"role": role, "content": content, **more}


def user(content: Any) -> Body:
    """A user's message."""
    return turn("user", content)


def said(content: Any = REPLY, **more: Any) -> Body:
    """An answer as it is sent back."""
    return turn("assistant", content, **more)


def text(value: str, **more: Any) -> Body:
    """A text block."""
    return {"type": "text", "text": value, **more}


def item(role: str, value: str, **more: Any) -> Body:
    """A message item of the Responses API."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": value}], **more}


def _items(turns: list[Body]) -> list[Body]:
    return [item(t["role"], t["content"]) for t in turns]


ROUTES = {
    route.name: route
    for route in (
        Route("chat", CHAT, lambda s, t: {"messages": [turn("system", s), *t]}),
        Route("developer", CHAT, lambda s, t: {"messages": [turn("developer", s), *t]}),
        Route(
            "second",
            CHAT,
            lambda s, t: {"messages": [turn("system", "You are Claw."), turn("system", s), *t]},
            "system[1]",
        ),
        Route("chat-block", CHAT, lambda s, t: {"messages": [turn("system", [text(s)]), *t]}),
        Route("ollama", OLLAMA, lambda s, t: {"messages": [turn("system", s), *t], "stream": False}),
        Route("anthropic", MESSAGES, lambda s, t: {"system": s, "messages": t, "max_tokens": 99}),
        Route(
            "anthropic-blocks",
            MESSAGES,
            lambda s, t: {"system": [text("You are Claude."), text(s)], "messages": t, "max_tokens": 99},
            "system[1]",
        ),
        Route("responses", RESPONSES, lambda s, t: {"instructions": s, "input": _items(t)}),
        Route("responses-item", RESPONSES, lambda s, t: {"input": [item("developer", s), *_items(t)]}),
    )
}


def function(name: str, description: str = "Does it.", parameters: Body | None = None, **more: Any) -> Body:
    """A tool as the chat API and Ollama define it."""
    made = {"name": name, "description": description, "parameters": parameters or SCHEMA, **more}
    return {"type": "function", "function": made}


def flat(name: str, description: str = "Does it.", parameters: Body | None = None) -> Body:
    """A tool of the Responses API."""
    schema = parameters or SCHEMA
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": schema,
        "strict": False,
    }


def claude(name: str, description: str = "Does it.", parameters: Body | None = None) -> Body:
    """A tool of the Messages API."""
    return {"name": name, "description": description, "input_schema": parameters or SCHEMA}


SCHEMA: Body = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "The path."}, "limit": {"type": "integer"}},
    "required": ["path"],
}


def call(arguments: Any, name: str = "read", number: int = 1, content: Any = None, **more: Any) -> Body:
    """An assistant's turn with one call; arguments as a string, or an object for Ollama."""
    made = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return said(content, tool_calls=[made], **more)


def result(value: str, number: int = 1, **more: Any) -> Body:
    """A tool's result."""
    return turn("tool", value, tool_call_id=f"call_{number}", **more)


PNG, JPG = (base64.b64encode(head + bytes(300)).decode() for head in (b"\x89PNG\r\n", b"\xff\xd8\xff"))


def picture(data: str) -> Body:
    """An image block of the chat API."""
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def first_difference(old: str, new: str) -> int:
    """The byte at which the first differing character begins, found the slow way."""
    at = 0
    while at < min(len(old), len(new)) and old[at] == new[at]:
        at += 1
    return len(old[:at].encode())


def common_end(old: str, new: str) -> int:
    """Bytes that are equal at the end of both, after the first difference."""
    shared, limit = 0, min(len(old), len(new)) - len(old.encode()[: first_difference(old, new)].decode())
    while shared < limit and old[-1 - shared] == new[-1 - shared]:
        shared += 1
    return len(old[len(old) - shared :].encode())


def dumps(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


SYSTEM = turn("system", RULES)
TALK = [user(ASK), said(), user(MORE), said(), user(AGAIN), said(), user(LAST)]
SECOND = 1_000_000_000
LOADED, READY = {"load_duration": 4 * SECOND}, {"load_duration": 20_000_000}


def chat(turns: int, **more: Any) -> Body:
    """The talk up to its nth user message."""
    return {"messages": [SYSTEM, *TALK[: 2 * turns - 1]], "stream": False, **more}


def history(path: str, messages: list[Body]) -> Body:
    """A request to an API with these messages or items behind the rules."""
    if path == MESSAGES:
        return {"system": RULES, "messages": messages, "max_tokens": 9}
    if path == RESPONSES:
        return {"instructions": RULES, "input": messages}
    return {"messages": [SYSTEM, *messages], "stream": False}


def used(value: Any, *before: Body) -> Body:
    """An assistant's turn of the Messages API with one call."""
    return said([*before, {"type": "tool_use", "id": "toolu_1", "name": "read", "input": value}])


def outcome(value: Any, number: int = 1) -> Body:
    """A call's result there."""
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": value}


def invoked(arguments: str, **more: Any) -> Body:
    """A call of the Responses API."""
    return {"type": "function_call", "call_id": "c1", "name": "read", "arguments": arguments, **more}


def returned(output: str) -> Body:
    """A call's result there."""
    return {"type": "function_call_output", "call_id": "c1", "output": output}


def grown(story: Story, route: str, old: str, new: str, ask: str = ASK) -> Told:
    """Two requests of one talk, the second with one more turn and another system text."""
    way = ROUTES[route]
    story.say(way.body(old, [user(ask)]), path=way.path)
    return story.say(way.body(new, [user(ask), said(), user(MORE)]), path=way.path)


def retold(stories: NewStory, path: str, old: list[Any], new: list[Any], **more: Any) -> Told:
    """Two requests with different messages, on a server that speaks the API."""
    story = stories("ollama" if path == OLLAMA else "llama-server")
    story.say(history(path, old), path=path, **more)
    return story.say(history(path, new), path=path)


def causes(told: Told) -> list[tuple[str, str | None]]:
    """Codes and places, in order."""
    return [(cause["code"], cause["at"]) for cause in told.explain["causes"]]


def offset(told: Told, number: int = 0) -> int:
    """The byte of one cause."""
    return int(told.explain["causes"][number]["detail"]["byte_offset"])
