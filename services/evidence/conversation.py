"""One session of a scenario as an agent would hold it: each request repeats all before it, byte for byte.

What the model answered is sent back as it came. Where it called a tool, the tool's result follows; where it
answered in words, the result follows as the user's next message, so that nothing is put into its mouth.
"""

import copy
import json
import random
from typing import Any

from services.evidence.exchange import Reply
from services.evidence.prose import write
from services.evidence.scenarios import Scenario

Message = dict[str, Any]
# Tokens of a tool's description. Short, as some templates (the stand-in's among them) leave tools out.
DESCRIPTION = 8


class Conversation:
    """Session `number` of a scenario; `salt` makes its prefix one that no other run has sent."""

    def __init__(self, scenario: Scenario, seed: int, salt: str, number: int) -> None:
        self.scenario = scenario
        self._base = f"{seed}/{salt}/{scenario.name}"
        member = 0 if scenario.identical else number
        self.session = f"bench-{salt}-{scenario.name}-{member}"
        self._pick = random.Random(f"{self._base}/{member}")  # noqa: S311 - text, not secrets
        self._turn = 0
        self.messages: list[Message] = [
            {"role": "system", "content": system_text(scenario, self._base)},
            {"role": "user", "content": self._write(scenario.ask)},
        ]
        self._tools = tools_of(scenario, self._base)

    def body(self, model: str, max_tokens: int) -> dict[str, Any]:
        """The next request."""
        body: dict[str, Any] = {
            "model": model,
            "messages": self.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        return {**body, "tools": self._tools} if self._tools else body

    def hear(self, reply: Reply) -> None:
        """Take the answer in and say what comes next."""
        self._turn += 1
        self.messages.append(_spoken(reply))
        text = self._next_text()
        if reply.calls:
            self.messages += [{"role": "tool", "tool_call_id": c["id"], "content": text} for c in reply.calls]
        else:
            self.messages.append({"role": "user", "content": text})

    def cold_twin(self, salt: str) -> "Conversation":
        """The same conversation behind another prefix of the same length: nothing of it was seen before."""
        twin = copy.copy(self)
        twin.session = f"{self.session}-{salt}"
        head = {"role": "system", "content": system_text(self.scenario, f"{self._base}/{salt}")}
        twin.messages = [head, *self.messages[1:]]
        return twin

    def _next_text(self) -> str:
        scenario = self.scenario
        if not scenario.result:
            return self._write(scenario.ask)
        tool = scenario.tools[(self._turn - 1) % len(scenario.tools)] if scenario.tools else "tool"
        length = round(scenario.result * scenario.growth ** (self._turn - 1))
        return f"{tool}: {self._write(length)}"

    def _write(self, tokens: int) -> str:
        return write(self._pick, tokens, self.scenario.language)


def system_text(scenario: Scenario, base: str) -> str:
    """The instructions; they differ from any other base's from the first word on."""
    pick = random.Random(f"{base}/system")  # noqa: S311 - text, not secrets
    name = f"{pick.choice(('Vega', 'Altair', 'Rigel', 'Spica', 'Deneb', 'Mira'))}-{pick.randrange(16**8):08x}"
    return f"{name}: {write(pick, scenario.system, scenario.language)}"


def tools_of(scenario: Scenario, base: str) -> list[dict[str, Any]]:
    """The schemas of its tools, in OpenAI's shape."""
    pick = random.Random(f"{base}/tools")  # noqa: S311 - text, not secrets
    parameters = {
        "type": "object",
        "properties": {"target": {"type": "string"}},
    }
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": write(pick, DESCRIPTION, scenario.language),
                "parameters": parameters,
            },
        }
        for name in scenario.tools
    ]


def _spoken(reply: Reply) -> Message:
    message: Message = {"role": "assistant", "content": reply.text}
    if reply.calls:
        return {**message, "content": reply.text or None, "tool_calls": reply.calls}
    # Templates drop an empty turn, and some servers refuse one.
    return message if reply.text else {**message, "content": "OK."}


def encoded(body: dict[str, Any]) -> bytes:
    """A request's bytes, as most agents write them."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
