"""Owns the order of calls that touched one backend, as far as this process knows it.

Own calls are entered as they happen, those of other processes as Redis tells of them; entering twice is
harmless, so the two need no bookkeeping between them.
"""

from services.proxy.state import limits
from services.proxy.state.base import Call, Settled


class Timeline:
    """A backend's latest calls by id, their order of arrival; `cursor` is Redis's last event seen."""

    def __init__(self) -> None:
        self.cursor = 0
        self._calls: dict[str, tuple[Call, Settled | None]] = {}
        self._last = ""

    def before(self, request_id: str) -> list[tuple[Call, Settled | None]]:
        """All calls but that one, oldest first, and what became of each."""
        found = list(self._calls.values())
        if request_id in self._calls:
            found = [entry for entry in found if entry[0].id != request_id]
        return found[-limits.CALLS :]

    def call(self, call: Call) -> bool:
        """Enter a call; one that is known keeps what is known of it. Whether it was new."""
        if call.id in self._calls:
            return False
        self._calls[call.id] = call, None
        if call.id < self._last:
            self._calls = dict(sorted(self._calls.items()))
        else:
            self._last = call.id
        while len(self._calls) > limits.CALLS + 1:  # that many before the latest
            oldest = next(iter(self._calls))
            del self._calls[oldest]
        return True

    def adopt(self, request_id: str, lineage: str) -> None:
        """A call's lineage was decided."""
        if (known := self._calls.get(request_id)) is not None:
            known[0].lineage = lineage

    def catch_up(self, events: list[Call | Settled | tuple[str, str]], cursor: int) -> bool:
        """Enter what Redis tells of, oldest first: this process's own doings too.

        Whether another process made calls meanwhile; what was there before the first look may be long past.
        """
        foreign = False
        for event in events:
            if isinstance(event, Call):
                foreign |= self.call(event)
            elif isinstance(event, Settled):
                self.settle(event)
            else:
                self.adopt(*event)
        foreign = foreign and self.cursor > 0
        self.cursor = cursor
        return foreign

    def settle(self, settled: Settled) -> None:
        """A call's answer ended."""
        if (known := self._calls.get(settled.id)) is not None:
            self._calls[settled.id] = known[0], settled
