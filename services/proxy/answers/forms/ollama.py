"""Ollama's own routes: lines, of which the last has the counters; chat nests its text. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from services.proxy.answers.forms.base import Event, Object, grow, objects

# Members that grow over the lines; all others stand as the last line has them.
_GROWING = ("response", "thinking", "tool_calls", "logprobs")


class OllamaForm:
    """``/api/chat`` and ``/api/generate``."""

    framing: Literal["ndjson"] = "ndjson"
    end = b""

    def join(self, events: list[Event]) -> Object | None:
        """The last line, with all that was said before it."""
        lines = [data for _, data in events]
        if not lines or not all(isinstance(line, dict) and line.get("error") is None for line in lines):
            return None
        if not lines[-1].get("done") or any(line.get("done") for line in lines[:-1]):
            return None
        whole: Object = dict(lines[-1])
        message: Object = {}
        grown: Object = {}
        for line in lines:
            said = line.get("message")
            if isinstance(said, dict):
                message["role"] = said.get("role") or message.get("role")
                grow(message, {name: value for name, value in said.items() if name != "role"})
            grow(grown, {name: line[name] for name in _GROWING if line.get(name) is not None})
        whole |= grown
        if message:
            whole["message"] = {"role": message.pop("role"), "content": ""} | message
        return whole

    def split(self, whole: Object) -> list[Event]:
        """One line with all that was said, then the last one with the counters."""
        head = {name: whole[name] for name in ("model", "created_at") if name in whole}
        said = {name: whole[name] for name in ("message", *_GROWING) if name in whole}
        last = {name: value for name, value in whole.items() if name not in said}
        if "message" in said:
            silent: Object = {
                "message": {"role": (whole["message"] or {}).get("role", "assistant"), "content": ""}
            }
        else:
            silent = {"response": ""}
        return [Event("", head | said | {"done": False}), Event("", head | silent | last)]

    def complete(self, whole: Object, asked: Mapping[str, Any]) -> bool:  # noqa: ARG002 part of the interface
        """It stopped by itself, and says something."""
        if whole.get("error") is not None or not whole.get("done") or whole.get("done_reason") != "stop":
            return False
        message = whole.get("message")
        said = message if isinstance(message, dict) else {}
        calls = objects(said.get("tool_calls")) + objects(whole.get("tool_calls"))
        return bool(calls or said.get("content") or whole.get("response") or said.get("images"))

    def only_usage(self, event: Event) -> bool:  # noqa: ARG002 part of the interface
        """The counters stand in the last line, asked for or not."""
        return False
