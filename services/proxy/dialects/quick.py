"""The hot path: chunks of common messages without building their sections. Pure.

A cold body of a thousand messages is read in milliseconds only if a message costs a microsecond or two. All
that is here gives what `digest(role, sections)` gives, and a property test holds it to that; shapes that are
not common return None and take the general way.
"""

from collections.abc import Sequence
from hashlib import sha1

import msgspec
from msgspec import Raw

from services.proxy.dialects.content import (
    NOT_CONTENT,
    TEXT_TYPES,
    Block,
    Call,
    Function,
    Message,
    message_role,
)
from services.proxy.dialects.normal import normal_of, wide_of
from services.proxy.prompt import Chunk

ROLES = frozenset({"user", "assistant", "system", "tool", "developer"})
MANY = 16  # calls in one turn; more are not common
# What stands before name and arguments of a call, by its place in the turn, and of one that is an item.
CALLS = [(b"\n.tool_calls[%d].name n" % k, b"\n.tool_calls[%d].arguments j" % k) for k in range(MANY)]
OWN_CALL = (b"\n.name n", b"\n.arguments j")
_CALL_FORMATS = [b"%b %%d\n%%b%b %%d\n%%b" % heads for heads in CALLS]

_string = msgspec.json.Decoder(str)


def text_chunk(index: int, role: str, text: str, raw: Raw) -> Chunk:
    """The chunk of a message that is one text."""
    data, size, wide = normal_of(text)
    found = sha1(b"%b\n t %d\n%b" % (role.encode(), len(data), data)).digest()
    return Chunk("message", index, role, found, size, wide, 0, raw)


def quick_chunk(index: int, message: Message, raw: Raw) -> Chunk | None:
    """The chunk of a turn: reasoning, content, calls."""
    content = message.content
    reasoning = message.reasoning_content or message.reasoning or message.thinking
    calls = message.tool_calls
    role = message.role
    if role not in ROLES:
        role = role.lower()
    if isinstance(content, list):
        if reasoning or calls:
            return None
        turn = _Turn(message_role(message))
        return turn.chunk(index, raw) if _blocks(turn, content) else None
    if content and not calls and not reasoning:
        return text_chunk(index, role, content, raw)
    return _turn_chunk(index, role, reasoning or "", content or "", calls=calls or (), raw=raw)


def _turn_chunk(
    index: int, role: str, reasoning: str, content: str, *, calls: Sequence[Call], raw: Raw
) -> Chunk | None:
    """The chunk of a turn whose content is a text, with the loop over its calls written out."""
    out = role.encode()
    size = wide = 0
    if reasoning:
        data, size, wide = normal_of(reasoning)
        out += b"\n.reasoning r %d\n%b" % (len(data), data)
    if content:
        data, length, broad = normal_of(content)
        out += b"\n t %d\n%b" % (len(data), data)
        size, wide = size + length, wide + broad
    if len(calls) > MANY:
        return None
    for k, call in enumerate(calls):
        function = call.function
        try:
            data = _string.decode(function.arguments).encode()  # type: ignore[union-attr]
            first, length, broad = normal_of(function.name)  # type: ignore[union-attr, arg-type]
        except (msgspec.DecodeError, AttributeError):
            return None
        if not length or not data:
            return None
        out += _CALL_FORMATS[k] % (len(first), first, len(data), data)
        size, wide = size + length + len(data), wide + broad + wide_of(data, len(data))
    return Chunk("message", index, role, sha1(out).digest(), size, wide, 0, raw)


class _Turn:
    """The bytes that a chunk's hash is of, growing."""

    __slots__ = ("out", "role", "size", "wide")

    def __init__(self, role: str) -> None:
        self.role = role
        self.out = role.encode()
        self.size = 0
        self.wide = 0

    def add(self, head: bytes, text: str) -> None:
        data, size, wide = normal_of(text)
        self.out += b"%b %d\n%b" % (head, len(data), data)
        self.size += size
        self.wide += wide

    def add_json(self, head: bytes, data: bytes) -> None:
        self.out += b"%b %d\n%b" % (head, len(data), data)
        self.size += len(data)
        self.wide += wide_of(data, len(data))

    def chunk(self, index: int, raw: Raw) -> Chunk:
        return Chunk("message", index, self.role, sha1(self.out).digest(), self.size, self.wide, 0, raw)


def call_chunk(index: int, call: Function, raw: Raw) -> Chunk | None:
    """The chunk of a call that is an item of its own."""
    turn = _Turn("assistant")
    return turn.chunk(index, raw) if _call(turn, OWN_CALL, call) else None


def _call(turn: _Turn, heads: tuple[bytes, bytes], call: Function) -> bool:
    """Add a call with a name and arguments; False where it is not that."""
    raw = call.arguments or call.input
    if not call.name or not raw:
        return False
    turn.add(heads[0], call.name)
    try:
        text = _string.decode(raw)
    except msgspec.ValidationError:
        data = bytes(raw)
        if data[:1] != b"{":
            return False
        turn.add_json(heads[1], data)
    except msgspec.DecodeError:
        return False
    else:
        if not text:
            return False
        turn.add(heads[1], text)
    return True


def _blocks(turn: _Turn, blocks: list[Block]) -> bool:
    """Add blocks of text, thinking, tool use and plain tool results; False where there is any other."""
    several = len(blocks) > 1 and sum([block.type not in NOT_CONTENT for block in blocks]) > 1
    calls = 0
    for k, block in enumerate(blocks):
        kind = block.type
        head = b"\n.content[%d] t" % k if several else b"\n t"
        if kind in TEXT_TYPES:
            text = block.text
        elif kind == "tool_use":
            data = bytes(block.input)
            if not block.name or data[:1] != b"{" or calls == MANY:
                return False
            turn.add(CALLS[calls][0], block.name)
            turn.add_json(CALLS[calls][1], data)
            calls += 1
            continue
        elif kind == "tool_result" and block.content.__class__ is str:
            text = block.content
        elif kind == "thinking":
            text, head = block.thinking, b"\n.reasoning r"
        else:
            return False
        if not text:
            return False
        turn.add(head, text)
    return True
