"""The hot path: chunks of common messages without building their sections. Pure.

A cold body of a thousand messages is read in milliseconds only if a message costs a microsecond or two. All
that is here gives what `digest(role, sections)` gives, and a property test holds it to that; shapes that are
not common return None and take the general way.
"""

from hashlib import sha1

import msgspec
from msgspec import Raw

from services.proxy.dialects.content import TEXT_TYPES, Block, Function, Message, json_text, message_role
from services.proxy.dialects.normal import wide_from
from services.proxy.prompt import Chunk

_string = msgspec.json.Decoder(str)


def text_chunk(index: int, role: str, text: str, raw: Raw) -> Chunk:
    """The chunk of a message that is one text."""
    data = text.encode()
    size = len(data)
    found = sha1(b"%b\n t %d\n%b" % (role.encode(), size, data)).digest()
    return Chunk("message", index, role, found, size, wide_from(size, len(text)), 0, bytes(raw))


def quick_chunk(index: int, message: Message, raw: Raw) -> Chunk | None:
    """The chunk of a turn: reasoning, content, calls."""
    content = message.content
    reasoning = message.reasoning_content or message.reasoning or message.thinking
    calls = message.tool_calls
    if content.__class__ is str and content and not reasoning and not calls:
        role = message.role
        return text_chunk(index, role if role in _ROLES else role.lower(), content, raw)  # type: ignore[arg-type]
    role = message_role(message)
    out = [role.encode()]
    chars = _text(out, b"\n.reasoning r %d\n", reasoning)
    if content.__class__ is list:
        added = _blocks(out, content)  # type: ignore[arg-type]
        if added < 0:
            return None
        chars += added
    else:
        chars += _text(out, b"\n t %d\n", content)  # type: ignore[arg-type]
    for k, call in enumerate(calls or ()):
        if call.function is None:
            return None
        chars += _call(out, b"\n.tool_calls[%d]" % k, call.function)
    return _finish(index, role, out, chars, raw)


_ROLES = frozenset({"user", "assistant", "system", "tool", "developer"})


def _text(out: list[bytes], head: bytes, text: str | None) -> int:
    """Add a text, if there is one; its characters."""
    if not text:
        return 0
    data = text.encode()
    out += (head % len(data), data)
    return len(text)


def call_chunk(index: int, call: Function, raw: Raw) -> Chunk:
    """The chunk of a call that is an item of its own."""
    out = [b"assistant"]
    return _finish(index, "assistant", out, _call(out, b"\n", call), raw)


def _finish(index: int, role: str, out: list[bytes], chars: int, raw: Raw) -> Chunk:
    size = sum(map(len, out[2::2]))
    found = sha1(b"".join(out)).digest()
    return Chunk(
        "message", index, role, found, size, wide_from(size, chars) if size != chars else 0, 0, bytes(raw)
    )


def _blocks(out: list[bytes], blocks: list[Block]) -> int:
    """Add blocks of text, thinking, tool use and plain tool results;
    their characters, or -1 for any other."""
    several = len(blocks) > 1 and sum(block.type not in _NOT_CONTENT for block in blocks) > 1
    chars = calls = 0
    for k, block in enumerate(blocks):
        kind = block.type
        path = b"\n.content[%d]" % k if several else b"\n"
        letter = b"t"
        if kind in TEXT_TYPES:
            text = block.text
        elif kind == "tool_use":
            call = Function(name=block.name, input=block.input)
            chars += _call(out, b"\n.tool_calls[%d]" % calls, call)
            calls += 1
            continue
        elif kind == "tool_result" and block.content.__class__ is str:
            text = block.content  # type: ignore[assignment]
        elif kind == "thinking":
            text, path, letter = block.thinking, b"\n.reasoning", b"r"
        else:
            return -1
        if not text:
            return -1
        data = text.encode()
        out += (b"%b %b %d\n" % (path, letter, len(data)), data)
        chars += len(text)
    return chars


_NOT_CONTENT = frozenset({"thinking", "redacted_thinking", "reasoning", "tool_use"})


def _call(out: list[bytes], path: bytes, call: Function) -> int:
    """Add a call's name and arguments; their characters."""
    chars = 0
    if call.name:
        name = call.name.encode()
        out += (b"%b.name n %d\n" % (path, len(name)), name)
        chars += len(call.name)
    arguments = _json(call.arguments) or _json(call.input)
    if arguments:
        out += (b"%b.arguments j %d\n" % (path, len(arguments)), arguments)
        chars += len(arguments) if arguments.isascii() else len(arguments.decode("utf-8", "replace"))
    return chars


def _json(raw: Raw) -> bytes:
    """`json_text`, in a fraction of its time for a string or an object."""
    data = bytes(raw)
    if data[:1] == b"{":
        return data
    if data[:1] == b'"':
        try:
            return data[1:-1] if b"\\" not in data else _string.decode(data).encode()
        except msgspec.DecodeError:
            return json_text(raw)
    return json_text(raw)
