"""A model server whose counters move as a busy vLLM's do, and that can be restarted in mid flight."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class MovingVllm:
    """Serves ``/metrics`` of the present generation on a port that survives its restarts.

    `serve` adds what requests of that many prompt tokens would add.
    """

    def __init__(self, model: str = "m") -> None:
        self.model = model
        self.asked = 0
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin to serve with all counters at zero."""
        self.counters = {"queries": 0, "hits": 0, "prompt": 0, "generation": 0}
        self.gauges = {"running": 0, "waiting": 0, "usage": 0.0}
        self.started = time.time()
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None

    def restart(self) -> None:
        """End and start again: the counters begin at zero."""
        self.stop()
        self.start()

    def serve(self, prompt: int, cached: int, generated: int = 0, **gauges: float) -> None:
        """Count one request."""
        with self._lock:
            more = {"queries": prompt, "hits": cached, "prompt": prompt, "generation": generated}
            for name, count in more.items():
                self.counters[name] += count
            self.gauges.update(gauges)

    def text(self) -> str:
        """What ``/metrics`` answers."""
        labels = f'{{engine="0",model_name="{self.model}"}}'
        with self._lock:
            counters, gauges = dict(self.counters), dict(self.gauges)
        return "\n".join(
            [
                "# TYPE process_start_time_seconds gauge",
                f"process_start_time_seconds {self.started}",
                "# TYPE vllm:num_requests_running gauge",
                f"vllm:num_requests_running{labels} {gauges['running']}",
                f"vllm:num_requests_waiting{labels} {gauges['waiting']}",
                f"vllm:kv_cache_usage_perc{labels} {gauges['usage']}",
                "# TYPE vllm:prefix_cache_queries_total counter",
                f"vllm:prefix_cache_queries_total{labels} {counters['queries']}",
                f"vllm:prefix_cache_hits_total{labels} {counters['hits']}",
                f"vllm:prompt_tokens_total{labels} {counters['prompt']}",
                f"vllm:generation_tokens_total{labels} {counters['generation']}",
                "",
            ]
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked += self.path == "/metrics"
                body = server.text().encode() if self.path == "/metrics" else b"not found"
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
