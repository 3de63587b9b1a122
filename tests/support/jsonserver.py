"""A server of JSON on a real socket, which answers as a test says: embeddings, or the votes of a model."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Answer = Callable[[str, dict[str, Any]], Any]


class JsonServer:
    """`answer` maps a path and a body to a reply (an int is a status); `seen` are the requests so far."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.answer: Answer = lambda path, body: 404
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append((self.path, body))
                reply = outer.answer(self.path, body)
                text = json.dumps(reply).encode() if not isinstance(reply, int | bytes) else reply
                self.send_response(text if isinstance(text, int) else 200)
                text = b"" if isinstance(text, int) else text
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the base class's name

        return Handler

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()


@pytest.fixture
def json_server() -> Iterator[JsonServer]:
    """A server that answers 404 until a test says otherwise."""
    server = JsonServer()
    yield server
    server.close()
