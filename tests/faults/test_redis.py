"""A Redis that is there and does not do what it should."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from tests.support.faulty_redis import FaultyRedis

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


class Relay:
    """A `FaultyRedis` on a loop of its own, since these tests block."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @contextmanager
    def before(self, valkey):
        relay = FaultyRedis(valkey.port)
        self._run(relay.__aenter__())
        try:
            yield relay
        finally:
            relay.mode = "pass"
            self._run(relay.__aexit__())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)
            self._loop.close()

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)


@contextmanager
def configured(stack, name, value, back):
    with stack.valkey.client() as client:
        client.config_set(name, value)
    yield
    with stack.valkey.client() as client:
        client.config_set(name, back)


@contextmanager
def replica(stack):
    with stack.valkey.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
    yield
    with stack.valkey.client() as client:
        client.execute_command("REPLICAOF", "NO", "ONE")


@contextmanager
def password(stack):
    with stack.valkey.client() as client:
        client.config_set("requirepass", "secret")
        client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        yield
        client.execute_command("AUTH", "secret")
        client.config_set("requirepass", "")


REPLIES = {
    "-OOM": lambda stack: configured(stack, "maxmemory", 1, 0),
    "-READONLY": replica,
    "-NOREPLICAS": lambda stack: configured(stack, "min-replicas-to-write", 1, 0),
    "NOAUTH": password,
}


@pytest.mark.parametrize("reply", REPLIES)
def test_a_redis_that_refuses(make_stack, drill, done, reply):
    """Its error replies cost no request anything; rows wait on disk."""
    stack = make_stack()
    with drill(f"Redis answers {reply}", stack) as it, it.fault():
        it.traffic.flow(0.5)
        with REPLIES[reply](stack):
            it.traffic.flow(3.0)
    done(it.result())


NAMES = {
    "hang": "takes requests, never answers", "refuse": "closes every connection",
    "slow": "answers byte by byte, 20 ms each", "loading": "answers -LOADING",
}  # fmt: skip


@pytest.mark.parametrize("mode", NAMES)
def test_a_redis_that_misbehaves_on_the_wire(make_stack, drill, done, mode, unused_valkey):
    """Hung, closing, loading or slow to the byte: nobody waits for it."""
    with Relay().before(unused_valkey) as relay:
        stack = make_stack(redis_url=relay.url, valkey=unused_valkey)
        with drill(f"Redis {NAMES[mode]}", stack) as it, it.fault():
            it.traffic.flow(0.5)
            relay.mode = mode
            it.traffic.flow(3.0)
            relay.mode = "pass"
        done(it.result())
        stack.stop()
