"""Request and answer shapes by route. One dialect is one module; the others know nothing of it."""

from services.proxy.dialects.anthropic import Anthropic
from services.proxy.dialects.base import Dialect
from services.proxy.dialects.embeddings import Embeddings
from services.proxy.dialects.llama import Llama
from services.proxy.dialects.ollama import OllamaChat, OllamaGenerate
from services.proxy.dialects.openai_chat import OpenAIChat
from services.proxy.dialects.openai_completions import OpenAICompletions
from services.proxy.dialects.openai_responses import OpenAIResponses
from services.proxy.prompt import RequestKind

_CHAT = OpenAIChat()
_COMPLETIONS = OpenAICompletions()
_RESPONSES = OpenAIResponses()
_ANTHROPIC = Anthropic()
_LLAMA = Llama()
_EMBEDDINGS = Embeddings("openai_embeddings", "openai")
_OLLAMA_EMBED = Embeddings("ollama_embed", "ollama")

# Besides the routes of the contract, those on which mlx_lm, llama-server and LM Studio answer as well.
_ROUTES: dict[str, Dialect] = {
    "/api/chat": OllamaChat(),
    "/api/generate": OllamaGenerate(),
    "/api/embed": _OLLAMA_EMBED,
    "/api/embeddings": _OLLAMA_EMBED,
    "/v1/chat/completions": _CHAT,
    "/chat/completions": _CHAT,
    "/api/v0/chat/completions": _CHAT,
    "/v1/completions": _COMPLETIONS,
    "/api/v0/completions": _COMPLETIONS,
    "/v1/responses": _RESPONSES,
    "/responses": _RESPONSES,
    "/v1/embeddings": _EMBEDDINGS,
    "/embeddings": _EMBEDDINGS,
    "/api/v0/embeddings": _EMBEDDINGS,
    "/v1/messages": _ANTHROPIC,
    "/completion": _LLAMA,
    "/completions": _LLAMA,
}

# What lists, loads and moves models: logged as management, so that reloads can be told from evictions.
_MANAGEMENT = ("/api/", "/v1/models", "/models", "/slots", "/props", "/lora-adapters", "/v1/cache")


def for_route(method: str, path: str) -> Dialect | None:
    """The dialect of a route, or None where there is nothing to analyse. `path` is raw, without its query."""
    return _ROUTES.get(path) if method == "POST" else None


def is_known(path: str) -> bool:
    """Whether a path is one of the routes that are analysed."""
    return path in _ROUTES


def kind_of(method: str, path: str) -> RequestKind:
    """What a request without a dialect is; that of one with a dialect is its prompt's."""
    dialect = for_route(method, path)
    if dialect is not None:
        return dialect.kind
    return "management" if method != "OPTIONS" and path.startswith(_MANAGEMENT) else "other"
