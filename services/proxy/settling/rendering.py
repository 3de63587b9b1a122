"""Puts a request together again from the texts in memory and has the server that answered it render it.

llama-server renders and tokenises; Ollama renders only. The Messages and Responses APIs are rendered as the
chat requests that the server makes of them, and only believed where the server counts as many tokens itself.
Nothing is generated, nothing is stored.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from services.proxy.placing.texts import Texts
from services.proxy.settling.converted import chat_of
from services.proxy.settling.explain import Made
from services.proxy.state.base import HASH_BYTES

CHATS = frozenset({"openai_chat", "ollama_chat"})
PROMPTS = frozenset({"llama", "openai_completions", "ollama_generate"})
# APIs that the server converts inside, and where it counts their tokens.
CONVERTED = {"anthropic": "/v1/messages/count_tokens", "openai_responses": "/v1/responses/input_tokens"}
OLLAMA_PATHS = {
    "ollama_chat": "/api/chat",
    "ollama_generate": "/api/generate",
    "openai_chat": "/v1/chat/completions",
    "openai_completions": "/v1/completions",
}
ADDED_TOKENS = 1  # the mark of a text's beginning, which some counters leave out

Post = Callable[[str, bytes], Any]
"""Posts a JSON body to a path of the backend and returns its JSON answer; raises `Inexact`."""


class Inexact(Exception):  # noqa: N818
    """The token cannot be told; `status` is the HTTP status of it, the text says why and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Parts(NamedTuple):
    """A request's parts as JSON: members of the body by name, and the parts that stand in its list.

    Equal texts are kept once, so a part may be in the `shapes` of another API than the request's own.
    """

    members: dict[str, bytes]
    system: list[bytes]
    listed: list[bytes]
    shapes: set[str]

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return sum(map(len, [*self.members.values(), *self.system, *self.listed]))


class Rendered(NamedTuple):
    """A prompt as the model gets it; `tokens` are None where the server does not tell them."""

    text: str | None
    tokens: list[int] | None


def parts_of(made: Made, texts: Texts) -> Parts:
    """The parts of a request, as far as it reaches the template, from its chunks."""
    if not texts.enabled:
        raise Inexact(409, "Texts are not kept (METALANCHOR_KEEP_TEXT=false), so nothing can be rendered.")
    found = Parts({"model": json.dumps(made.model).encode()}, [], [], set())
    for i, letter in enumerate(made.kinds):
        held = texts.get(made.hashes[i * HASH_BYTES : (i + 1) * HASH_BYTES])
        if held is None:
            raise Inexact(410, "The text of one of the two requests is no longer in this process's memory.")
        raw = held[1]
        found.shapes.add(held[0])
        if letter == "p":
            found.members.update(_nested(raw))
        elif letter == "t":
            found.members["tools"] = raw
        elif letter == "q":
            found.members.update({name: json.dumps(v).encode() for name, v in json.loads(raw).items()})
        elif letter == "s":
            found.system.append(raw[1:-1])
        else:
            found.listed.append(raw)
    found.members.update({name: json.dumps(value).encode() for name, value in made.engine.items()})
    return found


def _body(parts: Parts) -> bytes:
    """The body of a chat, or of a prompt with its system text."""
    members = dict(parts.members)
    listed = [part for part in (*parts.system, *parts.listed) if part]
    if "prompt" in members and parts.system:
        members["system"] = json.dumps(json.loads(b"[%b]" % parts.system[0])[0]).encode()
    elif listed:
        members["messages"] = b"[%b]" % b",".join(listed)
    return b"{%b}" % b",".join(b"%b:%b" % (json.dumps(k).encode(), v) for k, v in members.items())


def _nested(raw: bytes) -> dict[str, bytes]:
    """Template inputs by the names of the body: ``chat_template_kwargs.x`` goes back into its object."""
    plain: dict[str, Any] = {}
    for name, value in json.loads(raw).items():
        outer, _, inner = name.partition(".")
        if inner:
            plain.setdefault(outer, {})[inner] = value
        else:
            plain[outer] = value
    return {name: json.dumps(value).encode() for name, value in plain.items()}


