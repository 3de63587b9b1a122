"""Where in a received Anthropic body a cache breakpoint can be put, as byte offsets; pure.

The body is cut, not rebuilt: an offset is where a slice of it lies. A body of another shape has no places,
nor has one in which the client set a breakpoint of its own, wherever that is.
"""

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.chunking.cut import NONE
from services.proxy.splicing.splice import Splice

KEY = b"cache_control"
CONTROL = b',"cache_control":{"type":"ephemeral"}'
OPEN_TEXT, CLOSE_TEXT = b'[{"type":"text","text":', CONTROL + b"}]"
# Blocks that are known to take a breakpoint. Thinking takes none, nor does an empty text.
MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result"})
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Block(msgspec.Struct, gc=False):
    """A block, a tool or a message: the members that decide about breakpoints."""

    type: str = ""
    role: str = ""
    text: str = ""
    content: Raw = NONE
    source: Raw = NONE
    defer_loading: bool = False
    cache_control: Raw = NONE


class _Body(msgspec.Struct, gc=False):
    tools: list[Raw] = []
    system: Raw = NONE
    messages: list[Raw] = []
    cache_control: Raw = NONE


_body = msgspec.json.Decoder(_Body)
_block = msgspec.json.Decoder(_Block)
_list = msgspec.json.Decoder(list[Raw])


class Places:
    """The places of one body."""

    def __init__(self, body: bytes, envelope: _Body) -> None:
        self._body = body
        self._envelope = envelope

    def tools(self) -> list[Splice]:
        """A breakpoint at the end of the tools; empty where none can be there.

        Tools that are loaded later are no part of the prompt's head, and take none.
        """
        for raw in reversed(self._envelope.tools):
            if not _block.decode(raw).defer_loading:
                return self._inside(raw)
        return []

    def system(self) -> list[Splice]:
        """One at the end of the system prompt."""
        return self._in_content(self._envelope.system)

    def message(self, index: int) -> list[Splice]:
        """One at the end of a message."""
        raw = self._envelope.messages[index]
        message = _block.decode(raw)
        return self._in_content(message.content) if message.role in ("user", "assistant") else []

    def _in_content(self, content: Raw) -> list[Splice]:
        """At the end of a text, or of the last block that takes one."""
        if cut.is_string(content):
            return self._around(content) if (cut.text_of(content) or "").strip() else []
        for raw in reversed(_list.decode(content) if cut.is_set(content) else []):
            block = _block.decode(raw)
            if block.type in MARKABLE and (block.type != "text" or block.text.strip()):
                return self._inside(raw)
        return []

    def _around(self, text: Raw) -> list[Splice]:
        """A text made an array of one block, which can carry what a text cannot; it means the same."""
        start = cut.offset(text, self._body)
        return [Splice(start, OPEN_TEXT), Splice(start + len(text), CLOSE_TEXT)]

    def _inside(self, raw: Raw) -> list[Splice]:
        """As the last member of an object that has others."""
        if cut.first_byte(raw) != b"{" or not bytes(raw)[1:-1].strip():
            return []
        return [Splice(cut.offset(raw, self._body) + len(raw) - 1, CONTROL)]


def places_of(body: bytes) -> Places | None:
    """The places of a body; None where it is to be left alone."""
    try:
        envelope = _body.decode(body)
        # The key is spelt out or with escapes; where neither is, no client's breakpoint can be.
        if (KEY in body or b"\\u" in body) and _has_own(envelope):
            return None
    except _BROKEN:
        return None
    return Places(body, envelope)


def _has_own(envelope: _Body) -> bool:
    """Whether a breakpoint is set wherever the API takes one, or the key stands there without one."""
    if envelope.cache_control:
        return True
    system = _list.decode(envelope.system) if cut.first_byte(envelope.system) == b"[" else []
    return any(_marked(raw) for raw in (*envelope.tools, *system, *envelope.messages))


def _marked(raw: Raw) -> bool:
    """Whether a block, or one inside its content or source, is marked."""
    if cut.first_byte(raw) != b"{":
        return False
    block = _block.decode(raw)
    if block.cache_control or (block.source and _marked(block.source)):
        return True
    inner = _list.decode(block.content) if cut.first_byte(block.content) == b"[" else []
    return any(_marked(item) for item in inner)
