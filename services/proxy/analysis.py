"""Reads request bodies into prompts, from nothing or from where a known head of the conversation ended."""

from hashlib import sha1

from services.proxy.dialects.base import Dialect
from services.proxy.prompt import Prompt


class Analyser:
    """Reads bodies; safe to use from several threads."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes

    def read(self, dialect: Dialect, body: bytes, backend_name: str) -> Prompt:
        """Understand a body sent to a backend; raises `UnparsedError`."""
        prompt = dialect.read(body, backend_name)
        prompt.raw_hash = sha1(body).digest()
        prompt.request_bytes = len(body)
        return prompt
