"""What lies outside our prefix is the backend's, byte for byte; what lies below it is ours alone."""

import json

import pytest

from tests.support.backend import Reply, as_json, body, sse
from tests.support.proxy import Wire

pytestmark = pytest.mark.process

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("HEAD", "/"),
        ("GET", "/"),
        ("DELETE", "/api/delete"),
        ("GET", "/slots"),
        ("GET", "/metrics"),
        ("POST", "/tokenize"),
        ("GET", "/v1/models/x%2Fy"),
        ("GET", "/a%2fb//c/../d/./e?x=%20y&x=1&&z"),
        ("PROPFIND", "/%E6%97%A5"),
        ("PUT", "/api/blobs/sha256:abc?q=a+b"),
        ("PATCH", "/;p=1,2'()*!$&@~"),
        ("GET", "/healthz"),
        ("GET", "/metalanchorx/status"),
        ("GET", "/MetalAnchor/status"),
        ("GET", "/v1/metalanchor/status"),
        ("OPTIONS", "*"),
    ],
)
def test_r65_every_method_path_and_query_arrives_as_sent(wire: Wire, method: str, target: str) -> None:
    """The backend sees the same method and target; HEAD brings headers only; each has its row."""
    answer = wire.proxy.request(method, target)

    assert answer.status == 200
    assert (wire.received[0].method, wire.received[0].target) == (method, target)
    row = wire.proxy.row(answer)
    assert row["status"] == "completed"
    assert row.get("hit") is None
    assert "?" not in row["endpoint"]


@pytest.mark.parametrize(
    "target",
    [
        "//metalanchor/status",
        "/%6detalanchor/status",
        "/metalanchor%2fstatus",
        "/metalanchor%2Fstatus",
        "/x/../metalanchor/status",
        "/./metalanchor/status",
        "/metalanchor;/status",
        "/metalanchor\\status",
    ],
)
def test_no_other_spelling_reaches_our_own_routes(wire: Wire, target: str) -> None:
    """Doubled, encoded and dotted forms of the prefix are the backend's affair, as sent."""
    wire.answer(body("the backend"))

    answer = wire.proxy.request("GET", target)

    assert answer.body == b"the backend"
    assert wire.received[0].target == target


@pytest.mark.parametrize(
    "target",
    [
        "/metalanchor//status",
        "/metalanchor/%73tatus",
        "/metalanchor/api%2frequests",
        "/metalanchor/./status",
        "/metalanchor/x/../status",
        "/metalanchor/nothing",
        "/metalanchor/api/requests/%2e%2e/%2e%2e/status",
    ],
)
def test_what_is_unknown_below_the_prefix_is_our_own_404(wire: Wire, target: str) -> None:
    """Neither a tidied path nor an unknown one reaches a route or the backend."""
    answer = wire.proxy.request("GET", target)

    assert answer.status == 404
    assert answer.ours["error"]
    assert not wire.received


def test_our_own_routes_need_no_backend_and_leave_no_row(wire: Wire) -> None:
    """Health answers without asking the backend, and is no request of the log."""
    wire.proxy.row(wire.proxy.request("GET", "/marker"))  # rows come in order: those of other tests are in
    before, asked = {row["id"] for row in wire.proxy.rows()}, len(wire.received)

    answer = wire.proxy.request("GET", "/metalanchor/healthz")

    assert json.loads(answer.body) == {"status": "ok"}
    assert len(wire.received) == asked
    wire.proxy.row(wire.proxy.request("GET", "/marker"))
    assert [row["endpoint"] for row in wire.proxy.rows() if row["id"] not in before] == ["/marker"]


def test_r66_the_preflight_is_the_backends_and_so_are_its_headers(wire: Wire) -> None:
    """OPTIONS passes unchanged; the answer's CORS headers come with its first bytes."""
    allow = [
        ("Access-Control-Allow-Origin", "http://app"),
        ("Access-Control-Allow-Headers", "authorization,x-title"),
    ]
    delta = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
    wire.answer(Reply(status=204, framing="none", headers=allow), sse([delta], headers=allow))
    asked = [("Origin", "http://app"), ("Access-Control-Request-Headers", "authorization,x-title")]

    preflight = wire.proxy.request("OPTIONS", "/v1/chat/completions", headers=asked)
    answer = wire.proxy.chat({**CHAT, "stream": True}, asked[:1])

    assert preflight.status == 204
    assert preflight.header("access-control-allow-headers") == "authorization,x-title"
    assert wire.received[0].header("access-control-request-headers") == "authorization,x-title"
    assert answer.header("access-control-allow-origin") == "http://app"
    assert answer.header("access-control-expose-headers") is None
    assert wire.proxy.row(preflight).get("kind", "other") == "other"


