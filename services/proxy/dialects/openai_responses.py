"""OpenAI's Responses API: every item of `input` is a chunk of its own, calls and their outputs included."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.chunking.cut import Spelling
from services.proxy.dialects import build
from services.proxy.dialects.base import Family
from services.proxy.dialects.content import (
    TEXT_TYPES,
    Block,
    Blocks,
    Function,
    call_sections,
    content_sections,
    encode,
)
from services.proxy.dialects.envelope import Envelope
from services.proxy.dialects.listed import ListDialect
from services.proxy.dialects.normal import BROKEN
from services.proxy.dialects.quick import call_chunk, text_chunk
from services.proxy.dialects.responses_answer import ResponsesReader
from services.proxy.dialects.tap import AnswerTap
from services.proxy.dialects.uncut import uncut_blocks, uncut_call, uncut_text
from services.proxy.prompt import Chunk, Prompt, Section


class ResponsesBody(Envelope, gc=False):
    """A body whose list is ``input``."""

    items: list[Raw] | str | None = msgspec.field(default=None, name="input")


class Item(msgspec.Struct, gc=False):
    """One item. Its `id`, `call_id` and `status` are not read: they reach no template."""

    type: str | None = None
    role: str | None = None
    name: str | None = None
    content: str | list[Block] | None = None
    arguments: Raw = cut.NONE
    input: Raw = cut.NONE
    output: str | list[Block] | None = None
    summary: list[Block] | None = None


class UncutItem(msgspec.Struct, gc=False):
    """An item with its texts uncut; the fields and types are those of `Item`."""

    type: str | None = None
    role: str | None = None
    name: str | None = None
    content: Raw = cut.NONE
    arguments: Raw = cut.NONE
    input: Raw = cut.NONE
    output: Raw = cut.NONE
    summary: Raw = cut.NONE


_item = msgspec.json.Decoder(Item)
_uncut_item = msgspec.json.Decoder(UncutItem)
_NOT_CONTENT = frozenset({"id", "call_id", "status", "type", "encrypted_content"})


class OpenAIResponses(ListDialect):
    """``POST /v1/responses``."""

    name = "openai_responses"
    family: Family = "openai"
    list_name = "input"
    envelope = msgspec.json.Decoder(ResponsesBody)

    def parts(self, envelope: Envelope) -> build.Parts:
        """Everything but the input."""
        return super().parts(envelope)._replace(system=envelope.instructions)

    def items(self, envelope: Envelope) -> list[Raw]:
        """The input's items; a plain text is one user message."""
        if isinstance(envelope.items, str):
            return [Raw(msgspec.json.encode({"role": "user", "content": envelope.items}))]
        return envelope.items or []

    def entry(self, raw: Raw | bytes) -> tuple[str, list[Section]]:
        """One item's role and sections; a call is `.name` and `.arguments`, an output the text itself."""
        item = cut.decode(_item, raw)
        if item.type in (None, "message"):
            return (item.role or "").lower(), content_sections(item.content, Blocks(raw))
        if item.type in ("function_call", "custom_tool_call"):
            call = Function(name=item.name, arguments=item.arguments, input=item.input)
            return "assistant", call_sections("", call)
        if item.type in ("function_call_output", "custom_tool_call_output"):
            return "tool", content_sections(item.output, Blocks(raw, "output"), "tool")
        if item.type == "reasoning":
            return "assistant", _thoughts(item)
        return _unknown(item.type or "", raw)

    def chunks(self, raws: Sequence[Raw], index: int, spelled: Spelling) -> list[Chunk]:
        """The chunks of items spelled like `spelled`, the first of which has the given index."""
        found = []
        read, read_uncut = _item.decode, _uncut_item.decode
        for i, raw in enumerate(raws, index):
            try:
                if spelled.ascii or bytes(raw).isascii():
                    chunk = _quick(i, read(raw), raw)
                else:
                    chunk = _uncut(i, read_uncut(raw), raw, spelled)
            except BROKEN:
                chunk = None
            found.append(chunk or self.any_chunk(i, raw))
        return found

    def system_content(self, raw: Raw) -> tuple[bool, Raw]:
        """Whether an item may be a system message, and its content where it is one."""
        try:
            item = _uncut_item.decode(raw)
        except BROKEN:
            return True, cut.NONE
        if (item.role or "").lower() not in build.SYSTEM_ROLES:
            return False, cut.NONE
        return True, item.content if _is_message(item) else cut.NONE

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> AnswerTap:
        """A listener for the answer."""
        del prompt, content_type
        return AnswerTap(ResponsesReader(self.opaque), content_encoding, lines=False)


def _quick(index: int, item: Item, raw: Raw) -> Chunk | None:
    """The chunk of a call, of a plain output, or of a message of one text."""
    if item.type == "function_call":
        return call_chunk(index, Function(name=item.name, arguments=item.arguments), raw)
    if item.type == "function_call_output" and isinstance(item.output, str) and item.output:
        return text_chunk(index, "tool", item.output, raw)
    if item.type in (None, "message") and isinstance(item.content, list) and len(item.content) == 1:
        block = item.content[0]
        if block.type in TEXT_TYPES and block.text:
            return text_chunk(index, (item.role or "").lower(), block.text, raw)
    return None


def _uncut(index: int, item: UncutItem, raw: Raw, spelled: Spelling) -> Chunk | None:
    """The chunk of a call, of a plain output, or of a message of common blocks."""
    if item.type == "function_call" and not (item.content or item.output or item.summary):
        return uncut_call(index, Function(name=item.name, arguments=item.arguments), raw, spelled)
    if item.type == "function_call_output" and not (item.content or item.summary):
        return uncut_text(index, "tool", item.output, raw, spelled) if cut.is_string(item.output) else None
    if not _is_message(item):
        return None
    role = (item.role or "").lower()
    if cut.is_string(item.content):
        return uncut_text(index, role, item.content, raw, spelled)
    chunk = uncut_blocks(index, role, item.content, raw, spelled)
    return chunk if chunk and chunk.role == role else None


def _is_message(item: UncutItem) -> bool:
    return item.type in (None, "message") and not (item.output or item.summary)


def _thoughts(item: Item) -> list[Section]:
    blocks = [*(item.summary or ()), *(item.content if isinstance(item.content, list) else ())]
    return [Section(".reasoning", "reasoning", encode(block.text)) for block in blocks if block.text]


def _unknown(kind: str, raw: Raw | bytes) -> tuple[str, list[Section]]:
    """Items of other types (web searches, shell calls): one JSON text of what is not an id."""
    fields = {key: item for key, item in cut.members(raw).items() if key not in _NOT_CONTENT}
    rest = b",".join(b"%b:%b" % (msgspec.json.encode(key), bytes(fields[key])) for key in sorted(fields))
    role = "tool" if kind.endswith("_output") else "assistant"
    return role, [Section("", "json", b"%b{%b}" % (encode(kind), rest))]
