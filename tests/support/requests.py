"""Requests as agents write them, and what the dialects make of them."""

import json
from typing import Any

from services.proxy.dialects import for_route
from services.proxy.dialects.base import Dialect
from services.proxy.prompt import Prompt

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
OLLAMA = "/api/chat"
GENERATE = "/api/generate"


def dialect_of(path: str) -> Dialect:
    """The dialect of a route that has one."""
    dialect = for_route("POST", path)
    assert dialect is not None
    return dialect


def dump(body: Any, *, spaced: bool = False) -> bytes:
    """A body with raw UTF-8; compact, or with the blanks some agents write."""
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(body, ensure_ascii=False, separators=separators).encode()


def read(path: str, **body: Any) -> Prompt:
    """The prompt of a body sent to a route."""
    return dialect_of(path).read(dump(body), "backend")


def sections(path: str, prompt: Prompt) -> list[tuple[str, str, bytes]]:
    """All sections of a prompt as (full path, kind, text)."""
    dialect = dialect_of(path)
    return [
        (prompt.path(chunk, section.path), section.kind, section.text)
        for chunk in prompt.chunks
        for section in dialect.sections(chunk.kind, chunk.raw)
    ]


def texts(path: str, prompt: Prompt) -> dict[str, str]:
    """Section texts by full path (the last one where paths repeat)."""
    return {where: text.decode("utf-8", "replace") for where, _, text in sections(path, prompt)}
