"""OpenAI chat completions: deltas of a message by choice, tool calls by index. Pure."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal

from services.proxy.answers.forms.base import Event, Object, grow, is_json, objects, overlay

CALLING = frozenset({"tool_calls", "function_call"})
FINISHED = frozenset({"stop"}) | CALLING
# Members of a chunk that are the stream's own; all others stand in both forms, the last one counts.
_NOT_COPIED = frozenset({"choices", "object", "obfuscation", "prompt_progress"})


class ChatForm:
    """``chat.completion.chunk`` and ``chat.completion``."""

    framing: Literal["sse"] = "sse"
    end = b"data: [DONE]\n\n"

    def join(self, events: list[Event]) -> Object | None:
        """The completion that a stream of chunks amounts to."""
        found = collect(events, {"message": {}}, _take)
        if found is None:
            return None
        whole, choices = found
        joined = [_joined(index, choice) for index, choice in choices]
        return whole | {"object": "chat.completion", "choices": joined}

    def split(self, whole: Object) -> list[Event]:
        """One chunk each for the role, every text, every call and the end; then the usage."""
        head = {
            name: value for name, value in whole.items() if name not in _NOT_COPIED | {"usage", "timings"}
        }
        head["object"] = "chat.completion.chunk"
        chunks: list[Object] = []
        for choice in objects(whole.get("choices")):
            deltas = _deltas(choice.get("message") or {})
            more = {k: v for k, v in choice.items() if k not in {"message", "finish_reason", "index"}}
            for number, delta in enumerate(deltas):
                said = more if number == len(deltas) - 1 else {}
                chunks.append(_chunk(choice, delta, None, said))
            chunks.append(_chunk(choice, {}, choice.get("finish_reason"), {}))
        return with_counters(whole, head, [Event("", {**head, "choices": [choice]}) for choice in chunks])

    def complete(self, whole: Object, asked: Mapping[str, Any]) -> bool:
        """Every choice that was asked for ended by itself and says something; arguments are whole."""
        choices = objects(whole.get("choices"))
        wanted = asked.get("n")
        if whole.get("error") is not None or len(choices) < (wanted if isinstance(wanted, int) else 1):
            return False
        return all(choice.get("finish_reason") in FINISHED and _says(choice) for choice in choices)

    def only_usage(self, event: Event) -> bool:
        """The last chunk, without choices."""
        return is_usage(event)


def collect(
    events: list[Event], fresh: Object, take: Callable[[Object, Object], None]
) -> tuple[Object, list[tuple[int, Object]]] | None:
    """A stream's own members, and its choices in order, each grown by `take` from `fresh`.

    None where an error came between.
    """
    whole: Object = {}
    choices: dict[int, Object] = {}
    for name, data in events:
        if name == "error" or not isinstance(data, dict) or data.get("error") is not None:
            return None
        overlay(whole, {member: value for member, value in data.items() if member not in _NOT_COPIED})
        for choice in objects(data.get("choices")):
            index = choice.get("index") or 0
            if index not in choices:
                choices[index] = copy.deepcopy(fresh)
            take(choices[index], choice)
    return whole, sorted(choices.items())


def with_counters(whole: Object, head: Object, events: list[Event]) -> list[Event]:
    """A stream with what the whole answer counts: in its last event, and in one of its own."""
    if events and "timings" in whole:
        events[-1].data["timings"] = whole["timings"]
    if whole.get("usage") is not None:
        events.append(Event("", {**head, "choices": [], "usage": whole["usage"]}))
    return events


def is_usage(event: Event) -> bool:
    """Whether an event has no choices, and is there for its usage."""
    return isinstance(event.data, dict) and event.data.get("choices") == [] and "usage" in event.data


def _take(held: Object, choice: Object) -> None:
    delta = choice.get("delta") or choice.get("message") or {}
    message = held["message"]
    calls = objects(delta.get("tool_calls"))
    grow(message, {name: value for name, value in delta.items() if name not in {"tool_calls", "role"}})
    if delta.get("role"):
        message["role"] = delta["role"]
    for position, call in enumerate(calls):
        index = call.get("index")
        _add_call(message.setdefault("tool_calls", {}), position if index is None else index, call)
    for name, value in choice.items():
        if name == "logprobs" and isinstance(value, dict):
            grow(held.setdefault("logprobs", {}), value)
        elif name not in {"delta", "message", "index"} and (value is not None or name not in held):
            held[name] = value


def _add_call(calls: dict[int, Object], index: int, call: Object) -> None:
    """Arguments grow; a name may come in pieces, but some servers repeat all of it with each."""
    held = calls.setdefault(index, {})
    for name, value in call.items():
        if name == "function" and isinstance(value, dict):
            function = held.setdefault("function", {"name": "", "arguments": ""})
            if value.get("name") not in {None, "", function["name"]}:
                function["name"] += value["name"]
            arguments = value.get("arguments")
            function["arguments"] = arguments if isinstance(arguments, dict) else (
                function["arguments"] + (arguments or "")
            )  # fmt: skip
        elif name != "index" and value:
            held[name] = value


def _joined(index: int, held: Object) -> Object:
    message: Object = {"role": held["message"].get("role") or "assistant"}
    calls = held["message"].pop("tool_calls", None)
    message |= {"content": held["message"].get("content")} | held["message"]
    if calls:
        message["tool_calls"] = [calls[key] for key in sorted(calls)]
    elif message["content"] is None:
        message["content"] = ""
    rest = {name: value for name, value in held.items() if name != "message"}
    return {"index": index, "message": message, "finish_reason": None} | rest


def _deltas(message: Object) -> list[Object]:
    """The role, then each text in the message's order, then each call."""
    deltas: list[Object] = [{"role": message.get("role") or "assistant", "content": ""}]
    for name, value in message.items():
        if name not in {"role", "tool_calls"} and value not in (None, "", [], {}):
            deltas.append({name: value})
    for index, call in enumerate(objects(message.get("tool_calls"))):
        deltas.append({"tool_calls": [{"index": index} | call]})
    return deltas


def _chunk(choice: Object, delta: Object, reason: object, more: Object) -> Object:
    return {"index": choice.get("index") or 0, "delta": delta, "finish_reason": reason} | more


def _says(choice: Object) -> bool:
    message = choice.get("message") or {}
    calls = objects(message.get("tool_calls"))
    functions = [call.get("function") for call in calls] + [message.get("function_call")]
    called = [function for function in functions if isinstance(function, dict)]
    if not all(function.get("name") and is_json(function.get("arguments")) for function in called):
        return False
    if choice.get("finish_reason") in CALLING and not called:
        return False  # its calls were lost on the way
    return bool(called or message.get("content") or message.get("refusal"))
