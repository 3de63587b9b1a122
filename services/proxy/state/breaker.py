"""Decides when Redis is asked. Owns one bit and its history; does no I/O.

One missed deadline or error opens it: a hung Redis must cost no second request its budget. Only a probe in
the background closes it again. A Redis that fails again soon after it came back is left alone for longer.
"""

import time
from collections.abc import Callable

FIRST_HOLD_S = 0.25  # between opening and the first probe: a restart of Redis takes about that long
LONGEST_HOLD_S = 8.0
STABLE_S = 10.0  # closed for that long, the next failure starts over with the first hold


class Breaker:
    """Closed: ask. Open: do not. Starts open; the first probe closes it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._hold = FIRST_HOLD_S
        self._since = clock()
        self.closed = False
        self.reason: str | None = "not connected yet"
        self.opened = 0

    def fail(self, reason: str) -> None:
        """A request missed its deadline, or a probe failed; `reason` is a short word for `/status`."""
        now = self._clock()
        if self.closed:
            steady = now - self._since >= STABLE_S
            self._hold = FIRST_HOLD_S if steady else min(self._hold * 2, LONGEST_HOLD_S)
            self.opened += 1
            self._since = now
        else:
            self._hold = min(self._hold * 2, LONGEST_HOLD_S)
        self.closed = False
        self.reason = reason

    def succeed(self) -> None:
        """A probe went through in time."""
        if not self.closed:
            self.closed, self.reason, self._since = True, None, self._clock()

    @property
    def hold_s(self) -> float:
        """Seconds to wait before the next probe."""
        return self._hold

    @property
    def seconds(self) -> float:
        """Seconds it has been in its present state."""
        return self._clock() - self._since
