"""Model servers as far as a probe sees them: what each kind answers to the questions it knows.

Shapes are those of BACKENDS' wire facts; everything a kind does not know is its own kind of 404.
"""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Answers = dict[str, tuple[int, Any]]

KINDS: dict[str, Answers] = {
    "ollama": {
        "/": (200, "Ollama is running"),
        "/api/version": (200, {"version": "0.33.3"}),
        "/v1/models": (200, {"object": "list", "data": [{"id": "qwen3:8b", "owned_by": "library"}]}),
    },
    "llama-server": {
        "/": (200, "<html></html>"),
        "/health": (200, {"status": "ok"}),
        "/props": (
            200,
            {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 4, "build_info": "b10472-abc"},
        ),
        "/v1/models": (200, {"models": [], "data": [{"id": "m.gguf", "owned_by": "llamacpp"}]}),
    },
    "loading llama-server": {
        path: (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
        for path in ("/", "/props", "/v1/models", "/health")
    },
    "lmstudio": {
        "/": (200, {"error": "Unexpected endpoint or method. (GET /)"}),
        "/props": (200, {"error": "Unexpected endpoint or method. (GET /props)"}),
        "/api/version": (200, {"error": "Unexpected endpoint or method. (GET /api/version)"}),
        "/api/v1/models": (200, {"models": [{"key": "qwen", "type": "llm"}]}),
        "/v1/models": (200, {"object": "list", "data": [{"id": "qwen", "owned_by": "organization_owner"}]}),
    },
    "old lmstudio": {
        "/api/v0/models": (200, {"object": "list", "data": [{"id": "qwen", "state": "loaded"}]}),
    },
    "vllm": {
        "/health": (200, ""),
        "/version": (200, {"version": "0.11.2"}),
        "/v1/models": (200, {"object": "list", "data": [{"id": "m", "owned_by": "vllm"}]}),
    },
    "ds4": {
        "/v1/models": (200, {"object": "list", "data": [{"id": "deepseek-v4-flash", "object": "model"}]}),
    },
    "mlx_lm": {
        "/health": (200, {"status": "ok"}),
        "/v1/models": (200, {"object": "list", "data": [{"id": "mlx/m", "object": "model"}]}),
    },
    "openai": {
        "/v1/models": (200, {"object": "list", "data": [{"id": "m", "owned_by": "me"}]}),
    },
    "website": {"/": (200, "<html>hello</html>")},
}


class ModelServer:
    """One of them, on a free port. `asked` lists the paths of all GETs; `answers` may change meanwhile."""

    def __init__(self, answers: Answers, port: int = 0) -> None:
        self.asked: list[str] = []
        asked, answers = self.asked, dict(answers)
        self.answers = answers

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked.append(self.path)
                self._answer(*answers.get(self.path, (404, "404 page not found")))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self._answer(
                    200, {"model": "m", "message": {"role": "assistant", "content": "hi"}, "done": True}
                )

            def _answer(self, status: int, value: Any) -> None:
                body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def model_server() -> Iterator[Callable[[str], ModelServer]]:
    """Starts model servers by kind; they end with the test."""
    started: list[ModelServer] = []

    def start(kind: str) -> ModelServer:
        started.append(ModelServer(KINDS[kind]))
        return started[-1]

    yield start
    for server in started:
        server.stop()
