"""JSON text made readable for recognisers that look for words in raw bytes. Pure."""

import re

_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")


def readable(raw: bytes) -> bytes:
    r"""Raw JSON with its ``\uXXXX`` escapes written out, as many clients send all but ASCII."""
    return _ESCAPE.sub(_character, raw) if b"\\u" in raw else raw


def _character(found: re.Match[bytes]) -> bytes:
    return chr(int(found[1], 16)).encode("utf-8", "surrogatepass")
