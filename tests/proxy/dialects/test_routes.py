"""Which requests are analysed, and as what."""

import pytest

from services.proxy.dialects import for_route, kind_of

ANALYSED = {
    "/api/chat": "ollama_chat",
    "/api/generate": "ollama_generate",
    "/api/embed": "ollama_embed",
    "/api/embeddings": "ollama_embed",
    "/v1/chat/completions": "openai_chat",
    "/v1/completions": "openai_completions",
    "/v1/responses": "openai_responses",
    "/v1/embeddings": "openai_embeddings",
    "/v1/messages": "anthropic",
    "/completion": "llama",
    "/completions": "llama",
}


@pytest.mark.parametrize(("path", "name"), ANALYSED.items())
def test_every_route_of_the_contract_has_its_dialect(path, name):
    """POST is analysed."""
    dialect = for_route("POST", path)
    assert dialect is not None
    assert dialect.name == name


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("OPTIONS", "/v1/chat/completions"),
        ("GET", "/v1/chat/completions"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/chat/completions/"),
        ("POST", "//v1/messages"),
        ("POST", "/v1/rerank"),
        ("GET", "/"),
    ],
)
def test_everything_else_has_none(method, path):
    """Counting tokens and preflights are no generations, and only exact paths are understood."""
    assert for_route(method, path) is None


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/api/tags", "management"),
        ("DELETE", "/api/delete", "management"),
        ("POST", "/api/v1/models/load", "management"),
        ("GET", "/v1/models/x%2Fy", "management"),
        ("POST", "/v1/messages/count_tokens", "other"),
        ("OPTIONS", "/api/chat", "other"),
        ("HEAD", "/", "other"),
        ("POST", "/v1/embeddings", "embedding"),
        ("POST", "/v1/messages", "generation"),
    ],
)
def test_requests_are_sorted_into_kinds(method, path, kind):
    """What lists, loads and moves models is management."""
    assert kind_of(method, path) == kind
