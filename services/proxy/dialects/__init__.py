"""Request and answer shapes by route. One dialect is one module; the others know nothing of it."""

from services.proxy.dialects.base import Dialect
from services.proxy.dialects.openai_chat import OpenAIChat

_CHAT = OpenAIChat()

_ROUTES: dict[str, Dialect] = {
    "/v1/chat/completions": _CHAT,
    "/chat/completions": _CHAT,
    "/api/v0/chat/completions": _CHAT,
}


def for_route(method: str, path: str) -> Dialect | None:
    """The dialect of a route, or None where there is nothing to analyse. `path` is raw, without its query."""
    return _ROUTES.get(path) if method == "POST" else None
