"""The members of a request that matter, in all dialects, with their values still raw; pure, owns no state.

One struct serves every route: names do not collide, clients send one API's options to another's route, and a
member that is absent costs nothing. A dialect's own struct only names its list.
"""

import secrets

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.dialects.engine import decimal, keep_alive, load_options, whole
from services.proxy.prompt import Engine, Hints

HEAD_KEY = "head-" + secrets.token_hex(16)
"""Under this key the analyser puts the unread rest of a list; nobody can guess it."""

_ABSENT = cut.NONE
_METADATA_ITEMS = 32  # of client_metadata; Codex sends 6


class Envelope(msgspec.Struct, gc=False):
    """A body cut into members; absent ones are `cut.NONE`. `items` are the messages, if they are a list."""

    items: list[Raw] | str | None = None
    head: list[Raw] | None = msgspec.field(default=None, name=HEAD_KEY)
    model: Raw = _ABSENT
    stream: Raw = _ABSENT
    tools: Raw = _ABSENT
    system: Raw = _ABSENT
    instructions: Raw = _ABSENT
    prompt: Raw = _ABSENT
    suffix: Raw = _ABSENT
    template: Raw = _ABSENT
    context: Raw = _ABSENT
    images: Raw = _ABSENT
    reasoning_effort: Raw = _ABSENT
    reasoning: Raw = _ABSENT
    think: Raw = _ABSENT
    thinking: Raw = _ABSENT
    chat_template_kwargs: Raw = _ABSENT
    tool_choice: Raw = _ABSENT
    response_format: Raw = _ABSENT
    format: Raw = _ABSENT
    text: Raw = _ABSENT
    output_config: Raw = _ABSENT
    max_tokens: Raw = _ABSENT
    max_completion_tokens: Raw = _ABSENT
    max_output_tokens: Raw = _ABSENT
    n_predict: Raw = _ABSENT
    temperature: Raw = _ABSENT
    cache_prompt: Raw = _ABSENT
    options: Raw = _ABSENT
    keep_alive: Raw = _ABSENT
    shift: Raw = _ABSENT
    prompt_cache_key: Raw = _ABSENT
    metadata: Raw = _ABSENT
    client_metadata: Raw = _ABSENT


def params_of(envelope: Envelope) -> tuple[tuple[str, bytes], ...]:
    """Template inputs that are present and not null, by their contract names, with received values."""
    named = (
        ("reasoning_effort", envelope.reasoning_effort),
        *_member("reasoning", envelope.reasoning, "effort"),
        ("think", envelope.think),
        ("thinking", envelope.thinking),
        *_all_members("chat_template_kwargs", envelope.chat_template_kwargs),
        ("tool_choice", envelope.tool_choice),
        ("response_format", envelope.response_format),
        ("format", envelope.format),
        *_member("text", envelope.text, "format"),
        ("output_config", envelope.output_config),
    )
    return tuple((name, bytes(raw)) for name, raw in named if cut.is_set(raw))


def _member(prefix: str, raw: Raw, key: str) -> list[tuple[str, Raw]]:
    if cut.first_byte(raw) != b"{":
        return []
    return [(f"{prefix}.{key}", cut.members(raw).get(key, cut.NONE))]


def _all_members(prefix: str, raw: Raw) -> list[tuple[str, Raw]]:
    if cut.first_byte(raw) != b"{":
        return []
    return [(f"{prefix}.{key}", item) for key, item in sorted(cut.members(raw).items())]


def hints_of(envelope: Envelope) -> Hints:
    """What the body says about its sender; tools and system text are added by `build.assemble`."""
    user_id = cut.NONE
    if cut.first_byte(envelope.metadata) == b"{":
        user_id = cut.members(envelope.metadata).get("user_id", cut.NONE)
    return Hints(
        prompt_cache_key=cut.text_of(envelope.prompt_cache_key),
        user_id=cut.text_of(user_id),
        client_metadata=_client_metadata(envelope.client_metadata),
    )


def _client_metadata(raw: Raw) -> dict[str, str] | None:
    if cut.first_byte(raw) != b"{":
        return None
    texts = ((key, cut.text_of(item)) for key, item in list(cut.members(raw).items())[:_METADATA_ITEMS])
    return {key: text for key, text in texts if text is not None}


def engine_of(envelope: Envelope) -> Engine:
    """What an OpenAI- or Anthropic-shaped body asks for. Ollama ignores `options` on these routes."""
    return Engine(
        cache_prompt=cut.flag_of(envelope.cache_prompt),
        max_tokens=whole(
            envelope.max_completion_tokens,
            envelope.max_output_tokens,
            envelope.max_tokens,
            envelope.n_predict,
        ),
        temperature=decimal(envelope.temperature),
    )


def ollama_engine_of(envelope: Envelope) -> Engine:
    """What a body on Ollama's own routes asks of the engine."""
    sampling = cut.members(envelope.options) if cut.first_byte(envelope.options) == b"{" else {}
    return Engine(
        options=load_options(envelope.options, envelope.shift),
        keep_alive_s=keep_alive(envelope.keep_alive),
        max_tokens=whole(sampling.get("num_predict", cut.NONE)),
        temperature=decimal(sampling.get("temperature", cut.NONE)),
    )


def model_of(envelope: Envelope) -> str:
    """The model's name; empty where the body has none (llama-server serves one model)."""
    return cut.text_of(envelope.model) or ""


def params_raw(params: tuple[tuple[str, bytes], ...]) -> bytes:
    """Template inputs as one JSON object from contract name to received value."""
    return b"{%b}" % b",".join(b"%b:%b" % (msgspec.json.encode(name), data) for name, data in params)
