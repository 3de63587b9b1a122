"""What the dialects with one prompt text have in common; pure, owns no state.

The prompt is one chunk. Its raw form is an object of the members that make it up, so that its sections can be
read again: the text, and where they are sent a suffix, a template, Ollama's old context and images.
"""

from typing import ClassVar

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.chunking.cut import Spelling
from services.proxy.dialects import build
from services.proxy.dialects.base import Family
from services.proxy.dialects.content import encode, media_digest
from services.proxy.dialects.envelope import Envelope
from services.proxy.dialects.listed import ListDialect
from services.proxy.dialects.normal import digest, text_digest
from services.proxy.prompt import Chunk, ChunkKind, Prompt, RequestKind, Section

_PARTS = ("prompt", "suffix", "template", "context", "images")


class PromptDialect:
    """The request side of a dialect whose prompt is a text (or tokens)."""

    name: str
    family: Family = "openai"
    kind: RequestKind = "generation"
    list_name: str = "messages"
    envelope: ClassVar[msgspec.json.Decoder[Envelope]] = msgspec.json.Decoder(Envelope)

    def parts(self, envelope: Envelope) -> build.Parts:
        """Everything but the prompt; tools reach no template on these routes."""
        return _LISTED.parts(envelope)

    def read(self, body: bytes, backend: str) -> Prompt:
        """Understand a body; raises `UnparsedError`."""
        envelope = cut.decode(self.envelope, body)
        spelled = cut.spelling(body)
        parts = self.parts(envelope)
        system = _system(parts.system, spelled)
        chunks = [] if parts.kind == "management" else [_prompt_chunk(envelope, spelled)]
        prompt = build.assemble(self.name, self.list_name, parts, tools=None, system=system, messages=chunks)
        prompt.first_hash = None
        prompt.prefixes = build.chain(backend, parts.model, (chunk.hash for chunk in prompt.chunks))
        return prompt

    def sections(self, kind: ChunkKind, raw: bytes) -> list[Section]:
        """The sections of a chunk in prompt order."""
        if kind == "params":
            return build.params_sections(raw)
        if kind == "system":
            return build.number_system([_LISTED.system_part(part) for part in cut.elements(raw)])
        return _prompt_sections(cut.members(raw))


_LISTED = ListDialect()  # where both kinds of bodies are alike


def _system(raw: Raw, spelled: Spelling) -> build.System | None:
    if not cut.is_string(raw):
        return None
    found = text_digest("system", "system", raw, spelled)
    if found is None and cut.text_of(raw):
        found = digest("system", build.number_system([_LISTED.system_part(raw)]))
    return build.System(found, [raw]) if found else None


def _prompt_chunk(envelope: Envelope, spelled: Spelling) -> Chunk:
    fields = {name: getattr(envelope, name) for name in _PARTS if cut.is_set(getattr(envelope, name))}
    plain = fields.keys() == {"prompt"} and cut.is_string(fields["prompt"])
    found = text_digest("prompt", "prompt", fields["prompt"], spelled) if plain else None
    found = found or digest("prompt", _prompt_sections(fields))
    raw = b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), bytes(item)) for name, item in fields.items())
    return Chunk("prompt", -1, "user", found.hash, found.size, found.wide, found.media, raw)


def _prompt_sections(fields: dict[str, Raw]) -> list[Section]:
    sections = []
    for name, raw in fields.items():
        path = "prompt" if name == "prompt" else f"prompt.{name}"
        if name == "images":
            sections += _images(path, raw)
        else:
            sections += _text(path, raw)
    return sections


def _text(path: str, raw: Raw) -> list[Section]:
    """A text; a list of one text is that text; tokens and everything else are JSON as received."""
    text = cut.text_of(raw)
    if text is None and cut.first_byte(raw) == b"[":
        items = cut.elements(raw)
        text = cut.text_of(items[0]) if len(items) == 1 else None
    if text is None:
        return [Section(path, "json", bytes(raw))]
    return [Section(path, "text", encode(text))] if text else []


def _images(path: str, raw: Raw) -> list[Section]:
    items = cut.elements(raw) if cut.first_byte(raw) == b"[" else []
    texts = [cut.text_of(item) for item in items]
    return [Section(f"{path}[{k}]", "media", media_digest(text)) for k, text in enumerate(texts) if text]
