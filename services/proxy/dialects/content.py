"""Message content in all the forms the APIs know, as sections; pure, owns no state.

One reader serves every dialect: the block types do not collide, and clients send one API's blocks to
another's route. Tool-call ids, signatures and `cache_control` are not read, so they are no content.
"""

import binascii
from hashlib import sha1

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.chunking.cut import NONE, is_set, text_of
from services.proxy.prompt import Section


class Block(msgspec.Struct, gc=False):
    """One content block of any API. Fields that are absent in a type stay None."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    data: str | None = None
    refusal: str | None = None
    name: str | None = None
    input: Raw = NONE
    content: "str | list[Block] | None" = None
    source: Raw = NONE
    image_url: Raw = NONE
    video_url: Raw = NONE
    input_audio: Raw = NONE
    file: Raw = NONE
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None


class Function(msgspec.Struct, gc=False):
    """The called function: arguments are a string in OpenAI's shape, an object in Ollama's."""

    name: str | None = None
    arguments: Raw = NONE
    input: Raw = NONE


class Call(msgspec.Struct, gc=False):
    """One entry of `tool_calls`."""

    function: Function | None = None
    custom: Function | None = None


class Message(msgspec.Struct, gc=False):
    """One entry of `messages` in any API that has them."""

    role: str = ""
    content: str | list[Block] | None = None
    name: str | None = None
    tool_name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    thinking: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None
    images: list[str] | None = None


def is_common(message: Message) -> bool:
    """Whether a message has nothing but role, content, reasoning and calls."""
    return (
        message.name is None
        and message.tool_name is None
        and message.images is None
        and message.function_call is None
        and message.refusal is None
    )


def message_role(message: Message) -> str:
    """The role in lower case; a turn that only carries tool results is the tool's, as everywhere else."""
    role = message.role.lower()
    content = message.content
    if content and content.__class__ is list and content[0].type == "tool_result":
        return "tool" if all(block.type == "tool_result" for block in content) else role
    return role


TEXT_TYPES = frozenset({"text", "input_text", "output_text", None})


class Blocks:
    """Content blocks as received, cut only when one of them is of a type that no API here has."""

    def __init__(self, raw: Raw | bytes, member: str = "content") -> None:
        self._raw, self._member = raw, member
        self._cut: list[Raw] | None = None

    def __getitem__(self, k: int) -> Raw:
        if self._cut is None:
            self._cut = cut.elements(cut.members(self._raw)[self._member])
        return self._cut[k]


def message_sections(message: Message, blocks: Blocks) -> list[Section]:
    """A message's sections in the order in which templates print them: author, reasoning, content, calls."""
    sections = []
    if name := message.name or message.tool_name:
        sections.append(Section(".name", "name", encode(name)))
    if reasoning := message.reasoning_content or message.reasoning or message.thinking:
        sections.append(Section(".reasoning", "reasoning", encode(reasoning)))
    label = "tool" if message.role == "tool" else ""
    sections += content_sections(message.content, blocks, label)
    if message.refusal:
        sections.append(Section(".refusal", "text", encode(message.refusal)))
    for k, image in enumerate(message.images or ()):
        sections.append(Section(f".images[{k}]", "media", media_digest(image)))
    calls = [call.function or call.custom for call in message.tool_calls or ()]
    if message.function_call:
        calls.append(message.function_call)
    for k, call in enumerate(calls):
        sections += call_sections(f".tool_calls[{k}]", call or Function())
    return sections


def call_sections(path: str, call: Function) -> list[Section]:
    """Name and arguments of one call; a call without arguments has none."""
    sections = [Section(f"{path}.name", "name", encode(call.name))] if call.name else []
    arguments = json_text(call.arguments) or json_text(call.input)
    return [*sections, Section(f"{path}.arguments", "json", arguments)] if arguments else sections


def content_sections(content: str | list[Block] | None, blocks: Blocks, label: str = "") -> list[Section]:
    """A content string or array; Anthropic's thinking and tool use come out as in the other dialects."""
    if not content:
        return []
    if isinstance(content, str):
        return [Section("", "text", encode(content), label)]
    several = sum(block.type not in NOT_CONTENT for block in content) > 1
    sections: list[Section] = []
    calls = 0
    for k, block in enumerate(content):
        if block.type == "tool_use":
            call = Function(name=block.name, input=block.input)
            sections += call_sections(f".tool_calls[{calls}]", call)
            calls += 1
        else:
            sections += block_sections(f".content[{k}]" if several else "", block, blocks, k, label)
    return sections