def test_r67_host_is_the_backends_and_origin_the_clients(wire: Wire) -> None:
    """The backend finds its own name in Host, the client's Origin, and nobody's X-Forwarded headers."""
    wire.answer(as_json({"error": "origin not allowed"}, status=403))

    answer = wire.proxy.chat(CHAT, [("Origin", "null")], path="/api/chat")

    received = wire.received[0]
    assert received.all("host") == [wire.backend.url.removeprefix("http://")]
    assert received.header("origin") == "null"
    assert not [
        name for name, _ in received.headers if name.lower().startswith(("x-forwarded", "forwarded", "via"))
    ]
    assert (answer.status, json.loads(answer.body)) == (403, {"error": "origin not allowed"})


def test_r69_credentials_pass_and_are_not_logged(wire: Wire) -> None:
    """Both key headers arrive; no row and no log line holds them."""
    secrets = {
        "Authorization": "Bearer secret-token-t",
        "x-api-key": "secret-key-k",
        "api-key": "secret-key-a",
    }
    sent = [
        *secrets.items(),
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "x"),
        ("Cookie", "secret-c=1"),
    ]

    answer = wire.proxy.request("POST", "/v1/messages?key=secret-q", json.dumps(CHAT).encode(), sent)

    for name, value in sent:
        assert wire.received[0].header(name) == value
    row = json.dumps(wire.proxy.row(answer))
    assert "secret" not in row
    assert "secret" not in wire.proxy.log.read_text()


def test_headers_of_ours_are_read_and_never_forwarded(wire: Wire) -> None:
    """X-MetalAnchor headers stop here, also those that mean nothing; all others go as received, in order."""
    ours = [
        ("X-MetalAnchor-Session", "s-1"),
        ("X-MetalAnchor-Cache-Control", "no-store"),
        ("x-metalanchor-zzz", "1"),
    ]
    others = [("X-B", "2"), ("X-A", "1"), ("Accept", "a/b;q=0.5, */*"), ("X-Empty", ""), ("X-Spaced", "a  b")]

    answer = wire.proxy.chat(CHAT, [*ours, *others, ("X-B", "3")])

    received = wire.received[0]
    assert not [name for name, _ in received.headers if name.lower().startswith("x-metalanchor")]
    for name, value in others[1:]:
        assert received.header(name) == value
    assert received.all("x-b") == ["2", "3"]
    assert answer.ours["session"] == "s-1"
    assert wire.proxy.row(answer)["session"] == "s-1"


def test_repeated_answer_headers_keep_their_order(wire: Wire) -> None:
    """Two cookies stay two, a backend's own X-MetalAnchor header is not passed off as ours."""
    wire.answer(
        body("x", headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-MetalAnchor-Hit", "exact")])
    )

    answer = wire.proxy.request("GET", "/x")

    assert answer.all("set-cookie") == ["a=1", "b=2"]
    assert set(answer.ours) == {"request-id"}


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("CONNECT", []),
        ("GET", [("Connection", "Upgrade"), ("Upgrade", "h2c")]),
        ("GET", [("Connection", "Upgrade"), ("Upgrade", "tls/1.2")]),
        ("POST", [("Connection", "Upgrade"), ("Upgrade", "something")]),
    ],
)
def test_connect_and_unknown_upgrades_are_not_supported(wire: Wire, method: str, headers: list) -> None:
    """They are answered 501, by us, and have their row."""
    target = "example.org:80" if method == "CONNECT" else "/v1/x"

    answer = wire.proxy.request(method, target, headers=headers)

    assert answer.status == 501
    assert answer.ours["error"] == "not_supported"
    assert not wire.received
    assert wire.proxy.row(answer)["status"] == "rejected"


def test_an_offer_of_http2_is_passed_over(wire: Wire) -> None:
    """Java's client offers h2c with each first request; the request itself is served."""
    offer = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAEAAEAA")]

    answer = wire.proxy.chat(CHAT, offer)

    assert answer.status == 200
    assert wire.received[0].header("upgrade") is None
    assert wire.received[0].header("http2-settings") is None


@pytest.mark.parametrize("expect", [True, False])
def test_a_client_that_waits_for_leave_to_send_gets_it(wire: Wire, expect: bool) -> None:
    """Expect: 100-continue is answered here and not forwarded."""
    raw = json.dumps(CHAT).encode()
    headers = [("Expect", "100-continue")] if expect else []

    answer = wire.proxy.request("POST", "/v1/chat/completions", raw, headers)

    assert answer.status == 200
    assert wire.received[0].header("expect") is None
    assert wire.received[0].body == raw


def test_an_http10_client_is_served(wire: Wire) -> None:
    """A request without Host in the old protocol is answered and closed."""
    wire.answer(body("old", framing="chunked"))
    with wire.proxy.client() as client:
        client.socket.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        raw = b""
        while data := client.socket.recv(65_536):
            raw += data

    assert raw.startswith(b"HTTP/1.0 200")
    assert raw.endswith(b"\r\n\r\nold")
