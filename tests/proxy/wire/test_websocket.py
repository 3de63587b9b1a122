"""WebSockets through the proxy: handshake, messages, ends; each one row of kind `other`."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import Server, ServerConnection, serve

from tests.support.proxy import Proxy, StartProxy

pytestmark = pytest.mark.process


@pytest.fixture
def echo() -> Iterator[tuple[Server, list[ServerConnection]]]:
    """A WebSocket server that echoes, tells what it was asked, and closes when told to."""
    seen: list[ServerConnection] = []

    def handle(connection: ServerConnection) -> None:
        seen.append(connection)
        with contextlib.suppress(ConnectionClosed):
            for message in connection:
                if message == "close":
                    connection.close(4001, "told to")
                    return
                if message == "drop":
                    connection.socket.shutdown(socket.SHUT_RDWR)
                    return
                connection.send(message)

    server = serve(handle, "127.0.0.1", 0, subprotocols=["v1"], select_subprotocol=_first)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server, seen
    server.shutdown()
    thread.join(10)


@pytest.fixture
def proxy(start_proxy: StartProxy, echo: tuple[Server, list[ServerConnection]]) -> Proxy:
    """A proxy with a token in front of it."""
    return start_proxy(backend_url=f"http://127.0.0.1:{echo[0].socket.getsockname()[1]}", token="tkn")


def _first(_: ServerConnection, offered: Sequence[Any]) -> Any:
    return offered[0] if offered else None


def open_socket(proxy: Proxy, target: str = "/llm?x=1", **more: Any) -> connect:
    """A connection to use in a `with` statement, once the proxy is up."""
    headers = {"X-MetalAnchor-Token": "tkn", "X-Mine": "1"} | more.pop("headers", {})
    return connect(f"ws://127.0.0.1:{proxy.port}{target}", additional_headers=headers, proxy=None, **more)


def test_a_conversation_and_its_ends(proxy: Proxy, echo: tuple[Server, list[ServerConnection]]) -> None:
    """Target, headers, subprotocol and messages pass; each end is told to the other side and noted."""
    with open_socket(proxy, subprotocols=["v1"]) as client:
        assert client.subprotocol == "v1"
        for message in ("text", b"bytes", "x" * 200_000):
            client.send(message)
            assert client.recv(10) == message
    request = echo[1][0].request
    assert request is not None
    assert request.path == "/llm?x=1"
    assert request.headers["X-Mine"] == "1"
    assert "X-MetalAnchor-Token" not in request.headers

    with open_socket(proxy) as client:
        client.send("close")
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(10)
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "told to")

    with open_socket(proxy) as client:
        client.send("drop")
        with pytest.raises(ConnectionClosed):
            client.recv(10)

    with (
        pytest.raises(InvalidStatus) as refused,
        open_socket(proxy, headers={"X-MetalAnchor-Token": "wrong"}),
    ):
        pass
    assert refused.value.response.status_code == 401

    rows = proxy.wait_rows(4, lambda row: row["endpoint"] == "/llm")
    assert [row["status"] for row in rows] == ["completed", "completed", "upstream_reset", "rejected"]
    assert {row.get("kind", "other") for row in rows} == {"other"}


def test_a_client_that_vanishes_frees_the_backend(
    proxy: Proxy, echo: tuple[Server, list[ServerConnection]]
) -> None:
    """A WebSocket that is cut without a close frame ends at the backend too."""
    with open_socket(proxy) as client:
        client.send("hello")
        client.recv(10)
        client.socket.shutdown(socket.SHUT_RDWR)

    (row,) = proxy.wait_rows(1, lambda row: row["endpoint"] == "/llm")
    assert row["status"] in {"client_cancelled", "completed"}  # granian reports a cut and a close alike
    end = time.monotonic() + 5
    while echo[1][0].protocol.state.name != "CLOSED":
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_live_socket_does_not_hold_a_stop(proxy: Proxy) -> None:
    """SIGTERM ends it, with a row."""
    with open_socket(proxy) as client:
        client.send("hello")
        client.recv(10)
        started = time.monotonic()

        assert proxy.stop() == 0

        assert time.monotonic() - started < 3
        with pytest.raises(ConnectionClosed):
            client.recv(10)
    assert [row["status"] for row in proxy.rows() if row["endpoint"] == "/llm"] == ["proxy_stopped"]
