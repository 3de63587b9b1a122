"""What `bench.answers` measures with: the requests, a load that checks each verdict, proxies and servers."""

import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench._answers_fill import CAP
from bench._wire_targets import LOAD_CORE, TARGET_CORE, Target, free_port, launched
from services.proxy.key import load_key
from services.settings import Settings
from tests.support.http import Client
from tests.support.valkey import Valkey

KB = 1 << 10
CHAT = "/v1/chat/completions"
TRIES, LATE_S = 4, 0.4  # longer than Redis is left alone after it was late


@dataclass(frozen=True)
class Case:
    """A request of `size` bytes, and what the backend (`bench._wire_backend`) says to it."""

    name: str
    size: int
    model: str = "instant"
    stream: bool = False

    def body(self, number: object) -> bytes:
        """The request; another number is another question."""
        turns = [{"role": "system", "content": "You are a careful agent."}]
        text = "The agent looks at a file of the work tree, its tests, and what they say. " * 6
        turns += [
            {"role": "assistant" if turn % 2 else "user", "content": f"{turn} {text}"}
            for turn in range(max(0, self.size - 200) // (len(text) + 40))
        ]
        turns.append({"role": "user", "content": f"Take step {number}."})
        return json.dumps({"model": self.model, "stream": self.stream, "messages": turns}).encode()


CASES = [
    Case("small", 200),
    Case("small, 100 events", 200, "paced:100:0", stream=True),
    Case("8 KB", 8 * KB),
    Case("8 KB, 100 events", 8 * KB, "paced:100:0", stream=True),
    Case("200 KB", 200 * KB),
    Case("200 KB, 100 events", 200 * KB, "paced:100:0", stream=True),
    Case("8 KB, 1,500 events (200 KB)", 8 * KB, "paced:1500:0", stream=True),
]


class Load:
    """One kept-alive connection to a proxy, which counts its CPU time."""

    def __init__(self, target: Target) -> None:
        self._target, self._client = target, Client(target.port, timeout=30)
        self._began = target.cpu()
        self.first: list[float] = []
        self.whole: list[float] = []
        self.late = self.missed = 0

    def ask(self, body: bytes, verdict: str, control: str = "") -> None:
        """One request, whose answer the cache must call `verdict`.

        A miss where Redis or the embedding was late, as happens on a busy machine, is counted and tried
        again, but not timed. `missed` counts questions that were not found at all.
        """
        headers = [("Content-Type", "application/json"), ("Authorization", "Bearer sk-local")]
        headers += [("X-MetalAnchor-Cache-Control", control)] if control else []
        for late in range(TRIES):
            began = time.monotonic()
            answer = self._client.request("POST", CHAT, body, headers)
            ended = time.monotonic()
            if (answer.status, answer.ours["cache"]) == (200, verdict):
                if not late:
                    self.whole.append((ended - began) * 1e3)
                    self.first.append((answer.head_at - began) * 1e3)
                return
            if answer.ours["cache"] != "miss":
                break
            self.late += 1
            time.sleep(LATE_S)
        if verdict == "semantic" and answer.ours["cache"] == "miss":
            self.missed += 1
            return
        raise RuntimeError(f"{answer.status} {answer.ours} where {verdict} was due: {body[-200:]!r}")

    def figures(self) -> dict[str, float]:
        """Milliseconds to the head and to the end of an answer, and of CPU."""
        self._client.close()
        whole = sorted(self.whole)
        used = (self._target.cpu() - self._began) * 1e3 / (len(whole) + 2 * self.late)
        return {
            "first_p50_ms": statistics.median(self.first), "p50_ms": statistics.median(whole),
            "p95_ms": whole[int(len(whole) * 0.95)], "cpu_ms": used, "late": self.late,
            "missed": self.missed,
        }  # fmt: skip


@contextlib.contextmanager
def proxies(folder: Path, redis: Valkey, *modes: str) -> Iterator[tuple[bytes, list[Target]]]:
    """A backend and a proxy in front of it for each mode of the cache; and the key they share."""
    with contextlib.ExitStack() as stack:
        backend = free_port()
        stack.enter_context(
            launched([sys.executable, "-m", "bench._wire_backend", str(backend)], backend, LOAD_CORE)
        )
        targets = []
        for mode in modes:
            port = free_port()
            environment = {
                "METALANCHOR_PORT": port, "METALANCHOR_BACKEND_URL": f"http://127.0.0.1:{backend}",
                "METALANCHOR_REDIS_URL": redis.url, "METALANCHOR_DATA_DIR": folder / f"data-{port}",
                "METALANCHOR_KEY_FILE": folder / "install.key", "METALANCHOR_RESPONSE_CACHE": mode,
                "METALANCHOR_RESPONSE_CACHE_MAX_BYTES": CAP,
            }  # fmt: skip
            command = [sys.executable, "-m", "services.cli", "proxy"]
            shown = {name: str(value) for name, value in environment.items()}
            targets.append(
                Target(mode, port, stack.enter_context(launched(command, port, TARGET_CORE, shown)))
            )
        yield load_key(Settings(key_file=str(folder / "install.key"))), targets


@contextlib.contextmanager
def server(binary: Path | None = None) -> Iterator[tuple[Path, Valkey]]:
    """An empty Redis in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        redis = Valkey(folder, binary)
        redis.start()
        try:
            yield folder, redis
        finally:
            redis.stop()
