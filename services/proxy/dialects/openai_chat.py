"""OpenAI chat completions, as every local server speaks them."""

from services.proxy.dialects.base import Family
from services.proxy.dialects.listed import ListDialect
from services.proxy.dialects.openai_answer import OpenAIReader
from services.proxy.dialects.tap import AnswerTap
from services.proxy.prompt import Prompt


class OpenAIChat(ListDialect):
    """``POST /v1/chat/completions``."""

    name = "openai_chat"
    family: Family = "openai"

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> AnswerTap:
        """A listener for the answer."""
        del prompt, content_type
        return AnswerTap(OpenAIReader(), content_encoding, lines=False)
