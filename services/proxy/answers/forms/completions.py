"""OpenAI text completions: texts by choice. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from services.proxy.answers.forms.base import Event, Object, grow, objects, overlay
from services.proxy.answers.forms.chat import collect, is_usage, with_counters


class CompletionsForm:
    """``text_completion``, the same name in both forms."""

    framing: Literal["sse"] = "sse"
    end = b"data: [DONE]\n\n"

    def join(self, events: list[Event]) -> Object | None:
        """The completion that a stream amounts to."""
        found = collect(events, {"index": 0, "text": ""}, _take)
        if found is None:
            return None
        whole, choices = found
        return whole | {"object": "text_completion", "choices": [choice for _, choice in choices]}

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
        return with_counters(whole, head, events)

    def complete(self, whole: Object, asked: Mapping[str, Any]) -> bool:
        """Every choice of every prompt ended by itself."""
        choices = objects(whole.get("choices"))
        if whole.get("error") is not None or len(choices) < _wanted(asked):
            return False
        return all(choice.get("finish_reason") == "stop" and choice.get("text") for choice in choices)

    def only_usage(self, event: Event) -> bool:
        """The last chunk, without choices."""
        return is_usage(event)


def _take(held: Object, choice: Object) -> None:
    grow(held, {name: choice[name] for name in ("text", "logprobs") if name in choice})
    overlay(held, {name: value for name, value in choice.items() if name not in {"text", "logprobs"}})


def _wanted(asked: Mapping[str, Any]) -> int:
    """How many choices are due: `n` for each prompt of a list of texts."""
    count, prompts = asked.get("n"), asked.get("prompt")
    several = isinstance(prompts, list) and bool(prompts) and isinstance(prompts[0], str | list)
    return (count if isinstance(count, int) else 1) * (len(prompts) if several and prompts else 1)
