"""The hot path for messages that are not all ASCII: their chunks without decoding their texts. Pure.

As in `quick.py`, which reads the others, all that is here gives what `digest(role, sections)` gives, and
shapes that are not common return None. Decoding what is not ASCII costs three times as much as what is.
"""

from collections.abc import Sequence
from hashlib import sha1

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.chunking.cut import Spelling
from services.proxy.dialects.content import NOT_CONTENT, TEXT_TYPES, Call, Function
from services.proxy.dialects.normal import BROKEN, Digest, canonical, normal_of, wide_of
from services.proxy.dialects.quick import CALLS, MANY, OWN_CALL, ROLES
from services.proxy.prompt import Chunk


class UncutBlock(msgspec.Struct, gc=False):
    """A content block with its texts uncut; the fields and types are those of `Block`."""

    type: str | None = None
    text: Raw = cut.NONE
    thinking: Raw = cut.NONE
    data: str | None = None
    refusal: str | None = None
    name: str | None = None
    input: Raw = cut.NONE
    content: Raw = cut.NONE
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None


class UncutMessage(msgspec.Struct, gc=False):
    """A message with its texts uncut; the fields and types are those of `Message`."""

    role: str = ""
    content: Raw = cut.NONE
    name: str | None = None
    tool_name: str | None = None
    reasoning_content: Raw = cut.NONE
    reasoning: Raw = cut.NONE
    thinking: Raw = cut.NONE
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None
    images: list[str] | None = None


_blocks = msgspec.json.Decoder(list[UncutBlock])
_string = msgspec.json.Decoder(str)
_TEXT_OR_NULL = (b'"', b"n")


def uncut_chunk(index: int, message: UncutMessage, raw: Raw, spelled: Spelling) -> Chunk | None:
    """The chunk of a turn with nothing but role, content, reasoning and calls."""
    if not _is_common(message):
        return None
    role = message.role
    if role not in ROLES:
        role = role.lower()
    content = message.content
    kind = cut.first_byte(content)
    if _has_more(message):
        return _turn(index, role, message, raw, spelled) if kind != b"[" else None
    if kind == b'"':
        return uncut_text(index, role, content, raw, spelled)
    return uncut_blocks(index, role, content, raw, spelled) if kind == b"[" else None


def is_plain(message: UncutMessage) -> bool:
    """Whether a message has nothing but role and content."""
    return _is_common(message) and not _has_more(message)


def _is_common(message: UncutMessage) -> bool:
    return (
        message.name is None
        and message.tool_name is None
        and message.images is None
        and message.function_call is None
        and message.refusal is None
    )


def _has_more(message: UncutMessage) -> bool:
    return bool(message.tool_calls or message.reasoning_content or message.reasoning or message.thinking)


def system_digest(contents: Sequence[Raw], spelled: Spelling) -> Digest | None:
    """The digest of a system section of common texts; None where there is anything else, or nothing."""
    texts: list[Raw] = []
    turn = _Pieces("system", spelled)
    try:
        for content in contents:
            if cut.is_string(content):
                texts.append(content)
            else:
                blocks = _blocks.decode(content)
                if not all(block.type in TEXT_TYPES and block.text and _is_single(block) for block in blocks):
                    return None
                texts += [block.text for block in blocks]
        several = len(texts) > 1
        whole = all(
            turn.text(b"\nsystem[%d] t" % k if several else b"\nsystem t", text)
            for k, text in enumerate(texts)
        )
    except BROKEN:
        return None
    return turn.digest() if whole and texts else None


def _is_single(block: UncutBlock) -> bool:
    """Whether a block has one text; with more it might not be what it says."""
    return bool(block.text) + bool(block.content) + bool(block.thinking) == 1


def uncut_text(index: int, role: str, content: Raw | bytes, raw: Raw, spelled: Spelling) -> Chunk | None:
    """The chunk of a message that is one text."""
    try:
        data, size, wide = canonical(content, spelled)
    except BROKEN:
        return None
    if not size:
        return None
    found = sha1(b"%b\n t %d\n%b" % (role.encode(), len(data), data)).digest()
    return Chunk("message", index, role, found, size, wide, 0, raw)


def uncut_blocks(index: int, role: str, content: Raw, raw: Raw, spelled: Spelling) -> Chunk | None:
    """The chunk of a message that is blocks of text, thinking, tool use and plain tool results."""
    try:
        blocks = _blocks.decode(content)
        if not blocks:
            return None
        if blocks[0].type == "tool_result":
            role = "tool" if all(block.type == "tool_result" for block in blocks) else role
        if len(blocks) == 1 and (text := _text_of(blocks[0])):
            return uncut_text(index, role, text, raw, spelled)
        turn = _Pieces(role, spelled)
        return turn.chunk(index, raw) if turn.blocks(blocks) else None
    except BROKEN:
        return None


