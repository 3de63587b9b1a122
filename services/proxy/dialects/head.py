"""The first words of a system prompt, by which agents are known that name themselves nowhere else; pure."""

import re

from msgspec import Raw

from services.proxy.chunking import cut

HEAD_CHARS = 200

# The first text in a system slice: past short members such as role and type, at "content", "text" or itself.
_HEAD = re.compile(
    rb'(?:\[\s*)?(?:\{\s*(?:"[a-z_]+"\s*:\s*"[^"\\]{0,64}"\s*,\s*)*"(?:content|text)"\s*:\s*(?:\[\s*)?){0,2}"'
)

_TEXT = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*')


def head_of(raw: Raw | bytes) -> str:
    """The first characters of a system slice's first text, without decoding all of it; empty if unusual."""
    data = bytes(memoryview(raw)[: 14 * HEAD_CHARS])  # a character takes 12 bytes at most
    start = _HEAD.match(data)
    if start is None:
        return ""
    near = _text(data, start.end(), start.end() + 2 * HEAD_CHARS)  # enough of most texts
    return near if len(near) == HEAD_CHARS else _text(data, start.end(), len(data))


def _text(data: bytes, start: int, end: int) -> str:
    """The first characters of the text that begins at `start`, as far as it goes before `end`."""
    ended = _TEXT.match(data, start, end)
    text = ended[0] if ended else b""
    for spare in range(13):  # an escape pair cut in two is at most 12 bytes too long
        found = cut.text_of(b'"%b"' % text[: len(text) - spare])
        if found is not None:
            return found[:HEAD_CHARS]
    return ""
