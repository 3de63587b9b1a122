"""The answer as the message it amounts to, grown delta by delta; owns the bounded text of one answer."""

from typing import Literal

import msgspec

from services.proxy.chunking.cut import join_halves
from services.proxy.dialects.base import Reply
from services.proxy.dialects.content import encode
from services.proxy.dialects.normal import digest
from services.proxy.prompt import Section

MAX_REPLY = 1 << 20  # characters; the longest answers of local models are a tenth of it

PartKind = Literal["text", "reasoning", "call"]

# Keys of the parts of an answer that comes without numbers of its own, in the order in which templates print
# them; the second call is `CALLS` + 1, and so on.
REASONING, TEXT, CALLS = 0, 1, 16


class Part(msgspec.Struct, gc=False):
    """One block of an answer: a text, a reasoning, or a call with its name and arguments."""

    kind: PartKind
    name: str = ""
    pieces: list[str] = []

    @property
    def text(self) -> bytes:
        """All pieces in UTF-8; a character whose two surrogates came in two deltas is whole."""
        return encode(join_halves("".join(self.pieces)))


class ReplyParts:
    """Collects an answer's blocks by key; they stand in the order of their keys."""

    def __init__(self) -> None:
        self.parts: dict[int, Part] = {}
        self.truncated = False
        self._size = 0

    def add(self, key: int, kind: PartKind, text: str, name: str = "") -> None:
        """Append to the block `key`; over the bound only the fact is kept."""
        part = self.parts.get(key)
        if part is None:
            if len(self.parts) >= 1024:
                self.truncated = True
                return
            part = self.parts[key] = Part(kind)
        if name:
            part.name += name[:256]
        self._size += len(text)
        if self._size > MAX_REPLY:
            self.truncated = True
        elif text:
            part.pieces.append(text)

    def reply(self) -> Reply | None:
        """The blocks as sections of a message, by the rules of request content; None if nothing was said."""
        parts = [self.parts[key] for key in sorted(self.parts)]
        several = sum(part.kind == "text" for part in parts) > 1
        sections: list[Section] = []
        calls = 0
        for k, part in enumerate(parts):
            if part.kind == "call":
                sections += _call(f".tool_calls[{calls}]", part)
                calls += 1
            elif part.kind == "reasoning":
                sections.append(Section(".reasoning", "reasoning", part.text))
            else:
                sections.append(Section(f".content[{k}]" if several else "", "text", part.text))
        sections = [section for section in sections if section.text]
        return Reply(sections=sections, truncated=self.truncated) if sections else None


def _call(path: str, part: Part) -> list[Section]:
    return [
        Section(f"{path}.name", "name", encode(part.name)),
        Section(f"{path}.arguments", "json", part.text),
    ]


def output_hash(reply: Reply) -> str:
    """The hash by which two answers are the same, in hexadecimal."""
    return digest("assistant", reply.sections).hash.hex()
