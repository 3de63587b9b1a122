"""Counters as backends report them, flattened to dotted paths; and their errors, as codes. Pure.

What a number means is not decided here but in `usage.py`, which knows the backend and its version.
"""

import json
import re

from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.dialects.base import UnparsedError

MAX_COUNTERS = 96  # the longest known usage object has 30
_GROUPS = (b"usage", b"timings", b"stats")
_CODE = re.compile(r"[A-Za-z0-9._:-]{1,64}")


def counters(prefix: str, raw: Raw | bytes) -> dict[str, float]:
    """All numbers of an object by dotted path; nulls, texts and everything that is no object are left out."""
    found: dict[str, float] = {}
    if cut.first_byte(raw) == b"{":
        try:
            _flatten(prefix, cut.value(raw), found, 3)
        except UnparsedError:
            return found
    return found


def _flatten(prefix: str, item: object, found: dict[str, float], depth: int) -> None:
    if isinstance(item, bool) or len(found) >= MAX_COUNTERS:
        return
    if isinstance(item, (int, float)):
        if abs(item) < 1e18:
            found[prefix] = float(item)
    elif isinstance(item, dict) and depth:
        for key, inner in item.items():
            _flatten(f"{prefix}.{key[:64]}", inner, found, depth - 1)


def tail_counters(tail: bytes) -> dict[str, float]:
    """The counters near the end of an answer that was too long to keep."""
    found: dict[str, float] = {}
    for group in _GROUPS:
        at = tail.rfind(b'"%b":' % group)
        if at >= 0:
            text = tail[at + len(group) + 3 :].decode("utf-8", "replace").lstrip()
            try:
                _flatten(group.decode(), json.JSONDecoder().raw_decode(text)[0], found, 3)
            except (ValueError, RecursionError):
                continue
    return found


def error_code(raw: Raw | bytes) -> str:
    """A backend's error as a short identifier: its code, its type, or that there was one; never its text."""
    try:
        error = cut.value(raw)
    except UnparsedError:
        return "backend_error"
    if not isinstance(error, dict):
        return "backend_error"
    inner = error.get("error")
    fields = inner if isinstance(inner, dict) else error
    codes = [fields.get("code"), fields.get("type")]
    codes.sort(key=lambda code: not isinstance(code, str))  # a name says more than a number
    for code in codes:
        if code is not None and not isinstance(code, bool) and _CODE.fullmatch(str(code)):
            return str(code)
    return "backend_error"
