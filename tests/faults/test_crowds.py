"""More of everything than there should be: clients, bytes, descriptors."""

import asyncio
import json
import random
import resource

import psutil
import pytest

from tests.faults.stack import until
from tests.faults.traffic import Ask, Line

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CHAT = {"model": "qwen3:8b", "stream": True, "messages": [{"role": "user", "content": "hello " * 50}]}


async def visit(traffic, body):
    """A client that connects, mostly asks, and mostly leaves before it was answered."""
    dice = random.random()
    line = Line(traffic.port)
    await asyncio.sleep(random.uniform(0, 2.0))
    if dice < 0.2:
        _, writer = await asyncio.open_connection("127.0.0.1", traffic.port)
        await asyncio.sleep(random.uniform(0, 1.0))
        writer.transport.abort()
    elif dice < 0.8:
        await traffic.send(line, Ask("POST", "/api/chat", body, "leave", random.uniform(0.05, 2.0), "silent"))
    else:
        await traffic.send(line, Ask("POST", "/api/chat", body))
    line.close()


async def crowd(traffic, count):
    body = json.dumps(CHAT).encode()
    await asyncio.gather(*(visit(traffic, body) for _ in range(count)), return_exceptions=True)


def test_a_thousand_clients_come_and_go(make_stack, drill, done):
    """At their peak and after them the steady traffic passes; sockets are as few as before."""
    stack = make_stack()
    process = psutil.Process(stack.proxy.process.pid)
    with drill("1,000 clients connecting and leaving", stack) as it, it.fault():
        before = process.num_fds()
        asyncio.run(crowd(it.traffic, 1000))
    until(lambda: process.num_fds() <= before + 16, what="the return of the descriptors")
    done(it.result(worst_ms=20_000, added_ms=5_000))  # the crowd asks from the very cores it is served on


def test_five_thousand_large_prompts_without_a_worker(make_stack, drill, done):
    """R86: memory here and in Redis stays bounded, no request is slowed, every row is there afterwards."""
    stack = make_stack()
    text = "".join(chr(97 + number % 26) for number in range(200_000))
    peak = 0

    async def load(traffic):
        async def agent(name):
            line = Line(traffic.port)
            for number in range(1250):
                messages = [{"role": "user", "content": f"{name} {number} {text}"}]
                body = json.dumps({"model": "qwen3:8b", "stream": False, "messages": messages}).encode()
                await traffic.send(line, Ask("POST", "/api/chat", body))
            line.close()

        await asyncio.gather(*(agent(name) for name in range(4)))

    with drill("5,000 requests of 200 KB, worker stopped", stack, clients=2) as it, it.fault():
        stack.worker.kill()
        asyncio.run(load(it.traffic))
        with stack.valkey.client() as client:
            peak = client.info("memory")["used_memory"]
        stack.worker.start()
    assert peak < 256 << 20
    done(it.result(worst_ms=5_000, growth=384 << 20, added_ms=500))


def test_no_descriptors_left(make_stack, drill, done):
    """More clients than descriptors: those that are in are served whole, the others when there is room."""
    if not hasattr(resource, "prlimit"):
        pytest.skip("limits of another process are Linux's")
    stack = make_stack(files=128)
    with drill("300 idle clients, 128 descriptors", stack) as it, it.fault():
        idle = [stack.proxy.client() for _ in range(300)]
        it.traffic.flow(2.0)
        for client in idle:
            client.close()
        it.traffic.flow(1.0)
    done(it.result(worst_ms=5_000))
