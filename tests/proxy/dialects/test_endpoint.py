"""What of a path a row keeps: routes and words, never what may be a key or an id."""

import pytest

from services.proxy.dialects import for_route
from services.proxy.dialects.endpoint import endpoint_of


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/chat/completions", "/api/v0/chat/completions", "/api/tags", "/v1/messages/count_tokens",
     "/slots", "/lora-adapters", "/v1beta/models", "/robots.txt", "/api/ps"],
)  # fmt: skip
def test_routes_keep_their_names(path: str) -> None:
    """Those that are analysed, and those whose segments are words or versions."""
    assert endpoint_of(path) == path
    assert endpoint_of(f"{path}?key=abc") == path
    assert for_route("GET", path) is None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/keys/sk-abcdefghijkl", "/v1/keys/*"),
        ("/v1/keys/sk-proj-abcdef", "/v1/keys/*"),
        ("/v1/models/qwen3%3A8b", "/v1/models/*"),
        ("/api/blobs/sha256:0a109f42", "/api/blobs/*"),
        ("/v1/responses/resp_01/cancel", "/v1/responses/*/cancel"),
        ("/u/ghp_abcdefghijklmnopqrst", "/u/*"),
        ("/token/hunterhunterhunter", "/token/*"),
        ("/CANARY-123", "/*"),
        ("/%63anary", "/*"),
        ("/" + "a" * 15, "/*"),
        ("/../../etc/passwd", "/*/*/etc/passwd"),
        ("//admin", "/admin"),
        ("/a/b/c/d/e/f/g/h/i/j/k", "/a/b/c/d/e/f/g/h/*"),
        ("*", "/*"),
        ("/chat/\xe9\x00\n", "/chat/*"),
    ],
)
def test_what_is_no_word_is_left_out(path: str, name: str) -> None:
    """Keys, ids, digests, escapes, capitals and endless paths."""
    assert endpoint_of(path) == name
