"""OpenAI text completions: texts by choice. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from services.proxy.answers.forms.base import Event, Object, grow, objects, overlay
from services.proxy.answers.forms.chat import copy_members


class CompletionsForm:
    """``text_completion``, the same name in both forms."""

    framing: Literal["sse"] = "sse"
    end = b"data: [DONE]\n\n"

    def join(self, events: list[Event]) -> Object | None:
        """The completion that a stream amounts to."""
        whole: Object = {}
        choices: dict[int, Object] = {}
        for name, data in events:
            if name == "error" or not isinstance(data, dict) or data.get("error") is not None:
                return None
            copy_members(whole, data)
            whole["object"] = data.get("object") or "text_completion"
            for choice in objects(data.get("choices")):
                index = choice.get("index") or 0
                _take(choices.setdefault(index, {"index": index, "text": ""}), choice)
        whole["choices"] = [choices[index] for index in sorted(choices)]
        return whole

    def split(self, whole: Object) -> list[Event]:
        """One chunk with the text and one with the end for each choice; then the usage."""
        own = {"choices", "usage", "timings"}
        head = {name: value for name, value in whole.items() if name not in own}
        events: list[Event] = []
        for choice in objects(whole.get("choices")):
            events.append(Event("", {**head, "choices": [choice | {"finish_reason": None}]}))
            last = {"index": choice.get("index") or 0, "text": "", "logprobs": None}
            last["finish_reason"] = choice.get("finish_reason")
            events.append(Event("", {**head, "choices": [last]}))
        if events and "timings" in whole:
            events[-1].data["timings"] = whole["timings"]
        if whole.get("usage") is not None:
            events.append(Event("", {**head, "choices": [], "usage": whole["usage"]}))
        return events

    def complete(self, whole: Object, asked: Mapping[str, Any]) -> bool:
        """Every choice of every prompt ended by itself."""
        choices = objects(whole.get("choices"))
        if whole.get("error") is not None or len(choices) < _wanted(asked):
            return False
        return all(choice.get("finish_reason") == "stop" and choice.get("text") for choice in choices)

    def only_usage(self, event: Event) -> bool:
        """The last chunk, without choices."""
        return isinstance(event.data, dict) and event.data.get("choices") == [] and "usage" in event.data


def _take(held: Object, choice: Object) -> None:
    grow(held, {name: choice[name] for name in ("text", "logprobs") if name in choice})
    overlay(held, {name: value for name, value in choice.items() if name not in {"text", "logprobs"}})


def _wanted(asked: Mapping[str, Any]) -> int:
    """How many choices are due: `n` for each prompt of a list of texts."""
    count, prompts = asked.get("n"), asked.get("prompt")
    several = isinstance(prompts, list) and bool(prompts) and isinstance(prompts[0], str | list)
    return (count if isinstance(count, int) else 1) * (len(prompts) if several and prompts else 1)
