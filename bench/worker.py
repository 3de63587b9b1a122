"""Records a second into the history: bare bulk insert, the job function, and a real worker with a real queue.

    python -m bench.worker [--records 40000] [--rounds 5] [--json bench/results/worker.json]

The bare insert is the least any worker could do on that database: the same rows in the driver's own form,
without ids to check, decoding or a queue (executemany on SQLite, COPY on PostgreSQL). Rounds are interleaved
and medians taken, so that a busy machine slows all columns alike. PostgreSQL runs with its durable defaults.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import func, select

from services.history.engine import open_engine
from services.history.migrate import upgrade
from services.history.tables import requests
from services.logger import jobs, store
from services.logger.store import Store
from services.queue import open_queue
from services.record import JOB, Record
from tests.support.postgres import running
from tests.support.records import batch_of, make_record
from tests.support.valkey import Valkey

# As many rows as the proxy puts in one job (services.proxy.outbox.buffer).
BATCH = 200
TARGETS = {"sqlite": 6_000, "postgresql": 5_000}
WORKER = (
    "import sys; from services import settings; from services.logger import worker; "
    "sys.exit(worker.run(settings.load()))"
)
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "128MB"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ma-bench-") as folder, running(settings=DURABLE) as server:
        results = {
            "sqlite": measure(lambda: sqlite(Path(folder)), arguments, Path(folder)),
            "postgresql": measure(server.database, arguments, Path(folder)),
        }
    report(results, arguments)


def measure(database, arguments, folder: Path) -> dict:
    """Rows a second of each way, one median over the rounds."""
    ways = {
        "bare insert": bare,
        "job function": job,
        "worker with queue": worker,
        "job function, per CPU second": job_cpu,
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(arguments.rounds):
        for way, run in ways.items():
            with database() as url:
                upgrade(url)
                records = [make_record(session=f"s-{n % 200}") for n in range(arguments.records)]
                seconds = run(url, records, folder)
                assert rows(url) == arguments.records
                rates[way].append(arguments.records / seconds)
    return {way: round(statistics.median(values)) for way, values in rates.items()}


def bare(url: str, records: list[Record], _folder: Path) -> float:
    engine = open_engine(url)
    postgres = engine.dialect.name == "postgresql"
    made = [store.row_of(record, postgres=postgres) for record in records]
    names = ", ".join(store.COLUMNS)
    started = time.perf_counter()
    for start in range(0, len(made), BATCH):
        part = made[start : start + BATCH]
        with engine.begin() as connection:
            if postgres:
                cursor = connection.connection.dbapi_connection.cursor()
                with cursor.copy(f"COPY requests ({names}) FROM STDIN") as copy:
                    for row in part:
                        copy.write_row(row)
            else:
                marks = ", ".join("?" * len(store.COLUMNS))
                connection.exec_driver_sql(f"INSERT INTO requests ({names}) VALUES ({marks})", part)
    seconds = time.perf_counter() - started
    engine.dispose()
    return seconds


def job(url: str, records: list[Record], _folder: Path) -> float:
    return timed_job(url, records, time.perf_counter)


def job_cpu(url: str, records: list[Record], _folder: Path) -> float:
    """CPU seconds of this process alone: what another load on the machine cannot slow down."""
    return timed_job(url, records, time.process_time)


def timed_job(url: str, records: list[Record], clock) -> float:
    batches = [batch_of(records[start : start + BATCH]) for start in range(0, len(records), BATCH)]
    jobs.use(Store(open_engine(url)))
    started = clock()
    for batch in batches:
        jobs.persist(batch)
    seconds = clock() - started
    jobs.use(None)
    return seconds


def worker(url: str, records: list[Record], folder: Path) -> float:
    """From the first row stored to the last, so that the process's start does not count."""
    with valkey(folder) as server:
        client = server.client()
        queue = open_queue(client)
        for start in range(0, len(records), BATCH):
            queue.enqueue_call(
                JOB, args=(batch_of(records[start : start + BATCH]),), result_ttl=0, description="rows"
            )
        environ = {**os.environ, "METALANCHOR_REDIS_URL": server.url, "METALANCHOR_DATABASE_URL": url}
        process = subprocess.Popen([sys.executable, "-c", WORKER], env=environ, stderr=subprocess.DEVNULL)
        try:
            first, began = wait(queue, len(records) // BATCH - 1)
            _, ended = wait(queue, 0)
        finally:
            process.terminate()
            process.wait(10)
            client.close()
        # The queue is empty when the last job was taken, not stored.
        return (ended - began) * len(records) / (first * BATCH)


def wait(queue, left: int) -> tuple[int, float]:
    while (count := queue.count) > left:
        time.sleep(0.002)
    return count, time.perf_counter()


@contextmanager
def sqlite(folder: Path) -> Iterator[str]:
    for old in folder.glob("history.sqlite*"):
        old.unlink()
    yield f"sqlite:///{folder / 'history.sqlite'}"


@contextmanager
def valkey(folder: Path) -> Iterator[Valkey]:
    place = Path(tempfile.mkdtemp(dir=folder))
    server = Valkey(place)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def rows(url: str) -> int:
    engine = open_engine(url)
    for _ in range(200):
        with engine.connect() as connection:
            count = connection.scalar(select(func.count()).select_from(requests))
        if count and count % BATCH == 0:
            break
        time.sleep(0.05)
    engine.dispose()
    return count or 0


def report(results: dict, arguments) -> None:
    heads = ("", "bare insert", "job function", "worker", "job/bare", "worker/bare", "job/CPU s", "target")
    print("".join(f"{head:>14}" for head in heads))
    for name, rates in results.items():
        least, function, whole, cpu = rates.values()
        cells = (
            name,
            least,
            function,
            whole,
            round(function / least, 2),
            round(whole / least, 2),
            cpu,
            TARGETS[name],
        )
        print("".join(f"{cell:>14}" for cell in cells))
    if arguments.json:
        document = {
            "command": f"python -m bench.worker --records {arguments.records} --rounds {arguments.rounds}",
            "unit": "records per second, median over interleaved rounds",
            "batch": BATCH, "cpus": os.cpu_count(), "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}", "targets": TARGETS,
            "load_average": [round(load, 1) for load in os.getloadavg()], "results": results,
        }  # fmt: skip
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
