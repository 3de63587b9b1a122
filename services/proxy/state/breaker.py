"""Decides when Redis is asked. Owns one bit and its history; does no I/O.

One missed deadline or error opens it: a hung Redis must cost no second request its budget. Only a probe in
the background closes it again. A Redis that fails again soon after it came back is left alone for longer.
"""

import time

FIRST_HOLD_S = 0.25  # between opening and the first probe: a restart of Redis takes about that long
LONGEST_HOLD_S = 8.0
STABLE_S = 10.0  # closed for that long, the next failure starts over with the first hold


class CircuitBreaker:
    """Closed: ask. Open: do not, and probe after `hold_s`. Starts open; the first probe closes it."""

    def __init__(self) -> None:
        self.hold_s = FIRST_HOLD_S
        self._since = time.monotonic()
        self.closed = False
        self.reason: str | None = "not connected yet"
        self.opened = 0

    def fail(self, reason: str) -> None:
        """A request missed its deadline, or a probe failed; `reason` is a short word for `/status`."""
        now = time.monotonic()
        if self.closed:
            steady = now - self._since >= STABLE_S
            self.hold_s = FIRST_HOLD_S if steady else min(self.hold_s * 2, LONGEST_HOLD_S)
            self.opened += 1
            self._since = now
        else:
            self.hold_s = min(self.hold_s * 2, LONGEST_HOLD_S)
        self.closed = False
        self.reason = reason

    def succeed(self) -> None:
        """A probe went through in time."""
        if not self.closed:
            self.closed, self.reason, self._since = True, None, time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds it has been in its present state."""
        return time.monotonic() - self._since
