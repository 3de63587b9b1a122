"""Our own routes and pages of other sites: every route of the schema, by every way a browser has."""

import json
from urllib.parse import quote

import pytest

from tests.support.proxy import Proxy, StartProxy, Wire

pytestmark = pytest.mark.process

FOREIGN = (
    "http://evil.example",
    "https://evil.example:443",
    "null",
    "http://127.0.0.1:1",
    "http://localhost",
    "file://",
)
TARGETS = ("http://evil.example/", "//evil.example/", "/\\evil.example", "/metalanchor/\r\nX-Evil: 1")
REBOUND = (
    "evil.example",
    "evil.example:80",
    "127.0.0.1.evil.example",
    "127.0.0.1:x",
    "[::1",
    "localhost.",
    "0x7f.1",
)


def routes(proxy: Proxy, headers: list[tuple[str, str]] | None = None) -> list[tuple[str, str]]:
    """Every method and path of the schema, and the pages that stand in none."""
    schema = json.loads(proxy.request("GET", "/metalanchor/schema/openapi.json", headers=headers).body)
    found = [(method.upper(), path) for path, methods in schema["paths"].items() for method in methods]
    assert len(found) > 8
    known = "01900000-0000-7000-8000-000000000000"
    named = [(method, path.replace("{request_id}", known).partition("{")[0]) for method, path in found]
    return [*named, ("GET", "/metalanchor/"), ("GET", "/metalanchor/schema"), ("GET", "/metalanchor/unknown")]


@pytest.mark.parametrize("host", REBOUND)
def test_a_rebound_name_opens_no_route(wire: Wire, host: str) -> None:
    """DNS rebinding: the browser believes that the page's own name is this machine; Host gives it away."""
    for method, path in routes(wire.proxy):
        answer = wire.proxy.request(method, path, host=host)
        assert (answer.status, answer.ours["error"]) == (403, "host_not_allowed"), (method, path)


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_foreign_page_uses_no_route(wire: Wire, origin: str) -> None:
    """Cross-site requests, sandboxed frames, other ports of this machine: the Origin gives them away."""
    for method, path in routes(wire.proxy):
        answer = wire.proxy.request(method, path, headers=[("Origin", origin)])
        assert (answer.status, answer.ours["error"]) == (403, "origin_not_allowed"), (method, path)
        assert answer.header("access-control-allow-origin") is None


def test_no_route_lets_another_site_read_or_frame_it(wire: Wire) -> None:
    """No CORS header anywhere; pages may not be framed, and say what may run in them."""
    for method, path in routes(wire.proxy):
        if method != "GET" or path.endswith("/events"):
            continue
        answer = wire.proxy.request(method, path)
        assert not [name for name, _ in answer.headers if name.lower().startswith("access-control-")], path
        assert answer.header("x-content-type-options") == "nosniff", path
        assert len(answer.all("x-content-type-options")) == 1, path
        if "text/html" in (answer.header("content-type") or ""):
            assert "frame-ancestors 'none'" in (answer.header("content-security-policy") or ""), path
            assert answer.header("referrer-policy") == "same-origin", path


def test_a_token_is_asked_on_every_route(start_proxy: StartProxy) -> None:
    """But for the login form and its assets; a browser is led to the form, a program told 401."""
    proxy = start_proxy(token="a-long-secret")
    for method, path in routes(proxy, [("X-MetalAnchor-Token", "a-long-secret")]):
        if path.startswith(("/metalanchor/login", "/metalanchor/assets/")):
            continue
        for token in ("", "A-LONG-SECRET", "a-long-secre", "a-long-secret2", "a-long-secret\xff"):
            answer = proxy.request(method, path, headers=[("X-MetalAnchor-Token", token)])
            assert answer.status == 401, (method, path, token)
        cookie = [
            ("Cookie", "metalanchor_login=9999999999.00"),
            ("Cookie", "metalanchor_login=a-long-secret"),
        ]
        assert proxy.request(method, path, headers=cookie).status == 401, (method, path)


def test_the_login_leads_nowhere_else(start_proxy: StartProxy) -> None:
    """What `next` names is a page of ours or is ignored."""
    proxy = start_proxy(token="secret")
    here = f"127.0.0.1:{proxy.port}"
    sent = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", f"http://{here}")]
    for target in TARGETS:
        form = f"token=secret&next={quote(target)}".encode()
        for path in ("/metalanchor/login", f"/metalanchor/login?next={quote(target)}"):
            answer = proxy.request("POST", path, form, sent, host=here)
            assert answer.status < 400
            assert answer.header("x-evil") is None
            assert (answer.header("location") or "/metalanchor").startswith("/metalanchor")