def uncut_call(index: int, call: Function, raw: Raw, spelled: Spelling) -> Chunk | None:
    """The chunk of a call that is an item of its own."""
    turn = _Pieces("assistant", spelled)
    try:
        return (
            turn.chunk(index, raw) if turn.call(OWN_CALL, call.name, call.arguments or call.input) else None
        )
    except BROKEN:
        return None


def _turn(index: int, role: str, message: UncutMessage, raw: Raw, spelled: Spelling) -> Chunk | None:
    """The chunk of a turn whose content is a text, or nothing, beside reasoning or calls."""
    turn = _Pieces(role, spelled)
    calls: Sequence[Call] = message.tool_calls or ()
    if len(calls) > MANY:
        return None
    try:
        if (message.reasoning_content or message.reasoning or message.thinking) and not _reasoning(
            turn, message
        ):
            return None
        if message.content:
            turn.text(b"\n t", message.content)
        for heads, call in zip(CALLS, calls, strict=False):
            if call.function is None or not turn.call(
                heads, call.function.name, call.function.arguments or call.function.input
            ):
                return None
    except BROKEN:
        return None
    return turn.chunk(index, raw)


def _reasoning(turn: "_Pieces", message: UncutMessage) -> bool:
    """Add the first reasoning that there is; False where one of them is neither text nor null."""
    thoughts = [raw for raw in (message.reasoning_content, message.reasoning, message.thinking) if raw]
    if any(cut.first_byte(thought) not in _TEXT_OR_NULL for thought in thoughts):
        return False
    for thought in thoughts:
        if turn.text(b"\n.reasoning r", thought):
            break
    return True


class _Pieces:
    """The bytes that a chunk's hash is of, growing. What adds to them may raise one of `BROKEN`."""

    __slots__ = ("out", "role", "size", "spelled", "wide")

    def __init__(self, role: str, spelled: Spelling) -> None:
        self.role = role
        self.spelled = spelled
        self.out: list[bytes] = [role.encode()]
        self.size = 0
        self.wide = 0

    def text(self, head: bytes, raw: Raw) -> bool:
        """Add a JSON string, or null; False where there is no text in it."""
        if len(raw) == len(b"null") and bytes(raw) == b"null":
            return False
        data, size, wide = canonical(raw, self.spelled)
        if size:
            self.out.append(b"%b %d\n%b" % (head, len(data), data))
            self.size += size
            self.wide += wide
        return bool(size)

    def call(self, heads: tuple[bytes, bytes], name: str | None, arguments: Raw) -> bool:
        """Add a call with a name and arguments; False where it is not that."""
        data = bytes(arguments)
        if data[:1] == b'"':
            data = _string.decode(data).encode()
        elif data[:1] != b"{":
            return False
        if not name or not data:
            return False
        label, length, wide = normal_of(name)
        self.out.append(b"%b %d\n%b%b %d\n%b" % (heads[0], len(label), label, heads[1], len(data), data))
        self.size += length + len(data)
        self.wide += wide + wide_of(data, len(data))
        return True

    def digest(self) -> Digest:
        """What was added, as a chunk of the role."""
        return Digest(self.role, sha1(b"".join(self.out)).digest(), self.size, self.wide, 0)

    def chunk(self, index: int, raw: Raw) -> Chunk:
        """The same as the chunk of a message."""
        return Chunk(
            "message", index, self.role, sha1(b"".join(self.out)).digest(), self.size, self.wide, 0, raw
        )

    def blocks(self, blocks: list[UncutBlock]) -> bool:
        """Add blocks; False where there is an uncommon one."""
        several = len(blocks) > 1 and sum([block.type not in NOT_CONTENT for block in blocks]) > 1
        calls = 0
        for k, block in enumerate(blocks):
            if block.type == "tool_use":
                if block.text or block.thinking or block.content or calls == MANY:
                    return False
                if not self.call(CALLS[calls], block.name, block.input):
                    return False
                calls += 1
            elif not self._block(b"\n.content[%d] t" % k if several else b"\n t", block):
                return False
        return True

    def _block(self, head: bytes, block: UncutBlock) -> bool:
        if block.type == "thinking":
            raw, head = block.thinking, b"\n.reasoning r"
            return _is_single(block) and cut.is_string(raw) and self.text(head, raw)
        text = _text_of(block)
        return bool(text) and self.text(head, text)


def _text_of(block: UncutBlock) -> Raw:
    """The JSON string of a block of text or a plain tool result; empty for any other block."""
    if block.type in TEXT_TYPES:
        raw = block.text
    elif block.type == "tool_result":
        raw = block.content
    else:
        return cut.NONE
    return raw if cut.is_string(raw) and _is_single(block) else cut.NONE
