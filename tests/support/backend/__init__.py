"""Scripted backends on real sockets: what they answer, how they serve, and ready-made ones."""

from collections.abc import Callable
from typing import Any

from tests.support.backend.anthropic import Anthropic
from tests.support.backend.engine import Engine
from tests.support.backend.llama import Llama
from tests.support.backend.ollama import Ollama
from tests.support.backend.openai import OpenAI
from tests.support.backend.script import (
    NEVER,
    SILENT_CLOSE,
    SILENT_RESET,
    Answering,
    Received,
    Reply,
    as_json,
    body,
    ndjson,
    sse,
)
from tests.support.backend.server import Backend

KINDS: dict[str, Callable[..., Any]] = {
    "anthropic": Anthropic,
    "llama": Llama,
    "ollama": Ollama,
    "openai": OpenAI,
}
"""Personalities by name; each takes an `Engine` and answers requests when given to `Backend.answer`."""

__all__ = [
    "KINDS",
    "NEVER",
    "SILENT_CLOSE",
    "SILENT_RESET",
    "Answering",
    "Anthropic",
    "Backend",
    "Engine",
    "Llama",
    "Ollama",
    "OpenAI",
    "Received",
    "Reply",
    "as_json",
    "body",
    "ndjson",
    "sse",
]
