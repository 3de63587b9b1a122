"""What the dialects with a list of messages have in common; owns no state.

Such a dialect names its envelope (a struct of raw slices), reads the envelope's `Parts`, and digests one item.
The analyser drives these pieces itself, so that a known head of the list needs no second reading.
"""

import secrets
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from services.proxy import cut
from services.proxy.dialects import build
from services.proxy.dialects.base import Family, UnparsedError
from services.proxy.dialects.content import Message, is_plain, message_sections
from services.proxy.dialects.normal import Digest, digest, digest_text
from services.proxy.dialects.tools import ToolSet, read_tools, tools_sections
from services.proxy.prompt import ChunkKind, Prompt, RequestKind, Section

HEAD_KEY = "head-" + secrets.token_hex(16)
"""Under this key the analyser puts the unread end of a list before the rest of a body; nobody can guess it."""


class Envelope(msgspec.Struct, gc=False):
    """A body with its values still raw; a dialect's own struct adds its fields and names the list."""

    items: list[Raw] | str | None = None
    head: list[Raw] | None = msgspec.field(default=None, name=HEAD_KEY)
    model: Raw = cut.NONE
    stream: Raw = cut.NONE


class ListDialect:
    """The request side of a dialect whose prompt is a list of messages."""

    name: str
    family: Family
    kind: RequestKind = "generation"
    list_name: str = "messages"
    envelope: ClassVar[msgspec.json.Decoder[Any]]

    def parts(self, envelope: Any) -> build.Parts:
        """Everything but the list."""
        raise NotImplementedError

    def items(self, envelope: Any) -> list[Raw]:
        """The list's items as received; raises `UnparsedError` where the list is no list."""
        items = envelope.items
        if isinstance(items, str):
            raise UnparsedError(f"{self.list_name} is no list")
        return items or []

    def entry(self, raw: Raw | bytes) -> tuple[str, list[Section]]:
        """One item's role and sections (paths below the item)."""
        message = cut.decode(_message, raw)
        return message.role.lower(), message_sections(message)

    def digests(self, raws: Sequence[Raw]) -> list[Digest]:
        """The digests of items, in order."""
        found = []
        read = _message.decode
        for raw in raws:
            try:
                message = read(raw)
            except msgspec.DecodeError:
                found.append(self.digest(raw))
                continue
            text = message.content
            if text.__class__ is str and text and is_plain(message):
                found.append(digest_text(_ROLES.get(message.role) or message.role.lower(), text))
            else:
                found.append(digest(message.role.lower(), message_sections(message)))
        return found

    def digest(self, raw: Raw) -> Digest:
        """The digest of one item."""
        role, sections = self.opaque(raw)
        return digest(role, sections)

    def opaque(self, raw: Raw | bytes) -> tuple[str, list[Section]]:
        """As `entry`, but an item of unknown shape is one JSON text; raises `UnparsedError` for no object."""
        try:
            return self.entry(raw)
        except UnparsedError:
            fields = cut.members(raw)
            role = cut.text_of(fields.get("role", cut.NONE)) or ""
            return role.lower(), [Section("", "json", bytes(raw))]

    def leading(self, field: Raw, items: list[Raw]) -> tuple[int, build.System | None]:
        """How many items belong to the system section, and that section with the API's own field before them."""
        raws: list[Raw] = []
        parts: list[list[Section]] = []
        if cut.is_set(field):
            raws.append(field)
            parts.append(self.system_part(field))
        lead = 0
        for raw in items:
            role, sections = self.opaque(raw)
            if role not in build.SYSTEM_ROLES:
                break
            raws.append(raw)
            parts.append(sections)
            lead += 1
        numbered = build.number_system(parts)
        return lead, build.System(digest("system", numbered), raws) if numbered else None

    def system_part(self, raw: Raw | bytes) -> list[Section]:
        """The sections of the system field's value, or of one leading message."""
        if cut.first_byte(raw) == b"{":
            return self.opaque(raw)[1]
        return self.opaque(b'{"content":%b}' % bytes(raw))[1]

    def read_tools(self, raw: Raw) -> ToolSet | None:
        """The tools of a request; None where there are none."""
        tools = read_tools(raw) if cut.is_set(raw) else None
        return tools if tools and tools.length else None

    def read(self, body: bytes, backend: str) -> Prompt:
        """Understand a body from nothing; raises `UnparsedError`."""
        envelope = cut.decode(self.envelope, body)
        parts = self.parts(envelope)
        items = self.items(envelope)
        lead, system = self.leading(parts.system, items)
        chunks = [
            build.message_chunk(lead + i, found, raw)
            for i, (found, raw) in enumerate(zip(self.digests(items[lead:]), items[lead:], strict=True))
        ]
        prompt = build.assemble(
            self.name, self.list_name, parts, self.read_tools(parts.tools), system, chunks
        )
        prompt.message_count = len(items)
        prompt.prefixes = build.chain(backend, parts.model, (chunk.hash for chunk in prompt.chunks))
        return prompt

    def sections(self, kind: ChunkKind, raw: bytes) -> list[Section]:
        """The sections of a chunk in prompt order, from the raw JSON it was cut from."""
        if kind == "params":
            return build.params_sections(raw)
        if kind == "tools":
            return tools_sections(raw)
        if kind == "system":
            return build.number_system([self.system_part(part) for part in cut.elements(raw)])
        return self.opaque(raw)[1]


_message = msgspec.json.Decoder(Message)
_ROLES = {role: role for role in ("user", "assistant", "system", "tool", "developer")}
