"""OpenAI chat completions, as every local server speaks them."""

import msgspec
from msgspec import Raw

from services.proxy import cut
from services.proxy.dialects import build
from services.proxy.dialects.base import Family
from services.proxy.dialects.engine import decimal, whole
from services.proxy.dialects.listed import Envelope, ListDialect
from services.proxy.dialects.openai_answer import OpenAIReader
from services.proxy.dialects.tap import AnswerTap
from services.proxy.prompt import Engine, Hints, Prompt

_ABSENT = cut.NONE


class ChatBody(Envelope, gc=False):
    """The members of a request that matter."""

    items: list[Raw] | str | None = msgspec.field(default=None, name="messages")
    tools: Raw = _ABSENT
    reasoning_effort: Raw = _ABSENT
    think: Raw = _ABSENT
    thinking: Raw = _ABSENT
    chat_template_kwargs: Raw = _ABSENT
    tool_choice: Raw = _ABSENT
    response_format: Raw = _ABSENT
    max_tokens: Raw = _ABSENT
    max_completion_tokens: Raw = _ABSENT
    n_predict: Raw = _ABSENT
    temperature: Raw = _ABSENT
    cache_prompt: Raw = _ABSENT
    prompt_cache_key: Raw = _ABSENT
    user: Raw = _ABSENT


class OpenAIChat(ListDialect):
    """``POST /v1/chat/completions``."""

    name = "openai_chat"
    family: Family = "openai"
    envelope = msgspec.json.Decoder(ChatBody)

    def parts(self, envelope: ChatBody) -> build.Parts:
        """Everything but the messages."""
        return build.Parts(
            kind="generation",
            model=cut.text_of(envelope.model) or "",
            stream=cut.flag_of(envelope.stream) is True,
            params=_params(envelope),
            tools=envelope.tools,
            system=cut.NONE,
            hints=Hints(
                prompt_cache_key=cut.text_of(envelope.prompt_cache_key), user_id=cut.text_of(envelope.user)
            ),
            engine=Engine(
                cache_prompt=cut.flag_of(envelope.cache_prompt),
                max_tokens=whole(envelope.max_completion_tokens, envelope.max_tokens, envelope.n_predict),
                temperature=decimal(envelope.temperature),
            ),
        )

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> AnswerTap:
        """A listener for the answer."""
        del prompt, content_type
        return AnswerTap(OpenAIReader(), content_encoding, lines=False)


def _params(envelope: ChatBody) -> tuple[tuple[str, bytes], ...]:
    return build.params_of(
        [
            ("reasoning_effort", envelope.reasoning_effort),
            ("think", envelope.think),
            ("thinking", envelope.thinking),
            *build.nested("chat_template_kwargs", envelope.chat_template_kwargs),
            ("tool_choice", envelope.tool_choice),
            ("response_format", envelope.response_format),
        ]
    )
