"""Where a prefix broke to the token, by the backend's own template and tokeniser.

Done only when somebody asks: both requests are put together again from the texts in memory, rendered and
tokenised by the server that answered them, and compared. llama-server does both; Ollama renders only, so
there the byte of the rendered prompt is all there is. Nothing is generated, nothing is stored.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from services.proxy.placing.spans import divergence
from services.proxy.placing.texts import Texts
from services.proxy.settling.explain import Made, excerpt
from services.proxy.state.base import HASH_BYTES

MAX_BYTES = 16 << 20  # of both requests together: longer ones would keep a server's tokeniser for seconds
CHATS = frozenset({"openai_chat", "ollama_chat"})
PROMPTS = frozenset({"llama", "openai_completions", "ollama_generate"})

Post = Callable[[str, bytes], Any]
"""Posts a JSON body to a path of the backend and returns its JSON answer; raises `Inexact`."""


class Inexact(Exception):  # noqa: N818
    """The token cannot be told; `status` is the HTTP status of it, the text says why and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Rendered(NamedTuple):
    """A prompt as the model gets it; `tokens` are None where the server does not tell them."""

    text: str | None
    tokens: list[int] | None


def exact(old: Made, new: Made, texts: Texts, kind: str | None, post: Post) -> dict[str, Any]:
    """The first token, and byte of the rendered prompt, at which the newer request leaves the older one.

    `token` is None where the backend has no tokeniser; `broken` is false where the whole older prompt is
    kept. Blocking: `post` waits for the backend. Raises `Inexact`.
    """
    bodies = [_rebuilt(made, texts) for made in (old, new)]
    if sum(map(len, bodies)) > MAX_BYTES:
        raise Inexact(413, f"The two requests are longer than {MAX_BYTES >> 20} MiB together.")
    render = _renderer(new.dialect, kind)
    return _compared(*(render(body, post) for body in bodies))


def _compared(old: Rendered, new: Rendered) -> dict[str, Any]:
    found: dict[str, Any] = {"token": None, "tokens": None, "parent_tokens": None, "byte_offset": None}
    if old.tokens is not None and new.tokens is not None:
        pairs = enumerate(zip(old.tokens, new.tokens, strict=False))
        least = min(len(old.tokens), len(new.tokens))
        found["token"] = next((i for i, (a, b) in pairs if a != b), least)
        found |= {"tokens": len(new.tokens), "parent_tokens": len(old.tokens)}
    found |= {"before": None, "after": None}
    if old.text is not None and new.text is not None:
        then, here = old.text.encode("utf-8", "replace"), new.text.encode("utf-8", "replace")
        offset, _ = divergence(then, here)
        found |= {"byte_offset": offset, "before": excerpt(then, offset), "after": excerpt(here, offset)}
        whole = offset == len(then)
    else:
        whole = found["token"] == found["parent_tokens"]
    return {**found, "broken": not whole}


def _rebuilt(made: Made, texts: Texts) -> bytes:
    """The body of a request, as far as it reaches the template, from its chunks."""
    if not texts.enabled:
        raise Inexact(409, "Texts are not kept (METALANCHOR_KEEP_TEXT=false), so nothing can be rendered.")
    members = {"model": json.dumps(made.model).encode()}
    listed: list[bytes] = []
    for i, letter in enumerate(made.kinds):
        held = texts.get(made.hashes[i * HASH_BYTES : (i + 1) * HASH_BYTES])
        if held is None:
            raise Inexact(410, "The text of one of the two requests is no longer in this process's memory.")
        raw = held[1]
        if letter == "p":
            members |= _nested(raw)
        elif letter == "t":
            members["tools"] = raw
        elif letter == "q":
            members |= {name: json.dumps(value).encode() for name, value in json.loads(raw).items()}
        elif letter == "s" and made.dialect in PROMPTS:
            members["system"] = json.dumps(json.loads(raw)[0]).encode()
        else:
            listed.append(raw[1:-1] if letter == "s" else raw)
    if listed:
        members["messages"] = b"[%b]" % b",".join(part for part in listed if part)
    members |= {name: json.dumps(value).encode() for name, value in made.engine.items()}
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


def _renderer(dialect: str, kind: str | None) -> Callable[[bytes, Post], Rendered]:
    if dialect not in CHATS | PROMPTS:
        raise Inexact(
            422, "Only requests to /v1/chat/completions, /completion, /v1/completions, /api/chat and "
            "/api/generate can be rendered exactly; the server converts this API's requests inside."
        )  # fmt: skip
    if kind == "llama-server" and not dialect.startswith("ollama"):
        return _llama_chat if dialect in CHATS else _llama_prompt
    if kind == "ollama" and dialect.startswith("ollama"):
        return _ollama_chat if dialect in CHATS else _ollama_prompt
    raise Inexact(
        422, "This backend neither renders nor tokenises a prompt for others: llama-server does both, "
        "Ollama renders requests to its own API."
    )  # fmt: skip


def _llama_chat(body: bytes, post: Post) -> Rendered:
    text = _text(post("/apply-template", body), "prompt")
    return Rendered(text, _tokens(text, post))


def _llama_prompt(body: bytes, post: Post) -> Rendered:
    prompt = json.loads(body).get("prompt")
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


def _ollama_chat(body: bytes, post: Post) -> Rendered:
    return _ollama("/api/chat", body, post)


def _ollama_prompt(body: bytes, post: Post) -> Rendered:
    return _ollama("/api/generate", body, post)


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
