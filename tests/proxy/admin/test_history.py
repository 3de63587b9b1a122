"""The way to the history is bounded: in time for who asks, in threads for the process."""

import threading

import pytest

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.history import READERS, History


async def test_a_database_that_hangs_holds_no_more_threads_than_there_are_readers():
    """Who gives up waiting frees no place: its thread still waits."""
    history, go, started = History("sqlite://"), threading.Event(), []

    def hang() -> None:
        started.append(threading.current_thread())
        go.wait(10)

    for _ in range(READERS + 2):
        with pytest.raises(HistoryUnavailable):
            await history.run(hang, limit_s=0.05)
    assert len(started) == READERS

    go.set()
    assert await history.run(lambda: "back", limit_s=5) == "back"


async def test_what_a_question_raises_reaches_who_asked():
    """An error of the thread is an error here, and frees the place."""
    history = History("sqlite://")

    def fail() -> None:
        raise LookupError("nothing")

    for _ in range(READERS + 1):
        with pytest.raises(LookupError, match="nothing"):
            await history.run(fail)
