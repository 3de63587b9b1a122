"""Scripted backends on real sockets: what they answer (`script`), how they serve (`server`), ready-made ones."""

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

__all__ = [
    "NEVER",
    "SILENT_CLOSE",
    "SILENT_RESET",
    "Answering",
    "Backend",
    "Received",
    "Reply",
    "as_json",
    "body",
    "ndjson",
    "sse",
]
