"""Who is let in: names that cannot be another site's, pages of our own, and the token where one is set."""

import json

import pytest

from services.proxy.wire.errors import RefusedError
from services.proxy.wire.guard import Guard
from services.settings import Settings
from tests.support.backend import Backend
from tests.support.proxy import StartProxy, Wire

HEADERS = list[tuple[bytes, bytes]]
TOKEN = "s3cret-token"


def refused(guard: Guard, **checks: HEADERS) -> str | None:
    ((name, headers),) = checks.items()
    try:
        getattr(guard, name)(headers)
    except RefusedError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1:8084", "localhost", "localhost:1", "LOCALHOST:80", "[::1]", "[::1]:8084",
        "192.168.1.20:8084", "host.docker.internal:8084", "10.0.0.1", "0.0.0.0:1", "[fe80::1]:2", "",
    ],
)  # fmt: skip
def test_addresses_and_local_names_are_let_in(host: str) -> None:
    """IP literals, localhost and Docker's name for the host cannot be rebound by a foreign DNS."""
    assert refused(Guard(Settings()), check_host=[(b"host", host.encode())]) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8084", "localhost.evil.example", "127.0.0.1.evil.example", "xlocalhost",
        "127.0.0.1@evil.example", "localhost:80:evil", "[::1].evil", "[evil]", "localhost ", "127.0.0.1.",
        "2130706433", "0x7f.1", "::1:evil", "host.docker.internal.evil", "localhost/", "[::1]evil",
    ],
)  # fmt: skip
def test_every_other_name_is_refused(host: str) -> None:
    """A name that somebody else's DNS may point at this machine is not answered."""
    assert refused(Guard(Settings()), check_host=[(b"host", host.encode())]) == "host_not_allowed"


def test_configured_names_are_let_in_whatever_their_case_and_port() -> None:
    """METALANCHOR_ALLOWED_HOSTS adds names."""
    guard = Guard(Settings(allowed_hosts=("Box.Local",)))

    assert refused(guard, check_host=[(b"host", b"box.local:8084")]) is None
    assert refused(guard, check_host=[(b"host", b"other.local")]) == "host_not_allowed"


def test_a_verdict_is_not_mixed_up_with_an_earlier_one() -> None:
    """Known good names are remembered; bad ones stay bad."""
    guard = Guard(Settings())
    for _ in range(2):
        assert refused(guard, check_host=[(b"host", b"localhost:1")]) is None
        assert refused(guard, check_host=[(b"host", b"evil:1")]) == "host_not_allowed"


@pytest.mark.parametrize(
    ("origin", "fine"),
    [
        ("http://127.0.0.1:8084", True), ("https://127.0.0.1:8084", True), ("http://127.0.0.1:9999", False),
        ("null", False), ("https://evil.example", False), ("http://127.0.0.1:8084.evil", False), ("", False),
        ("chrome-extension://127.0.0.1:8084", False),
    ],
)  # fmt: skip
def test_our_own_routes_serve_our_own_pages(origin: str, fine: bool) -> None:
    """An Origin must be the address the request was sent to."""
    headers = [(b"host", b"127.0.0.1:8084"), (b"origin", origin.encode())]

    assert (refused(Guard(Settings()), check_origin=headers) is None) is fine


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-metalanchor-token", TOKEN), ("authorization", f"Bearer {TOKEN}"),
        ("authorization", f"bearer {TOKEN}"),
        ("x-api-key", TOKEN),
    ],
)  # fmt: skip
def test_the_token_is_taken_in_three_forms_and_taken_out(name: str, value: str) -> None:
    """Each form lets in, and is not left for the backend; everything else is."""
    guard = Guard(Settings(token=TOKEN))
    other = (
        (b"authorization", b"Bearer of-the-backend")
        if name != "authorization"
        else (b"x-api-key", b"backend")
    )

    kept = guard.admit([(b"host", b"x"), (name.encode(), value.encode()), other])

    assert kept == [(b"host", b"x"), other]


@pytest.mark.parametrize(
    "header",
    [
        ("authorization", TOKEN), ("authorization", f"Basic {TOKEN}"), ("authorization", f"Bearer {TOKEN}x"),
        ("x-api-key", ""), ("x-metalanchor-token", TOKEN[:-1]), ("cookie", TOKEN), ("x-token", TOKEN),
        ("authorization", "Bearer"), ("authorization", ""),
    ],
)  # fmt: skip
def test_everything_else_is_no_token(header: tuple[str, str]) -> None:
    """Wrong values, wrong schemes and wrong headers are refused."""
    name, value = header

    assert refused(Guard(Settings(token=TOKEN)), admit=[(name.encode(), value.encode())]) == "token_required"


def test_without_a_token_nothing_is_asked_or_taken() -> None:
    """Loopback needs none, and the clients' own keys stay."""
    headers = [(b"authorization", b"Bearer x"), (b"x-api-key", b"")]

    assert Guard(Settings()).admit(headers) is headers


@pytest.mark.process
@pytest.mark.parametrize(
    "target", ["/v1/models", "/api/tags", "/", "/metalanchor/status", "/metalanchor/healthz"]
)
def test_a_foreign_host_is_refused_on_every_route(wire: Wire, target: str) -> None:
    """Neither the backend nor our own routes answer a rebound name."""
    answer = wire.proxy.request("GET", target, host="evil.example")

    assert answer.status == 403
    assert answer.ours["error"] == "host_not_allowed"
    assert not wire.received


@pytest.mark.process
def test_a_foreign_page_may_not_use_our_own_routes(wire: Wire) -> None:
    """The backend decides about origins itself; our own routes refuse foreign ones."""
    foreign = [("Origin", "https://evil.example")]

    ours = wire.proxy.request("GET", "/metalanchor/status", headers=foreign)
    backends = wire.proxy.request("GET", "/api/tags", headers=foreign)

    assert (ours.status, ours.ours["error"]) == (403, "origin_not_allowed")
    assert backends.status == 200


@pytest.mark.process
def test_a_proxy_with_a_token_asks_everybody_but_preflights(
    start_proxy: StartProxy, backend: Backend
) -> None:
    """401 without it, the backend's answer with it, OPTIONS free; the token goes no further."""
    proxy = start_proxy(token=TOKEN)
    held = [("X-MetalAnchor-Token", TOKEN)]
    raw = json.dumps({"model": "m", "messages": []}).encode()

    without = proxy.request("POST", "/v1/messages", raw)
    assert without.status == 401
    assert json.loads(without.body)["error"]["type"] == "authentication_error"
    assert proxy.row(without)["status"] == "rejected"
    assert proxy.request("GET", "/metalanchor/status").status == 401
    assert proxy.request("OPTIONS", "/metalanchor/status").status == 401
    assert proxy.request("OPTIONS", "/v1/messages", headers=[("Origin", "http://app")]).status == 200

    for header in (*held, ("Authorization", f"Bearer {TOKEN}"), ("x-api-key", TOKEN)):
        backend.reset()
        assert proxy.request("POST", "/v1/messages", raw, [header, ("X-Other", "1")]).status == 200
        received = next(r for r in backend.requests if r.method == "POST")
        assert TOKEN not in received.head.decode()
        assert received.header("x-other") == "1"
    assert TOKEN not in proxy.log.read_text()
