"""The scripted model server as a process of its own, so that it can be killed and frozen like a real one.

`python -m tests.faults.model PORT LOG` answers as Ollama does, and misbehaves where a request asks for it by
`X-Fault`. It appends the `X-Ledger` number of every request it received to LOG: what the backend saw, the
proxy must have a row for.
"""

import os
import signal
import sys
import threading
from collections import deque
from pathlib import Path

from tests.support.backend import Backend, Engine, Ollama, Received, Reply, ndjson

DELTA = {"model": "qwen3:8b", "message": {"role": "assistant", "content": "x"}, "done": False}
FAULTS = {
    "garbage": Reply(framing="raw", writes=[(0.0, b"\x16\x03\x01 this is no HTTP\r\n\r\n")], end="close"),
    "cut": ndjson([DELTA] * 3, end="reset"),
    "close": Reply(framing="raw", end="close"),
    "half": Reply(framing="raw", writes=[(0.0, b"HTTP/1.1 200 OK\r\nContent-Type: app")], end="hang"),
    "silent": Reply(framing="raw", end="hang"),
    "leave": ndjson([DELTA] * 400, gap=0.02),
}


class Model:
    """An Ollama that keeps a ledger of what reached it."""

    def __init__(self, ledger: Path) -> None:
        self._ollama = Ollama(Engine(slots=2, decode_s=0))
        self._file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, received: Received) -> Reply:
        """Answer one request; its number is on disk before the answer leaves."""
        number = received.header("x-ledger")
        if number is not None:
            os.write(self._file, number.encode() + b"\n")
        fault = FAULTS.get(received.header("x-fault") or "")
        return fault if fault is not None else self._ollama(received)


def main() -> None:
    """Serve until told to stop."""
    backend = Backend(port=int(sys.argv[1]))
    backend.requests = deque(maxlen=64)  # 5,000 bodies of 200 KB are not to be kept
    backend.answer(Model(Path(sys.argv[2])))
    backend.start()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    stopped.wait()
    backend.stop()


if __name__ == "__main__":
    main()
