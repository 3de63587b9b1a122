"""One fault under steady traffic: before, during, after, and what the books say at the end."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tests.faults.ledger import Books, as_planned, compare, read_rows
from tests.faults.stack import Stack, until
from tests.faults.traffic import Entry, Traffic, quantile

BEFORE_S, AFTER_S = 2.0, 1.0
RECOVERY_S = 45.0
# One request may wait 50 ms while a breaker opens. What two cores shared by ten processes add is not ours, so
# the median is held to the contract, and the worst only to what a person would notice.
ADDED_P50_MS, WORST_MS = 50.0, 3_000.0
MEMORY_GROWTH = 64 << 20

Excuse = Callable[[Entry], bool]


@dataclass
class Result:
    """One line of the table in docs/reliability.md."""

    fault: str
    database: str
    requests: int
    failed: int
    cut: int
    added_p50_ms: float
    worst_ms: float
    lost: int
    dropped: int
    doubled: int
    recovery_s: float
    memory_before: int
    memory_after: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def nothing(_: Entry) -> bool:
    """No request may fail."""
    return False


def within(spans: list[tuple[float, float]], margin_s: float = 0.3) -> Excuse:
    """Requests that were open in one of the spans: cut by what the fault itself took away."""

    def excuse(entry: Entry) -> bool:
        done = entry.done or time.monotonic()
        return any(entry.sent <= end + margin_s and done >= start for start, end in spans)

    return excuse


class Drill:
    """`run` drives a fault; `result` closes the books and holds them to the contract."""

    def __init__(self, name: str, stack: Stack, traffic: Traffic) -> None:
        self.name, self.stack, self.traffic = name, stack, traffic
        self.span = (0.0, 0.0)
        self.before = 0
        self.recovery = 0.0
        self.may_lose = 0
        self.waits: list[float] = []

    @contextlib.contextmanager
    def fault(self, *, may_lose: int = 0) -> Iterator[None]:
        """Steady traffic before, the block's fault, then the wait until nothing of it is left."""
        self.may_lose = may_lose
        began, _ = self.traffic.flow(BEFORE_S)
        self.before = self.stack.memory()
        start = time.monotonic()
        self.waits = self._waits(began, start)
        yield
        self.span = (start, time.monotonic())
        self.recovery = until(self._recovered, RECOVERY_S, "recovery")
        self.traffic.flow(AFTER_S)

    def _waits(self, start: float, end: float) -> list[float]:
        seen = (e for e in list(self.traffic.entries) if e.plan in {"ok", "error"} and start <= e.sent < end)
        return [entry.wait_s for entry in seen if entry.wait_s is not None]

    def _recovered(self) -> bool:
        """Every part is up, and what was asked until the fault ended is in SQL or counted as lost."""
        if not self.stack.healthy():
            return False
        books = self.books(upto=self.span[1])
        return len(books.lost) <= max(self.may_lose, self._dropped())

    def books(self, upto: float = float("inf")) -> Books:
        """The comparison as of now, of the requests that ended before `upto`."""
        received = self.stack.received()
        rows = read_rows(self.stack.database)
        entries = [e for e in list(self.traffic.entries) if e.done is not None and e.done < upto]
        if upto != float("inf"):
            sessions = {entry.session for entry in entries}
            rows = [row for row in rows if row["session"] in sessions or row["session"] is None]
        return compare(entries, rows, received)

    def _dropped(self) -> int:
        return int(self.stack.status().get("dropped", {}).get("records", 0))

    def result(
        self, excuse: Excuse = nothing, *, worst_ms: float = WORST_MS,
        growth: int = MEMORY_GROWTH, added_ms: float = ADDED_P50_MS,
    ) -> Result:  # fmt: skip
        """Close the books once the last row came. Call after the traffic ended."""
        stop = time.monotonic() + 20
        while True:
            books, dropped = self.books(), self._dropped()
            if len(books.lost) <= dropped or time.monotonic() > stop:
                break
            time.sleep(0.2)
        entries = self.traffic.entries
        unplanned = [entry for entry in entries if not as_planned(entry)]
        failed = [entry for entry in unplanned if not excuse(entry)]
        during = self._waits(*self.span)
        found = Result(
            fault=self.name, database=self.stack.database.partition(":")[0], requests=len(entries),
            failed=len(failed), cut=len(unplanned) - len(failed),
            added_p50_ms=round((quantile(during, 0.5) - quantile(self.waits, 0.5)) * 1e3, 1),
            worst_ms=round(max(during, default=0.0) * 1e3, 1), lost=len(books.lost), dropped=dropped,
            doubled=len(books.doubled), recovery_s=round(self.recovery, 1),
            memory_before=self.before, memory_after=self.stack.memory(),
        )  # fmt: skip
        assert not failed, failed[:5]
        assert not books.wrong, books.wrong[:5]
        assert not books.doubled, books.doubled[:5]
        assert len(books.lost) <= max(self.may_lose, dropped), (len(books.lost), dropped, books.lost[:5])
        assert found.added_p50_ms < added_ms
        assert found.worst_ms < worst_ms
        assert found.memory_after < found.memory_before + growth
        self._quiet_log()
        return found

    def _quiet_log(self) -> None:
        log = self.stack.proxy.log.read_text()
        assert "Traceback" not in log, log[-3000:]
        worker = self.stack.worker.text()
        assert "Traceback" not in worker, worker[-3000:]