def renderer_for(dialect: str, kind: str | None) -> Callable[[Parts, Post], Rendered]:
    """How a backend of a kind renders requests of a dialect; raises `Inexact` where it does not."""
    if dialect not in CHATS | PROMPTS | CONVERTED.keys():
        raise Inexact(422, "Requests of this kind are not rendered by a chat template.")
    if kind == "llama-server" and not dialect.startswith("ollama"):
        if dialect in CONVERTED:
            return lambda parts, post: _llama_converted(dialect, parts, post)
        return _llama_chat if dialect in CHATS else _llama_prompt
    if kind == "ollama" and dialect in OLLAMA_PATHS:
        return lambda parts, post: _ollama(OLLAMA_PATHS[dialect], _chat(parts), post)
    if kind == "ollama" and dialect in CONVERTED:
        return lambda parts, post: _ollama(OLLAMA_PATHS["openai_chat"], _converted(dialect, parts), post)
    raise Inexact(
        422, "This backend neither renders nor tokenises a prompt for others: llama-server does both, "
        "Ollama renders."
    )  # fmt: skip


def _chat(parts: Parts) -> bytes:
    """The body of a chat, whichever APIs its parts came in, or of a prompt."""
    strange = parts.shapes & CONVERTED.keys() and "prompt" not in parts.members
    return _converted("openai_chat", parts) if strange else _body(parts)


def _converted(dialect: str, parts: Parts) -> bytes:
    """The chat body of a request to an API that the server converts, with its template inputs."""
    system, listed = (json.loads(b"[%b]" % b",".join(filter(None, p))) for p in (parts.system, parts.listed))
    tools = json.loads(parts.members.get("tools", b"[]"))
    chat = chat_of(system, listed, tools, pinned=dialect == "anthropic")
    left = {"tools"} if dialect == "openai_chat" else parts.members.keys() - {"model", "chat_template_kwargs"}
    named = {name: json.loads(value) for name, value in parts.members.items() if name not in left}
    return json.dumps(named | chat, ensure_ascii=False).encode()


def _llama_converted(dialect: str, parts: Parts, post: Post) -> Rendered:
    """The prompt of a converted request, which must have as many tokens as the server counts in its own."""
    text = _text(post("/apply-template", _converted(dialect, parts)), "prompt")
    made = Rendered(text, _tokens(text, post))
    counted = _count(dialect, parts, post) if parts.shapes == {dialect} else None
    if counted is not None and made.tokens is not None and abs(counted - len(made.tokens)) > ADDED_TOKENS:
        raise Inexact(
            422, f"The server reads this request otherwise than it could be put together here ({counted} "
            f"tokens, not {len(made.tokens)}), so the place cannot be told to the token."
        )  # fmt: skip
    return made


def _count(dialect: str, parts: Parts, post: Post) -> int | None:
    """Tokens of a request as the server counts them; None where it has no such route."""
    heads, within = _split(parts.system)
    field, listed = ("system", "messages") if dialect == "anthropic" else ("instructions", "input")
    members = dict(parts.members) | {"max_tokens": b"1"} | ({field: heads[0]} if heads else {})
    members[listed] = b"[%b]" % b",".join([*within, *parts.listed])
    body = b"{%b}" % b",".join(b"%b:%b" % (json.dumps(k).encode(), v) for k, v in members.items())
    try:
        counted = post(CONVERTED[dialect], body)
    except Inexact:
        return None
    found = counted.get("input_tokens") if isinstance(counted, dict) else None
    return found if type(found) is int else None


def _split(system: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The system field's own value, and the leading system messages behind it."""
    parts = json.loads(b"[%b]" % b",".join(filter(None, system)))
    encoded = [(isinstance(part, dict), json.dumps(part).encode()) for part in parts]
    return [raw for message, raw in encoded if not message], [raw for message, raw in encoded if message]


def _llama_chat(parts: Parts, post: Post) -> Rendered:
    text = _text(post("/apply-template", _chat(parts)), "prompt")
    return Rendered(text, _tokens(text, post))


def _llama_prompt(parts: Parts, post: Post) -> Rendered:
    prompt = json.loads(_body(parts)).get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return Rendered(prompt, _tokens(prompt, post))
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return Rendered(None, prompt)
    raise Inexact(422, "Only a prompt that is one text, or one list of tokens, can be compared exactly.")


def _tokens(text: str, post: Post) -> list[int]:
    body = json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()
    answer = post("/tokenize", body)
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise Inexact(502, "The backend's tokeniser did not answer with tokens.")
    return tokens


def _ollama(path: str, body: bytes, post: Post) -> Rendered:
    asked = b'{"stream":false,"_debug_render_only":true,' + body[1:]
    answer = post(path, asked)
    shown = answer.get("_debug_info") if isinstance(answer, dict) else None
    return Rendered(_text(shown, "rendered_template"), None)


def _text(answer: Any, name: str) -> str:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, str):
        raise Inexact(502, "The backend did not render the prompt; an older version may not be able to.")
    return found
