"""The model server fails: what the client gets is what it did, and everything else goes on."""

import time

import pytest

from tests.faults.drill import within
from tests.faults.stack import frozen, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


def test_a_crashed_backend(make_stack, drill, done):
    """Kill -9 and restart: meanwhile 502 and cut streams, afterwards every request passes again."""
    stack = make_stack()
    spans = []
    with drill("backend: kill -9 and restart, 2 times", stack) as it, it.fault():
        for _ in range(2):
            it.traffic.flow(0.7)
            down = time.monotonic()
            stack.model.kill()
            it.traffic.flow(1.0)
            stack.model.start()
            until(lambda: stack.proxy.request("GET", "/api/version").status == 200)
            spans.append((down, time.monotonic()))
    done(it.result(within(spans)))


def test_a_frozen_backend(make_stack, drill, done):
    """It accepts and never answers, as a half-open connection does: its clients wait, nothing else grows."""
    stack = make_stack()
    with drill("backend: SIGSTOP for 3 s (half-open)", stack) as it, it.fault():
        it.traffic.flow(2.0)  # enough that those who wait for the frozen one are no half of all
        with frozen(stack.model.pid):
            it.traffic.flow(3.0)
    done(it.result(worst_ms=6_000))


def test_a_backend_of_garbage(make_stack, drill, done):
    """Every second answer is no HTTP, cut, or none at all: the others pass, and each has its row."""
    stack = make_stack()
    with drill("backend: garbage, cut and closed answers", stack, faults=0.5) as it, it.fault():
        it.traffic.flow(4.0)
    done(it.result())
