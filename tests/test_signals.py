"""A signal sets its event whatever the main thread does at that moment."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from services.signals import set_on


@pytest.fixture
def usr1():
    before = signal.getsignal(signal.SIGUSR1)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


def test_what_is_to_follow_follows_once(usr1):
    event, told = threading.Event(), []
    set_on(event, [usr1], lambda: told.append(1))
    for _ in range(2):
        os.kill(os.getpid(), usr1)
        assert event.wait(5.0)
        time.sleep(0.05)
    assert told == [1]


def test_a_signal_while_the_event_is_held_ends_the_wait_all_the_same():
    """The handler runs between two steps of a wait, with the lock taken: nobody may wait for it there."""
    program = """
        import os, signal, threading, time
        from services.signals import set_on

        event = threading.Event()
        set_on(event)
        with event._cond:  # where `wait` is as it begins and ends
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)
        raise SystemExit(0 if event.wait(5.0) else 1)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=20, check=False)
    assert done.returncode == 0
