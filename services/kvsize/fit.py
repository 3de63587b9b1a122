"""How many of the conversations that a proxy knows fit into a given memory. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from services.kvsize.shape import Shape, Use, sequence_bytes

# What the proxy knows to be gone from the engine is no longer live.
GONE = frozenset({"unloaded"})


def lineages_that_fit(
    items: Iterable[Mapping[str, Any]], shape: Shape, use: Use, memory: int, model: str | None
) -> dict[str, int]:
    """``{live, fit, tokens, bytes}`` of ``/api/lineages``: as many as fit, the latest first.

    Of a named `model` only its own count. A conversation is as long as its latest prompt, by the engine's
    count where that is known, else by the proxy's estimate.
    """
    live = [item for item in items if item.get("state") not in GONE and model in {None, item.get("model")}]
    fit = tokens = used = 0
    for item in live:
        length = int(item.get("prompt_tokens") or item.get("estimated_tokens") or 0)
        size = sequence_bytes(shape, use, length)
        if used + size > memory:
            break
        fit, tokens, used = fit + 1, tokens + length, used + size
    return {"live": len(live), "fit": fit, "tokens": tokens, "bytes": used}
