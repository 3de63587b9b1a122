"""Plain completions in OpenAI's shape and in llama-server's own."""

from services.proxy.dialects.base import Family
from services.proxy.dialects.openai_answer import OpenAIReader
from services.proxy.dialects.prompted import PromptDialect
from services.proxy.dialects.tap import AnswerTap
from services.proxy.prompt import Prompt


class OpenAICompletions(PromptDialect):
    """``POST /v1/completions``."""

    name = "openai_completions"
    family: Family = "openai"

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> AnswerTap:
        """A listener for the answer."""
        del prompt, content_type
        return AnswerTap(OpenAIReader(), content_encoding, lines=False)
