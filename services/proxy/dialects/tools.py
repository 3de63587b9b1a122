"""Tool definitions in every API's shape, as sections and hashes; pure, owns no state.

The key order inside schemas is content, as received; the order of a definition's own keys is not. Definitions
without name or parameters (`web_search`) and nested ones (`namespace`) are ordinary cases.
"""

from hashlib import sha1
from typing import Literal, NamedTuple

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.dialects.content import encode
from services.proxy.dialects.normal import BROKEN, Digest, digest, normal_of, wide_of
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
    {"name", "description", "function", "custom", "tools", "cache_control", "prompt_cache_breakpoint"}
)


def read_tools(raw: Raw | bytes) -> ToolSet:
    """Hash a `tools` array; raises `UnparsedError` when it is none."""
    hashes: list[bytes] = []
    names: list[str] = []
    size = wide = 0
    items = cut.elements(raw)
    decoder = _plain_chat if items and b'"function":' in bytes(items[0])[:40] else _plain
    for item in items:
        label, tool = _quick(item, decoder) or _any(item)
        hashes.append(tool.hash)
        names.append(label)
        size += tool.size
        wide += tool.wide
    joined = sha1(b"tools" + b"".join(hashes)).digest()
    unordered = sha1(b"tools" + b"".join(sorted(hashes))).digest()
    return ToolSet(joined, unordered, size, wide, tuple(names), len(hashes))


def _any(item: Raw) -> tuple[str, Digest]:
    sections = tool_sections("", item)
    return sections[0].label, digest("tool", sections)


class _Plain(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A definition without anything uncommon: OpenAI's function, Anthropic's tool, or the Responses API's."""

    name: str
    description: str
    parameters: Raw = cut.NONE
    input_schema: Raw = cut.NONE
    strict: Raw = cut.NONE
    type: Literal["function"] = "function"
    cache_control: Raw = cut.NONE


class _ChatTool(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: Literal["function"]
    function: _Plain


_Decoder = msgspec.json.Decoder[_Plain] | msgspec.json.Decoder[_ChatTool]
_plain_chat = msgspec.json.Decoder(_ChatTool)
_plain = msgspec.json.Decoder(_Plain)


def _quick(item: Raw, decoder: _Decoder) -> tuple[str, Digest] | None:
    """The hot path for definitions of name, description and schema; None for any other."""
    try:
        found = decoder.decode(item)
    except BROKEN:
        return None
    tool = found.function if isinstance(found, _ChatTool) else found
    about, size, wide = normal_of(tool.description)
    schema = bytes(tool.parameters or tool.input_schema)
    if not size or not schema or (tool.parameters and tool.input_schema):
        return None
    label, length, broad = normal_of(tool.name)
    heads = (len(label), label, len(about), about, len(schema), schema)
    out = b"tool\n.name n %d\n%b\n.description t %d\n%b\n.parameters j %d\n%b" % heads
    wide += broad + wide_of(schema, len(schema))
    size += length + len(schema)
    if cut.is_set(tool.strict):
        rest = b'{"strict":%b}' % bytes(tool.strict)
        out += b"\n j %d\n%b" % (len(rest), rest)
        size += len(rest)
        wide += wide_of(rest, len(rest))
    return tool.name, Digest("tool", sha1(out).digest(), size, wide, 0)


def tools_sections(raw: Raw | bytes) -> list[Section]:
    """The sections of a `tools` array, with whole paths; each is labelled with its tool's name."""
    sections = []
    for i, item in enumerate(cut.elements(raw)):
        sections += tool_sections(f"tools[{i}]", item)
    return sections


def tool_sections(path: str, raw: Raw | bytes) -> list[Section]:
    """One definition: name, description, parameters, nested tools, and all else as one JSON text."""
    fields = cut.members(raw)
    function = fields.get("function") or fields.get("custom")
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
