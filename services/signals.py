"""Stopping on signals. Owns nothing.

A handler runs in the main thread, between any two of its steps. Were it to set an event that this thread
waits for, the event's lock might be held by the very thread that now asks for it, for ever; so another one
sets it.
"""

import _thread
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT)


def set_on(
    event: threading.Event, numbers: Iterable[int] = STOPPING, then: Callable[[], None] | None = None
) -> None:
    """Set `event` on each of these signals, and do `then` after the first; both in a thread of their own."""

    def ask() -> None:
        first = not event.is_set()
        event.set()
        if first and then is not None:
            then()

    def handler(_signal: int, _frame: FrameType | None) -> None:
        _thread.start_new_thread(ask, ())  # `threading` would take locks here as well

    for number in numbers:
        signal.signal(number, handler)
