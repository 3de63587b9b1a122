"""Where a prefix broke to the token, by the backend's own template and tokeniser.

Done only when somebody asks: both requests are rendered and tokenised by the server that answered them, and
compared. Where the server has no tokeniser for others (Ollama) the byte of the rendered prompt is exact, and
its token is judged by the prompt's own tokens a byte.
"""

from typing import Any

from services.proxy.placing.spans import divergence
from services.proxy.placing.texts import Texts
from services.proxy.settling.explain import Made, excerpt
from services.proxy.settling.rendering import Inexact, Post, Rendered, parts_of, renderer_for

__all__ = ["Inexact", "exact"]

MAX_BYTES = 16 << 20  # of both requests together: longer ones would keep a server's tokeniser for seconds


def exact(old: Made, new: Made, texts: Texts, kind: str | None, post: Post) -> dict[str, Any]:
    """The first token, and byte of the rendered prompt, at which the newer request leaves the older one.

    `token` is None where the backend has no tokeniser; `estimated_token` then says about where it is, by the
    engine's count of the whole prompt. `broken` is false where the whole older prompt is kept. Blocking:
    `post` waits for the backend. Raises `Inexact`.
    """
    parts = [parts_of(made, texts) for made in (old, new)]
    if sum(part.size for part in parts) > MAX_BYTES:
        raise Inexact(413, f"The two requests are longer than {MAX_BYTES >> 20} MiB together.")
    render = renderer_for(new.dialect, kind)
    then, here = (render(part, post) for part in parts)
    return _compared(then, here, new.prompt_tokens)


def _compared(old: Rendered, new: Rendered, counted: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"token": None, "tokens": None, "parent_tokens": None, "estimated_token": None}
    if old.tokens is not None and new.tokens is not None:
        pairs = enumerate(zip(old.tokens, new.tokens, strict=False))
        least = min(len(old.tokens), len(new.tokens))
        found["token"] = next((i for i, (a, b) in pairs if a != b), least)
        found |= {"tokens": len(new.tokens), "parent_tokens": len(old.tokens)}
    found |= {"byte_offset": None, "before": None, "after": None}
    if old.text is not None and new.text is not None:
        then, here = old.text.encode("utf-8", "replace"), new.text.encode("utf-8", "replace")
        offset, _ = divergence(then, here)
        found |= {"byte_offset": offset, "before": excerpt(then, offset), "after": excerpt(here, offset)}
        if found["token"] is None and counted and here:
            found["estimated_token"] = round(counted * offset / len(here))
        whole = offset == len(then)
    else:
        whole = found["token"] == found["parent_tokens"]
    return {**found, "broken": not whole}
