"""Takes secrets out of the copies of bodies that a user wants kept. Pure.

A best effort, in that order: the very credentials the request came with, members of JSON that are named like
secrets, and texts that look like keys. A secret that an answer spells token by token stands in pieces between
framing, and stays.
"""

import re
from collections.abc import Iterable

MASK = b"***"
# Shorter ones (a placeholder such as "x", a scheme such as "Bearer") stand in too many texts.
LEAST = 8
# Each begins with fixed letters, so that a search is fast and holds up other threads for a moment only.
_NAMES = (
    b"api_key", b"apikey", b"api-key", b"apiKey", b"token", b"Token", b"secret", b"Secret", b"password",
    b"uthorization",
)  # fmt: skip
_MEMBERS = [re.compile(re.escape(name) + rb'(\\*"\s*:\s*\\*")[^"\\]+') for name in _NAMES]
_SHAPES = [
    re.compile(pattern)
    for pattern in (
        rb"sk-[A-Za-z0-9_-]{12,}", rb"Bearer +[A-Za-z0-9._~+/=-]{8,}", rb"gh[pousr]_[A-Za-z0-9]{20,}",
        rb"github_pat_[A-Za-z0-9_]{20,}", rb"AKIA[A-Z0-9]{16}", rb"AIza[A-Za-z0-9_-]{30,}",
        rb"xox[abprs]-[A-Za-z0-9-]{10,}", rb"hf_[A-Za-z0-9]{20,}",
        rb"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+",
        rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[^-]*-----END [A-Z ]{0,20}PRIVATE KEY-----",
    )
]  # fmt: skip
_HEADERS = frozenset(
    {b"authorization", b"proxy-authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie",
     b"x-metalanchor-token"}
)  # fmt: skip
_PARTS = re.compile(rb"[\s;=,]+")
_QUERY = re.compile(rb"(?:^|&)[^=&]*(?:key|token|secret|auth|pass)[^=&]*=([^&]+)", re.IGNORECASE)


def credentials(headers: Iterable[tuple[bytes, bytes]], query: bytes = b"") -> tuple[bytes, ...]:
    """What a request proves itself with: words of its credential headers, and such values of its query."""
    values = [value for name, value in headers if name in _HEADERS] + _QUERY.findall(query)
    found = {part for value in values for part in _PARTS.split(value) if len(part) >= LEAST}
    return tuple(sorted(found, key=len, reverse=True))


def redacted(text: bytes, known: Iterable[bytes] = ()) -> bytes:
    """The text without what `known` holds and without what looks like a secret."""
    for secret in known:
        text = text.replace(secret, MASK)
    for member, name in zip(_MEMBERS, _NAMES, strict=True):
        if name in text:
            text = member.sub(lambda found, name=name: name + found[1] + MASK, text)  # type: ignore[misc]
    for shape in _SHAPES:
        text = shape.sub(MASK, text)
    return text
