"""Kill -9 and SIGSTOP of each part at random moments of steady traffic."""

import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.faults.drill import nothing, within
from tests.faults.stack import family, frozen, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]
DATABASES = ["sqlite", "postgresql"]


def moments(count, low=0.4, high=1.4):
    """Pauses between faults, never the same twice."""
    return [random.uniform(low, high) for _ in range(count)]


@pytest.mark.parametrize("database", DATABASES)
def test_a_killed_proxy(make_stack, drill, done, database):
    """What it had open is cut and has its row as `proxy_lost` after the restart; everything else is there."""
    stack = make_stack(database)
    spans = []
    with drill("proxy: kill -9, 3 times", stack) as it, it.fault():
        for pause in moments(3):
            it.traffic.flow(pause)
            down = time.monotonic()
            stack.proxy.kill()
            stack.proxy.start()
            spans.append((down, time.monotonic()))
    done(it.result(within(spans), worst_ms=5_000))


@pytest.mark.parametrize("database", DATABASES)
def test_a_killed_worker(make_stack, drill, done, database):
    """Batches in its hands are stored by the next one, once."""
    stack = make_stack(database)
    with drill("worker: kill -9, 4 times", stack) as it, it.fault():
        for pause in moments(4):
            it.traffic.flow(pause)
            stack.worker.kill()
            it.traffic.flow(0.5)
            stack.worker.start()
    done(it.result(nothing))


def test_a_killed_redis(make_stack, drill, done):
    """Its append-only file brings the queue back; meanwhile rows go to the spool."""
    stack = make_stack()
    with drill("Redis: kill -9, 2 times", stack) as it, it.fault():
        for pause in moments(2):
            it.traffic.flow(pause)
            stack.valkey.stop()
            it.traffic.flow(1.0)
            stack.valkey.start()
    done(it.result(nothing))


def test_a_redis_restarted_without_its_data(make_stack, drill, done):
    """Only what stood in the queue at that moment may go: with a live worker, at most a few batches."""
    stack = make_stack()
    with drill("Redis: restarted without its data", stack) as it, it.fault(may_lose=200):
        it.traffic.flow(random.uniform(0.5, 1.5))
        stack.valkey.stop()
        for path in (stack.folder / "redis" / "appendonlydir").iterdir():
            path.unlink()
        it.traffic.flow(1.0)
        stack.valkey.start()
    done(it.result(nothing))


def test_a_killed_postgres(make_stack, drill, done, durable):
    """In mid-batch or not, the batch is stored once when the server is back."""
    stack = make_stack("postgresql")
    with drill("PostgreSQL: kill -9, 2 times", stack) as it, it.fault():
        for pause in moments(2):
            it.traffic.flow(pause)
            killed = family(durable.pid)
            for process in killed:
                process.kill()
            durable._process.wait(10)
            psutil.wait_procs(killed, 10)
            it.traffic.flow(1.0)
            durable.start()
    done(it.result(nothing))


@pytest.mark.parametrize("part", ["proxy", "worker", "Redis", "PostgreSQL"])
def test_a_frozen_part(make_stack, drill, done, durable, part):
    """SIGSTOP for two seconds: only the frozen proxy's own clients wait."""
    stack = make_stack("postgresql" if part == "PostgreSQL" else "sqlite")
    pids = {
        "proxy": stack.proxy.process.pid,
        "worker": stack.worker.pid,
        "Redis": stack.valkey._process.pid,
        "PostgreSQL": durable.pid,
    }
    with drill(f"{part}: SIGSTOP for 2 s", stack) as it, it.fault():
        it.traffic.flow(random.uniform(0.2, 0.8))
        with frozen(pids[part]):
            it.traffic.flow(2.0)
        it.traffic.flow(0.5)
    worst = 5_000 if part == "proxy" else 1_500
    done(it.result(nothing, worst_ms=worst))


def test_a_stopped_proxy(make_stack, drill, done):
    """SIGTERM under load, then the next one: what was open ends as `proxy_stopped`, and no row is owed."""
    stack = make_stack()
    spans = []
    with drill("proxy: SIGTERM, 2 times", stack) as it, it.fault():
        for pause in moments(2):
            it.traffic.flow(pause)
            down = time.monotonic()
            assert stack.proxy.stop() == 0
            stack.proxy.start()
            spans.append((down, time.monotonic()))
    done(it.result(within(spans), worst_ms=5_000))


def test_two_workers_and_one_killed(make_stack, drill, done):
    """Concurrent workers store each batch once, also when one dies."""
    stack = make_stack("postgresql")
    env = dict(stack.worker._env)
    second = subprocess.Popen(
        [sys.executable, "-m", "services.cli", "worker"], env=env, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: len(stack.status()["worker"].get("workers", [0, 0])) >= 1)
        with drill("two workers, one killed", stack) as it, it.fault():
            it.traffic.flow(1.5)
            os.killpg(second.pid, signal.SIGKILL)
            it.traffic.flow(1.5)
        done(it.result(nothing))
    finally:
        if second.poll() is None:
            os.killpg(second.pid, signal.SIGKILL)
        second.wait(10)
