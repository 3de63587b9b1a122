"""How the latest prompts were made up, chunk by chunk, for the strip that a request's page draws.

Owns a bounded memory of sizes and kinds, no text: rows keep only the chunks' hashes. A request that is older,
or that another process carried, is drawn from those, with all blocks alike.
"""

from array import array
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from services.proxy.flow import Flow
from services.proxy.placing.outline import CHUNK_HASH_BYTES, outline

# A 400-message prompt takes 2.5 KB, the usual one of 40 a tenth of that: about 2 MB, at most 10.
STRIPS = 4_096
HEX = 2 * CHUNK_HASH_BYTES


class Strip(NamedTuple):
    """Chunks in prompt order: one letter each for kind and role, and normalised bytes."""

    kinds: str
    roles: str
    sizes: "array[int]"


class Block(msgspec.Struct, kw_only=True):
    """One chunk as it is drawn. `share` of the strip's width, `tokens` estimated; None is unknown.

    `state`: ``reused`` (equal to the parent's, from the start on), ``changed`` (where it diverged), ``again``
    (behind that: prefilled again, though it may be equal).
    """

    index: int
    kind: str
    role: str
    share: float
    tokens: int | None
    state: str


class Strips:
    """Strips by request id, newest kept."""

    def __init__(self) -> None:
        self._strips: OrderedDict[str, Strip] = OrderedDict()

    def put(self, flow: Flow) -> None:
        """Remember a flow's prompt, if it had one."""
        prompt = flow.prompt
        if prompt is None or not prompt.chunks:
            return
        lines = outline(prompt)
        self._strips[flow.id] = Strip(lines.kinds, lines.roles, array("q", lines.sizes))
        if len(self._strips) > STRIPS:
            self._strips.popitem(last=False)

    def get(self, request_id: str) -> Strip | None:
        """The strip, None when it is not among the latest."""
        return self._strips.get(request_id)


def blocks_of(row: Mapping[str, Any], strip: Strip | None) -> list[Block]:
    """A row's chunks as they are drawn; without a strip all blocks are alike. Pure."""
    hashes = row.get("chunk_hashes") or ""
    number = len(strip.kinds) if strip else len(hashes) // HEX
    if not number:
        return []
    kinds, roles = (strip.kinds, strip.roles) if strip else (_kinds(row, number), "-" * number)
    sizes = [max(1, size) for size in strip.sizes] if strip else [1] * number
    total, prompt_tokens = sum(sizes), row.get("prompt_tokens") if strip else None
    states = _states(row, kinds)
    return [
        Block(
            index=place,
            kind=kinds[place],
            role=roles[place],
            share=size / total,
            tokens=None if prompt_tokens is None else round(prompt_tokens * size / total),
            state=states[place],
        )
        for place, size in enumerate(sizes)
    ]


def _states(row: Mapping[str, Any], kinds: str) -> list[str]:
    """What became of each chunk. Parameters count as reused only when they equal the parent's."""
    reused, compared = row.get("reused_chunks") or 0, row.get("parent_id") is not None
    places = [cause.get("at") or "" for cause in row.get("causes") or []]
    apart = kinds.startswith("p") and (not compared or any(at.startswith("params") for at in places))
    head = ["changed" if compared else "again"] if apart else []
    states = head + ["reused"] * min(reused, len(kinds) - len(head))
    if len(states) < len(kinds):
        states.append("changed" if compared else "again")
    return states + ["again"] * (len(kinds) - len(states))


def _kinds(row: Mapping[str, Any], number: int) -> str:
    """Kinds as far as a row tells: what stands before the messages is tools and system prompt."""
    messages = "m" * min(number, row.get("message_count") or number)
    head = number - len(messages)
    known = ("t" if row.get("tools_hash") else "") + ("s" if row.get("system_hash") else "")
    return ("p" * head + known)[-head:] + messages if head else messages
