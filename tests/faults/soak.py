"""A day's mixed traffic scaled to minutes: ``python -m tests.faults.soak [SECONDS]``.

All dialects, whole and streamed, clients that leave, answers that break off. Memory, descriptors, threads,
open requests, Redis' keys and bytes are sampled; over the last half none may grow. Caps are scaled down with
the time, so that they are reached and what lies beyond them is seen. Writes docs/soak.svg and prints figures.
"""

import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.faults.ledger import as_planned, compare, read_rows
from tests.faults.stack import Stack, until
from tests.faults.traffic import Traffic

PLOT = Path(__file__).parents[2] / "docs" / "soak.svg"
SECONDS = 240.0
EVERY_S = 1.0
STATE_BYTES = 4 << 20
# What may be added over the last half: noise of an allocator and of connections that come and go.
SLACK = {
    "proxy MB": 8.0, "worker MB": 8.0, "descriptors": 24.0, "threads": 4.0, "open requests": 12.0,
    "Redis keys": 200.0, "Redis MB": 1.5,
}  # fmt: skip


@dataclass
class Series:
    """One figure over time."""

    name: str
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def growth(self) -> float:
        """Mean of the last quarter less mean of the one before it."""
        quarter = max(1, len(self.values) // 4)
        last, before = self.values[-quarter:], self.values[-2 * quarter : -quarter]
        return sum(last) / len(last) - sum(before) / len(before)


def sample(stack: Stack, into: dict[str, Series], at: float) -> None:
    """One look at everything."""
    proxy, worker = psutil.Process(stack.proxy.process.pid), psutil.Process(stack.worker.pid)
    status = stack.proxy.json("/status")
    with stack.valkey.client() as client:
        keys, memory = client.dbsize(), client.info("memory")["used_memory"]
    figures = {
        "proxy MB": proxy.memory_info().rss / 1e6, "worker MB": worker.memory_info().rss / 1e6,
        "descriptors": proxy.num_fds(), "threads": proxy.num_threads(),
        "open requests": status["journal"]["open"], "Redis keys": keys, "Redis MB": memory / 1e6,
    }  # fmt: skip
    for name, value in figures.items():
        series = into.setdefault(name, Series(name))
        series.times.append(at)
        series.values.append(float(value))


def plot(found: dict[str, Series], title: str) -> str:
    """Small multiples as SVG, one panel a figure from zero up."""
    width, height, left = 640, 90, 110
    size = f'width="{width + 20}" height="{40 + len(found) * height}"'
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="13">{title}</text>',
    ]
    for place, series in enumerate(found.values()):
        top, deep = 34 + place * height, height - 24
        high, end = max(*series.values, 1e-9) * 1.1, max(series.times[-1], 1e-9)
        points = " ".join(
            f"{left + (width - left) * t / end:.1f},{top + deep - deep * v / high:.1f}"
            for t, v in zip(series.times, series.values, strict=True)
        )
        rows += [
            f'<text x="10" y="{top + 14}">{series.name}</text>',
            f'<text x="10" y="{top + 30}" fill="#666">{series.values[-1]:.1f} at the end</text>',
            f'<path d="M{left} {top}V{top + deep}H{width}" fill="none" stroke="#bbb"/>',
            f'<polyline points="{points}" fill="none" stroke="#2563a8" stroke-width="1.5"/>',
        ]
    return "\n".join([*rows, "</svg>", ""])


def run(seconds: float) -> int:
    """Soak; 0 when everything stayed flat and every row is there."""
    found: dict[str, Series] = {}
    with tempfile.TemporaryDirectory(prefix="ma-soak-") as folder:
        database = f"sqlite:///{folder}/history.sqlite"
        stack = Stack(Path(folder) / "stack", database, state_max_bytes=STATE_BYTES).start()
        try:
            with Traffic(stack.proxy.port, clients=6, pause_s=0.005, faults=0.05) as traffic:
                start = time.monotonic()
                while (at := time.monotonic() - start) < seconds:
                    sample(stack, found, at)
                    time.sleep(EVERY_S)
            until(lambda: not compare(traffic.entries, read_rows(database), stack.received()).lost)
            books = compare(traffic.entries, read_rows(database), stack.received())
        finally:
            stack.stop()
    failed = [entry for entry in traffic.entries if not as_planned(entry)]
    count = len(traffic.entries)
    title = f"{count:,} requests in {seconds:.0f} s, state capped at {STATE_BYTES >> 20} MiB"
    PLOT.write_text(plot(found, title))
    grown = {name: series.growth() for name, series in found.items()}
    for name, series in found.items():
        first, last = series.values[0], series.values[-1]
        print(f"{name:14} {first:9.1f} → {last:9.1f}, last quarter {grown[name]:+.2f}")
    wrong = [name for name, growth in grown.items() if growth > SLACK[name]]
    doubled, differ = len(books.doubled), len(books.wrong)
    print(f"{count} requests, {len(failed)} failed; rows: {doubled} doubled, {differ} wrong")
    if wrong:
        print("still growing: " + ", ".join(wrong))
    return int(bool(wrong or failed or books.doubled or books.wrong))


if __name__ == "__main__":
    sys.exit(run(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
