"""Tool definitions in every API's shape, as sections and hashes; pure, owns no state.

The key order inside schemas is content, as received; the order of a definition's own keys is not. Definitions
without name or parameters (`web_search`) and nested ones (`namespace`) are ordinary cases.
"""

from hashlib import sha1
from typing import NamedTuple

import msgspec
from msgspec import Raw

from services.proxy import cut
from services.proxy.dialects.content import encode
from services.proxy.dialects.normal import digest
from services.proxy.prompt import Section


class ToolSet(NamedTuple):
    """All tools of a request without their text: `hash` in order, `set_hash` order-free."""

    hash: bytes
    set_hash: bytes
    size: int
    wide: int
    names: tuple[str, ...]
    length: int


_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
_OWN_KEYS = frozenset(
    {"name", "description", "function", "tools", "cache_control", "prompt_cache_breakpoint"}
)


def read_tools(raw: Raw | bytes) -> ToolSet:
    """Hash a `tools` array; raises `UnparsedError` when it is none."""
    hashes: list[bytes] = []
    names: list[str] = []
    size = wide = 0
    for item in cut.elements(raw):
        sections = tool_sections("", item)
        tool = digest("tool", sections)
        hashes.append(tool.hash)
        names.append(sections[0].label)
        size += tool.size
        wide += tool.wide
    joined = sha1(b"tools" + b"".join(hashes)).digest()
    unordered = sha1(b"tools" + b"".join(sorted(hashes))).digest()
    return ToolSet(joined, unordered, size, wide, tuple(names), len(hashes))


def tools_sections(raw: Raw | bytes) -> list[Section]:
    """The sections of a `tools` array, with whole paths; each is labelled with its tool's name."""
    sections = []
    for i, item in enumerate(cut.elements(raw)):
        sections += tool_sections(f"tools[{i}]", item)
    return sections


def tool_sections(path: str, raw: Raw | bytes) -> list[Section]:
    """One definition: name, description, parameters, nested tools, and all else as one JSON text."""
    fields = cut.members(raw)
    function = fields.get("function")
    if function is not None and cut.first_byte(function) == b"{":
        fields |= cut.members(function)
    name = cut.text_of(fields.get("name", cut.NONE)) or ""
    label = name or cut.text_of(fields.get("type", cut.NONE)) or ""
    sections = [Section(f"{path}.name", "name", encode(name), label)]
    if description := cut.text_of(fields.get("description", cut.NONE)):
        sections.append(Section(f"{path}.description", "text", encode(description), label))
    for key in _SCHEMA_KEYS:
        if key in fields:
            sections.append(Section(f"{path}.parameters", "json", bytes(fields[key]), label))
            break
    sections += _nested(path, fields)
    if rest := _rest(fields):
        sections.append(Section(path, "json", rest, label))
    return sections


def _nested(path: str, fields: dict[str, Raw]) -> list[Section]:
    sections: list[Section] = []
    if "tools" in fields and cut.is_set(fields["tools"]):
        for j, item in enumerate(cut.elements(fields["tools"])):
            sections += tool_sections(f"{path}.tools[{j}]", item)
    return sections


def _rest(fields: dict[str, Raw]) -> bytes:
    """Keys that a template may print as well, in an order of our own; `type: function` is the default."""
    rest = []
    for key in sorted(fields):
        data = bytes(fields[key])
        if key in _OWN_KEYS or key in _SCHEMA_KEYS or data in (b"null", b'"function"'):
            continue
        rest.append(b"%b:%b" % (msgspec.json.encode(key), data))
    return b"{%b}" % b",".join(rest) if rest else b""
