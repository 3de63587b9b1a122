"""What the dialects with a list of messages have in common; owns no state.

Such a dialect names its list, says where the API's system field is, and reads one item. The analyser drives
these pieces itself, so that a known head of the list needs no second reading.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.chunking.cut import Spelling
from services.proxy.dialects import build
from services.proxy.dialects.base import Family, UnparsedError
from services.proxy.dialects.content import Blocks, Message, is_common, message_role, message_sections
from services.proxy.dialects.envelope import Envelope, engine_of, hints_of, model_of, params_of
from services.proxy.dialects.normal import BROKEN, digest
from services.proxy.dialects.quick import quick_chunk
from services.proxy.dialects.tools import ToolSet, read_tools, tools_sections
from services.proxy.dialects.uncut import UncutMessage, is_plain, system_digest, uncut_chunk
from services.proxy.prompt import Chunk, ChunkKind, Prompt, RequestKind, Section


class MessagesBody(Envelope, gc=False):
    """A body whose list is ``messages``."""

    items: list[Raw] | str | None = msgspec.field(default=None, name="messages")


class ListDialect:
    """The request side of a dialect whose prompt is a list of messages."""

    name: str
    family: Family
    kind: RequestKind = "generation"
    list_name: str = "messages"
    envelope: ClassVar[msgspec.json.Decoder[Envelope]] = msgspec.json.Decoder(MessagesBody)

    def parts(self, envelope: Envelope) -> build.Parts:
        """Everything but the list; this is OpenAI's."""
        return build.Parts(
            kind="generation",
            model=model_of(envelope),
            stream=cut.flag_of(envelope.stream) is True,
            params=params_of(envelope),
            tools=envelope.tools,
            system=cut.NONE,
            hints=hints_of(envelope),
            engine=engine_of(envelope),
        )

    def items(self, envelope: Envelope) -> list[Raw]:
        """The list's items as received; raises `UnparsedError` where the list is no list."""
        if isinstance(envelope.items, str):
            raise UnparsedError(f"{self.list_name} is no list")
        return envelope.items or []

    def entry(self, raw: Raw | bytes) -> tuple[str, list[Section]]:
        """One item's role and sections (paths below the item); raises `UnparsedError`."""
        message = cut.decode(_message, raw)
        return message_role(message), message_sections(message, Blocks(raw))

    def opaque(self, raw: Raw | bytes) -> tuple[str, list[Section]]:
        """As `entry`, but an item of unknown shape is one JSON text; raises `UnparsedError` for no object."""
        try:
            return self.entry(raw)
        except UnparsedError:
            fields = cut.members(raw)
            role = cut.text_of(fields.get("role", cut.NONE)) or ""
            return role.lower(), [Section("", "json", bytes(raw))]

    def chunks(self, raws: Sequence[Raw], index: int, spelled: Spelling) -> list[Chunk]:
        """The chunks of items spelled like `spelled`, the first of which has the given index."""
        found = []
        ascii_ = spelled.ascii
        read, read_uncut = _message.decode, _uncut.decode
        for i, raw in enumerate(raws, index):
            try:
                if ascii_ or bytes(raw).isascii():
                    message = read(raw)
                    chunk = quick_chunk(i, message, raw) if is_common(message) else None
                else:
                    chunk = uncut_chunk(i, read_uncut(raw), raw, spelled)
            except BROKEN:
                chunk = None
            found.append(chunk or self.any_chunk(i, raw))
        return found

    def any_chunk(self, index: int, raw: Raw) -> Chunk:
        """The chunk of an item of any shape."""
        return build.message_chunk(index, digest(*self.opaque(raw)), raw)

    def leading(self, field: Raw, items: list[Raw], spelled: Spelling) -> tuple[int, build.System | None]:
        """How many items belong to the system section, and that section, the API's own field first."""
        contents = [field] if cut.is_set(field) else []
        raws = contents.copy()
        for raw in items:
            may_be, content = self.system_content(raw)
            if not may_be:
                break
            raws.append(raw)
            contents.append(content)
        found = system_digest(contents, spelled) if contents else None
        if found or not contents:
            return len(raws) - cut.is_set(field), build.System(found, raws) if found else None
        return self._leading(field, items)

    def system_content(self, raw: Raw) -> tuple[bool, Raw]:
        """Whether an item may be a system message, and its content where it is and has nothing else."""
        try:
            message = _uncut.decode(raw)
        except BROKEN:
            return True, cut.NONE
        if message.role.lower() not in build.SYSTEM_ROLES:
            return False, cut.NONE
        return True, message.content if is_plain(message) else cut.NONE

    def _leading(self, field: Raw, items: list[Raw]) -> tuple[int, build.System | None]:
        """The same for several texts, or a text in an uncommon shape."""
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
        return ListDialect.opaque(self, b'{"content":%b}' % bytes(raw))[1]

    def read_tools(self, raw: Raw) -> ToolSet | None:
        """The tools of a request; None where there are none."""
        tools = read_tools(raw) if cut.is_set(raw) else None
        return tools if tools and tools.length else None

    def read(self, body: bytes, backend: str) -> Prompt:
        """Understand a body from nothing; raises `UnparsedError`."""
        envelope = cut.decode(self.envelope, body)
        spelled = cut.spelling(body)
        parts = self.parts(envelope)
        items = self.items(envelope)
        lead, system = self.leading(parts.system, items, spelled)
        chunks = self.chunks(items[lead:], lead, spelled)
        prompt = build.assemble(
            self.name,
            self.list_name,
            parts,
            tools=self.read_tools(parts.tools),
            system=system,
            messages=chunks,
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
_uncut = msgspec.json.Decoder(UncutMessage)
