"""R79: what one credential or tenant sent, another learns nothing of."""

import pytest

from tests.support.backend import as_json
from tests.support.proxy import Proxy, StartProxy
from tests.support.rows import wait_for
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

SYSTEM = "You are the assistant of a company with a secret project. " * 8
SECRET = "the launch code is PELICAN"
ANSWER = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]
}
ALICE, BOB = ("Authorization", "Bearer alice"), ("Authorization", "Bearer bob")
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


def chat(*texts: str, system: str = SYSTEM) -> dict:
    turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    return {"model": "m", "tools": TOOLS, "messages": [{"role": "system", "content": system}, *turns]}


@pytest.fixture(params=["memory", "redis"])
def proxy(request: pytest.FixtureRequest, start_proxy: StartProxy, backend) -> Proxy:
    """A proxy without tenants, its state in its own memory or in Redis."""
    backend.answer(as_json(ANSWER))
    return _start(request, start_proxy)


@pytest.fixture(params=["memory", "redis"])
def tenants(request: pytest.FixtureRequest, start_proxy: StartProxy, backend) -> Proxy:
    """A proxy that tells tenants apart."""
    backend.answer(as_json(ANSWER))
    return _start(request, start_proxy, tenant_header="X-Tenant")


def _start(request: pytest.FixtureRequest, start_proxy: StartProxy, **settings: str) -> Proxy:
    if request.param == "memory":
        return start_proxy(**settings)
    valkey: Valkey = request.getfixturevalue("valkey")
    proxy = start_proxy(redis_url=valkey.url, **settings)
    wait_for(lambda: proxy.json("/status")["state"]["mode"] == "redis")
    return proxy


def explained(proxy: Proxy, answer) -> dict:
    return proxy.json(f"/api/requests/{answer.ours['request-id']}/explain")


@pytest.mark.parametrize("other", [[BOB], [], [("x-api-key", "bob")], [("Authorization", "Basic YWxpY2U6")]])
def test_two_credentials_share_no_conversation(proxy: Proxy, other: list) -> None:
    """The same body under another credential, or none: no parent, no session, no offset, no text."""
    first = proxy.chat(chat(SECRET), [ALICE])
    mine = proxy.chat(chat(SECRET, "ok", "go on"), [ALICE])
    theirs = proxy.chat(chat(SECRET, "ok", "go on"), other)
    changed = proxy.chat(chat(SECRET, "ok", "go away", system=SYSTEM + "!"), other)

    assert mine.ours["hit"] == "prefix"
    assert theirs.ours["hit"] == "system+tools"  # machine-wide without tenants, and counts alone
    assert theirs.ours.get("session") != first.ours["session"]
    told = explained(proxy, theirs)
    assert (told["relation"], told["parent_id"], told["before"], told["after"]) == ("first", None, None, None)
    own = explained(proxy, changed)
    assert own["parent_id"] == theirs.ours["request-id"]


def test_an_explicit_session_of_another_scope_is_another_session(proxy: Proxy) -> None:
    """A session id is a name, not a key: it opens nothing of another's."""
    name = ("X-MetalAnchor-Session", "shared-name")
    proxy.chat(chat(SECRET), [ALICE, name])
    theirs = proxy.chat(chat(SECRET, "ok", "go on"), [BOB, name])

    told = explained(proxy, theirs)
    assert (theirs.ours["hit"], told["parent_id"]) == ("system+tools", None)


def test_tenants_do_not_even_share_hits(tenants: Proxy) -> None:
    """With tenants configured, that somebody uses the same system prompt or tools stays theirs too."""
    one, two = ("X-Tenant", "one"), ("X-Tenant", "two")
    tenants.chat(chat(SECRET), [ALICE, one])
    same = tenants.chat(chat("hello"), [ALICE, one])
    other = tenants.chat(chat("hello"), [ALICE, two])
    nobody = tenants.chat(chat("hello"), [ALICE])

    assert same.ours["hit"] == "system+tools"
    assert (other.ours["hit"], other.ours["reuse"]) == ("none", "0.0000")
    assert (nobody.ours["hit"], nobody.ours["reuse"]) == ("none", "0.0000")
    assert explained(tenants, other)["parent_id"] is None


def test_a_tenant_narrows_and_never_replaces_the_credential(tenants: Proxy) -> None:
    """Who knows a tenant's name is not yet in it: the credential counts as well."""
    one = ("X-Tenant", "one")
    tenants.chat(chat(SECRET), [ALICE, one])
    theirs = tenants.chat(chat(SECRET, "ok", "go on"), [BOB, one])

    assert theirs.ours["hit"] == "system+tools"  # inside the tenant, across its credentials
    assert explained(tenants, theirs)["parent_id"] is None
