"""Samples of a model server over a span of time, in a history, as a worker would have stored them."""

import math
import time

from services.history.engine import open_engine
from services.watch import samples
from services.watch.reading import Reading, between


def fill_samples(url: str, backend: str = "127.0.0.1:8000", hours: float = 48, step_s: float = 600) -> int:
    """A vLLM under a working day's load, with one restart in mid span; answers how many samples."""
    engine, count = open_engine(url), int(hours * 3_600 / step_s)
    before, lookups, hits = None, 0, 0
    first = time.time() - hours * 3_600
    with engine.begin() as connection:
        for number in range(count):
            if number == count // 2:
                lookups = hits = 0
            busy = max(0.0, math.sin(number / 12))
            lookups, hits = lookups + int(40_000 * busy), hits + int(40_000 * busy * (0.9 - 0.4 * busy))
            now = Reading(
                exporter="vllm",
                at=first + number * step_s,
                model="m",
                unit="tokens",
                lookups=lookups,
                hits=hits,
                kv_usage=round(0.1 + 0.8 * busy, 3),
                running=round(4 * busy),
                waiting=round(max(0.0, 6 * busy - 4)),
            )
            samples.store(connection, backend, now, between(before, now))
            before = now
    engine.dispose()
    return count