NOT_CONTENT = frozenset({"thinking", "redacted_thinking", "reasoning", "tool_use"})
MEDIA_TYPES = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "video_url", "file", "input_file",
     "document", None}
)  # fmt: skip
LONG = 4_096  # bytes from which a block of another type is taken for media, not for words
_NO_CONTENT = frozenset(
    {"cache_control", "prompt_cache_breakpoint", "id", "tool_use_id", "call_id", "signature"}
)


def _foreign(path: str, raw: Raw, label: str) -> Section:
    """A block of a type or shape that no API here has: all of it, as one JSON text in an order of our own."""
    fields = cut.members(raw)
    said = sorted(fields.keys() - _NO_CONTENT)
    text = b"{%b}" % b",".join(b"%b:%b" % (msgspec.json.encode(key), bytes(fields[key])) for key in said)
    if len(text) >= LONG:
        return Section(path, "media", sha1(text).digest(), label)
    return Section(path, "json", text, label)


def block_sections(path: str, block: Block, blocks: Blocks, k: int, label: str) -> list[Section]:
    """Block k, which is no call: its text, its thinking, its media, or the result it carries."""
    if block.type in NOT_CONTENT:
        thought = block.thinking or block.text or block.data
        return [Section(".reasoning", "reasoning", encode(thought))] if thought else []
    if block.type == "tool_result":
        nested = Blocks(blocks[k]) if isinstance(block.content, list) else blocks
        inner = content_sections(block.content, nested, "tool")
        return [Section(path + below, kind, text, "tool") for below, kind, text, _ in inner]
    if text := block.text or block.refusal:
        return [Section(path, "text", encode(text), label)]
    media = _block_media(block) if block.type in MEDIA_TYPES else None
    if media is not None:
        return [Section(path, "media", media, label)]
    if block.type in TEXT_TYPES or block.type == "refusal":
        return []  # it has no text
    return [_foreign(path, blocks[k], label)]


def _block_media(block: Block) -> bytes | None:
    for raw in (block.image_url, block.video_url, block.source, block.input_audio, block.file):
        if is_set(raw):
            return _media_of(raw)
    reference = block.file_data or block.file_url or block.file_id
    return media_digest(reference) if reference else None


class _Source(msgspec.Struct, gc=False):
    """Where media sits in the objects of the three APIs."""

    data: str | None = None
    url: str | None = None
    file_data: str | None = None
    file_id: str | None = None


_source = msgspec.json.Decoder(_Source)


def _media_of(raw: Raw) -> bytes:
    if (text := text_of(raw)) is not None:
        return media_digest(text)
    try:
        found = _source.decode(raw)
    except msgspec.DecodeError:
        return sha1(bytes(raw)).digest()
    reference = found.data or found.url or found.file_data or found.file_id
    return media_digest(reference) if reference else sha1(bytes(raw)).digest()


def media_digest(reference: str) -> bytes:
    """SHA-1 of the decoded bytes of base64 or a data URL; of the reference itself where it is an address."""
    data = reference
    if reference[:5] == "data:":
        head, _, data = reference.partition(",")
        if not head.endswith(";base64"):
            return sha1(encode(data)).digest()
    elif "://" in reference[:16]:
        return sha1(encode(reference)).digest()
    try:
        return sha1(binascii.a2b_base64(data)).digest()
    except ValueError:
        return sha1(encode(reference)).digest()


def json_text(raw: Raw) -> bytes:
    """Arguments or input: the decoded text of a string, else the received bytes; empty where absent."""
    if not is_set(raw):
        return b""
    text = text_of(raw)
    return bytes(raw) if text is None else encode(text)


def encode(text: str | None) -> bytes:
    """UTF-8; a lone surrogate, which only another parser can have left, keeps its three bytes."""
    return (text or "").encode("utf-8", "surrogatepass")
