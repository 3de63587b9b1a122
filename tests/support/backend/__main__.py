"""Run a scripted backend by hand: ``python -m tests.support.backend --port 11434 --kind ollama``."""

import argparse
import signal
import threading

from tests.support.backend import KINDS, Backend, Engine


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--kind", choices=sorted(KINDS), default="ollama")
    parser.add_argument(
        "--slots", type=int, default=1, help="prompts kept in the pretended prefix cache; 0 is none"
    )
    parser.add_argument("--per-token-ms", type=float, default=0.2, help="prefill time of each uncached token")
    parser.add_argument("--gap-ms", type=float, default=20.0, help="time between deltas")
    options = parser.parse_args()
    engine = Engine(slots=options.slots, per_token=options.per_token_ms / 1000, gap=options.gap_ms / 1000)
    backend = Backend(port=options.port, host=options.host).start()
    backend.answer(KINDS[options.kind](engine))
    print(f"{options.kind} on {backend.url}", flush=True)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    backend.stop()


if __name__ == "__main__":
    main()
