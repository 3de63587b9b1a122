"""Cases from the field once more, with further inputs: the queue, the worker, and a slow Redis."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from services.history.migrate import upgrade
from services.queue import open_queue
from services.record import JOB
from tests.support.backend import Backend, Received, Reply, as_json
from tests.support.faulty_redis import FaultyRedis
from tests.support.postgres import Postgres
from tests.support.proxy import Proxy, StartProxy
from tests.support.records import batch_of, make_records
from tests.support.rows import wait_for
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

JOBS = 300

# A platform that calls itself macOS, on which every way to make a child process is deadly.
ON_A_MAC = """
import os, sys
from services import settings
from services.logger import worker
sys.platform = "darwin"
def deadly(event, args):
    if event in {"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen", "os.exec"}:
        os.abort()
sys.addaudithook(deadly)
sys.exit(worker.run(settings.load()))
"""


def start_worker(valkey: Valkey, url: str, folder: Path, program: str) -> subprocess.Popen[bytes]:
    """The worker as `program` starts it; its log is `worker.log`."""
    own = {"REDIS_URL": valkey.url, "DATABASE_URL": url, "DATA_DIR": str(folder)}
    environ = {**os.environ, **{f"METALANCHOR_{name}": value for name, value in own.items()}}
    with (folder / "worker.log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-c", program], env=environ, stdout=log, stderr=log)


def push(client: Redis, batches: int, rows: int = 1) -> None:
    """Queue batches as the proxy does."""
    queue = open_queue(client)
    for _ in range(batches):
        queue.enqueue_call(JOB, args=(batch_of(make_records(rows)),), result_ttl=0, failure_ttl=86_400)


def test_the_worker_makes_no_child_where_that_is_deadly(
    valkey: Valkey, history_url: str, tmp_path: Path
) -> None:
    """R91: on a faked macOS, where a fork or spawn aborts the process, jobs are done and it stops with 0."""
    with valkey.client() as client:
        push(client, 20, rows=5)
        process = start_worker(valkey, history_url, tmp_path, ON_A_MAC)
        try:
            wait_for(
                lambda: open_queue(client).count == 0 and not open_queue(client).started_job_registry.count
            )
            process.terminate()
            assert process.wait(10) == 0, (tmp_path / "worker.log").read_text()
        finally:
            process.kill()
            process.wait()


def test_jobs_for_a_read_only_database_wait_without_failing(
    valkey: Valkey, postgres: Postgres, postgres_url: str, tmp_path: Path
) -> None:
    """R92: at most one is ever in the failed registry, for a day at most; then all rows are stored, once."""
    upgrade(postgres_url)
    name = postgres_url.rpartition("/")[2]
    postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    plain = "from services import settings; from services.logger import worker; worker.run(settings.load())"
    with valkey.client() as client:
        push(client, JOBS)
        queue = open_queue(client)
        process = start_worker(valkey, postgres_url, tmp_path, plain)
        try:
            wait_for(lambda: b"waiting" in b"".join(_beats(client)))
            time.sleep(1)
            failed = queue.failed_job_registry.get_job_ids(cleanup=False)
            assert len(failed) <= 1
            assert queue.count + len(failed) == JOBS
            assert all(0 < client.ttl(queue.job_class.key_for(job)) <= 86_400 for job in failed)
            postgres.run(f"ALTER DATABASE {name} RESET default_transaction_read_only")
            wait_for(lambda: postgres.run("SELECT count(*) FROM requests", name) == [(JOBS,)], 60)
            wait_for(lambda: not list(client.scan_iter(match="*:job:*")))
            assert queue.failed_job_registry.get_job_ids(cleanup=False) == []
        finally:
            process.terminate()
            process.wait(10)


def _beats(client: Redis) -> list[bytes]:
    return [client.get(key) or b"" for key in client.scan_iter(match="metalanchor:worker:*")]


CLIENTS = 40


def turns(number: int, count: int) -> dict[str, Any]:
    """Conversation `number` after so many of its user's turns."""
    words = random.Random(number)
    said = " ".join(f"{words.getrandbits(40):x}" for _ in range(60))  # like no other conversation
    messages = [{"role": "system", "content": f"Agent {number}. {said}"}, {"role": "user", "content": said}]
    for turn in range(1, count):
        messages += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": f"turn {turn}"}]
    return {"model": "m", "messages": messages}


async def test_clients_that_leave_give_nobody_anothers_reply(
    valkey: Valkey, backend: Backend, start_proxy: StartProxy, tmp_path: Path
) -> None:
    """R95: 40 conversations over a Redis that is 5 ms away, half of their clients leaving while it is asked.

    Another process then finds each conversation's own first turn, or none; never that of another.
    """

    def choose(received: Received) -> Reply:
        choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        first = received.method == "POST" and len(received.json()["messages"]) == 2
        return as_json({"choices": [choice]}, head_delay=0.05 if first else 0)

    backend.answer(choose)
    pick = random.Random(95)
    async with FaultyRedis(valkey.port) as slow:
        slow.delay_s = 0.005
        shared = tmp_path / "install.key"
        first = await asyncio.to_thread(start_proxy, redis_url=slow.url, key_file=shared)
        other = await asyncio.to_thread(start_proxy, redis_url=valkey.url, key_file=shared)
        leaves = [pick.random() * 0.03 if number % 2 else None for number in range(CLIENTS)]
        begun = []
        for start in range(0, CLIENTS, 4):  # more at once would make Redis late
            some = range(start, start + 4)
            begun += await asyncio.gather(*[asyncio.to_thread(_turn, first, n, 1, leaves[n]) for n in some])
        await asyncio.sleep(0.5)
        found = [await asyncio.to_thread(_parent, other, number) for number in range(CLIENTS)]
        assert not [n for n in range(0, CLIENTS, 2) if found[n] not in {begun[n], None}]
        assert not {parent for parent in found[1::2] if parent} & set(begun[::2])
        assert sum(parent is not None for parent in found) > CLIENTS // 4


def _turn(proxy: Proxy, number: int, count: int, leaves: float | None = None) -> str | None:
    """The id of a turn; None where the client left after so many seconds."""
    with proxy.client() as client:
        headers = [("Content-Type", "application/json"), ("X-MetalAnchor-Session", f"c{number}")]
        client.send("POST", "/v1/chat/completions", json.dumps(turns(number, count)).encode(), headers)
        if leaves is not None:
            time.sleep(leaves)
            return None
        answer = client.answer()
    assert answer.status == 200
    return answer.ours["request-id"]


def _parent(proxy: Proxy, number: int) -> str | None:
    """The first turn that a second one continues."""
    row = proxy.json(f"/api/requests/{_turn(proxy, number, 2)}")
    return row["parent_id"] if row["hit"] == "prefix" else None
