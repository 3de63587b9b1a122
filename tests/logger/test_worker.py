"""The worker as a process: what it stores, survives and leaves behind, on a real Redis and real databases."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from sqlalchemy import func, select, text

from services.history.engine import open_engine
from services.history.migrate import downgrade, upgrade
from services.history.rollups import DAY, HOUR, SIX_HOURS, rollups, rollups_due
from services.history.tables import requests
from services.logger.store import Store
from services.queue import open_queue, read_heartbeats, read_totals
from services.record import JOB
from tests.support.records import batch_of, make_record, make_records

pytestmark = pytest.mark.process

RUN = (
    "import sys; from services import settings; from services.logger import worker; "
    "{}sys.exit(worker.run(settings.load()))"
)


@contextmanager
def running_worker(valkey, url, tmp_path, before=""):
    """A worker process; `before` is Python that runs in it first. Its log is `worker.log`."""
    environ = {**os.environ, "METALANCHOR_REDIS_URL": valkey.url, "METALANCHOR_DATABASE_URL": url}
    environ["METALANCHOR_DATA_DIR"] = str(tmp_path)
    with (tmp_path / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN.format(before)], env=environ, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def enqueue(valkey, records, size=50, **options):
    """Queue records as the proxy does, in batches."""
    client = valkey.client()
    queue = open_queue(client)
    for start in range(0, len(records), size):
        queue.enqueue_call(
            JOB,
            args=(batch_of(records[start : start + size]),),
            description="rows",
            result_ttl=0,
            failure_ttl=options.get("failure_ttl", 86_400),
        )
    client.close()
    return records


def count(url):
    """Rows in the history."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(requests))
    finally:
        engine.dispose()


def eventually(condition, limit=30):
    """Wait until it holds; a generous stop for a loaded machine, not a timing."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.05)


def log_of(tmp_path):
    return (tmp_path / "worker.log").read_text()


def heartbeats(valkey):
    client = valkey.client()
    try:
        return read_heartbeats(client)
    finally:
        client.close()


def test_batches_become_rows_and_nothing_stays_in_redis(valkey, history_url, tmp_path):
    """After the work only the worker's own signs of life are left."""
    records = enqueue(valkey, make_records(500))
    with running_worker(valkey, history_url, tmp_path):
        eventually(lambda: count(history_url) == len(records))
        eventually(lambda: [beat.stored for beat in heartbeats(valkey)] == [500])
    client = valkey.client()
    assert read_totals(client) == {"stored": 500}
    assert not [key for key in client.scan_iter() if b":job:" in key or b"execution:" in key]
    assert heartbeats(valkey) == []
    client.close()


def test_sigterm_ends_it_within_three_seconds(valkey, history_url, tmp_path):
    """The foreground process of `metalanchor worker` stops by itself, with code 0."""
    with running_worker(valkey, history_url, tmp_path) as process:
        eventually(lambda: heartbeats(valkey))
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert time.monotonic() - started < 3.5


def test_sigterm_ends_it_while_redis_hangs(valkey, history_url, tmp_path):
    """A Redis that accepts and never answers does not keep the worker alive."""
    with running_worker(valkey, history_url, tmp_path) as process:
        eventually(lambda: heartbeats(valkey))
        valkey.freeze()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_kill_between_commit_and_job_end_stores_each_row_once(valkey, history_url, tmp_path):
    """R94: the next worker takes the job up again, and finds its rows there."""
    records = enqueue(valkey, make_records(100), size=100)
    die = (
        "import os; from services.logger import store; save = store.Store.save; "
        "store.Store.save = lambda self, records: (save(self, records), os.kill(os.getpid(), 9)); "
    )
    with running_worker(valkey, history_url, tmp_path, before=die) as process:
        assert process.wait(30) == -signal.SIGKILL
    assert count(history_url) == len(records)
    with running_worker(valkey, history_url, tmp_path):
        eventually(lambda: read_totals(valkey.client()).get("repeated") == 100)
    assert count(history_url) == len(records)


def test_a_kill_in_mid_job_loses_nothing(valkey, history_url, tmp_path):
    """R94: rows that were not committed are stored by the next worker."""
    records = enqueue(valkey, make_records(100), size=20)
    die = (
        "import os; from services.logger import store; "
        "store.Store.save = lambda self, records: os.kill(os.getpid(), 9); "
    )
    with running_worker(valkey, history_url, tmp_path, before=die) as process:
        assert process.wait(30) == -signal.SIGKILL
    assert count(history_url) == 0
    with running_worker(valkey, history_url, tmp_path):
        eventually(lambda: count(history_url) == len(records))


def test_a_restarted_redis_is_found_again(valkey, history_url, tmp_path):
    """The worker waits while Redis is away, and goes on with what it kept and what comes."""
    with running_worker(valkey, history_url, tmp_path) as process:
        enqueue(valkey, make_records(100))
        eventually(lambda: count(history_url) == 100)
        valkey.stop()
        eventually(lambda: "Redis is away" in log_of(tmp_path))
        assert process.poll() is None
        valkey.start()
        enqueue(valkey, make_records(100))
        eventually(lambda: count(history_url) == 200)
    assert log_of(tmp_path).count("Redis is away") == 1


def test_a_database_that_is_away_costs_one_attempt_not_many(valkey, database_url, tmp_path):
    """R92: one batch goes back, the rest stay queued; nothing churns, nothing is lost."""
    enqueue(valkey, make_records(200), size=10)
    with running_worker(valkey, database_url, tmp_path):
        eventually(lambda: "waiting" in [beat.state for beat in heartbeats(valkey)])
        (beat,) = heartbeats(valkey)
        assert "metalanchor migrate" in beat.database
        client = valkey.client()
        queue = open_queue(client)
        assert (queue.count, queue.failed_job_registry.get_job_count(cleanup=False)) == (20, 0)
        assert {client.ttl(f"metalanchor:rq:job:{job}") for job in queue.job_ids} == {-1}
        client.close()
        assert log_of(tmp_path).count("was not stored") <= 1
        upgrade(database_url)
        eventually(lambda: count(database_url) == 200)


def test_a_schema_taken_away_and_put_back_loses_nothing(valkey, history_url, tmp_path):
    """The database breaks under a running worker, in the middle of its work."""
    with running_worker(valkey, history_url, tmp_path):
        enqueue(valkey, make_records(50))
        eventually(lambda: count(history_url) == 50)
        downgrade(history_url)
        enqueue(valkey, make_records(60), size=10)
        eventually(lambda: "takes no rows" in log_of(tmp_path))
        upgrade(history_url)
        eventually(lambda: count(history_url) == 60)


def test_a_locked_sqlite_file_delays_and_loses_nothing(valkey, tmp_path):
    """R88: another program holds the write lock longer than we wait for it."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    upgrade(url)
    engine = open_engine(url)
    quick = "from services.history import engine; engine.BUSY_TIMEOUT_MS = 200; "
    with engine.connect() as connection, running_worker(valkey, url, tmp_path, before=quick):
        connection.connection.dbapi_connection.isolation_level = None
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        enqueue(valkey, make_records(30), size=10)
        eventually(lambda: "database is locked" in log_of(tmp_path))
        connection.exec_driver_sql("ROLLBACK")
        eventually(lambda: count(url) == 30)
    engine.dispose()


def test_a_read_only_postgres_delays_and_loses_nothing(valkey, postgres, postgres_url, tmp_path):
    """R92: a standby, or a server out of space, refuses writes for a while."""
    upgrade(postgres_url)
    name = postgres_url.rpartition("/")[2]
    postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with running_worker(valkey, postgres_url, tmp_path):
        enqueue(valkey, make_records(30), size=10)
        eventually(lambda: "read-only" in log_of(tmp_path))
        postgres.run(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        postgres.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        eventually(lambda: count(postgres_url) == 30)


def test_connections_lost_in_mid_work_are_replaced(valkey, postgres, postgres_url, tmp_path):
    """A server that fails over drops its connections; the worker opens new ones."""
    upgrade(postgres_url)
    name = postgres_url.rpartition("/")[2]
    with running_worker(valkey, postgres_url, tmp_path):
        for total in (20, 40, 60):
            enqueue(valkey, make_records(20), size=5)
            eventually(lambda total=total: count(postgres_url) == total)
            postgres.run(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
            )


def test_a_failed_batch_that_expired_is_counted(valkey, history_url, tmp_path):
    """R92: what nobody could save in a day is gone from Redis, and shows in the counters."""
    client = valkey.client()
    queue = open_queue(client)
    client.zadd(queue.failed_job_registry.key, {"gone": time.time() - 1})
    with running_worker(valkey, history_url, tmp_path):
        eventually(lambda: read_totals(client).get("dropped") == 1)
    assert client.zcard(queue.failed_job_registry.key) == 0
    client.close()


def test_it_runs_no_function_but_ours(valkey, history_url, tmp_path):
    """Whoever can write to Redis must not be able to run code in the worker."""
    mark = tmp_path / "mark"
    client = valkey.client()
    open_queue(client).enqueue_call("os.mkdir", args=(str(mark),), result_ttl=0)
    client.close()
    enqueue(valkey, make_records(5))
    with running_worker(valkey, history_url, tmp_path):
        eventually(lambda: count(history_url) == 5)
    assert not mark.exists()
    assert "none of ours" in log_of(tmp_path)


def test_secrets_in_a_failing_batch_are_nowhere(valkey, history_url, tmp_path):
    """R89: a record that cannot be stored leaves no trace of its values in log, Redis or row."""
    canary = "CANARY-123"
    enqueue(valkey, [make_record(error=canary, prompt_tokens=2**80)])
    client = valkey.client()
    open_queue(client).enqueue_call(JOB, args=(f'[{{"id": "{canary}"',), description="rows", result_ttl=0)
    boom = (
        "from services.logger import store; row = store.row_of\n"
        "def broken(record, **kind):\n"
        "    if record.error == 'boom': raise RuntimeError(record.agent)\n"
        "    return row(record, **kind)\n"
        "store.row_of = broken\n"
    )
    enqueue(valkey, [make_record(error="boom", agent=canary)])
    (tmp_path / "boom.py").write_text(boom)
    with running_worker(
        valkey, history_url, tmp_path, before=f"exec(open({str(tmp_path / 'boom.py')!r}).read()); "
    ):
        eventually(lambda: "was not stored: RuntimeError" in log_of(tmp_path))
        eventually(lambda: read_totals(client).get("refused") == 1)
        eventually(lambda: read_totals(client).get("dropped") == 1)
    assert canary not in log_of(tmp_path)
    for key in client.scan_iter():
        if client.type(key) == b"hash":
            for field, value in client.hgetall(key).items():
                assert canary.encode() not in value or field == b"data"
    engine = open_engine(history_url)
    with engine.connect() as connection:
        assert canary not in str(connection.execute(text("SELECT * FROM requests")).all())
    engine.dispose()
    client.close()


def test_four_workers_store_each_row_once(valkey, history_url, tmp_path):
    """R88: several writers on one database, one queue."""
    records = enqueue(valkey, make_records(1_000), size=25)
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
    with (
        running_worker(valkey, history_url, folders[0]),
        running_worker(valkey, history_url, folders[1]),
        running_worker(valkey, history_url, folders[2]),
    ):
        eventually(lambda: count(history_url) == len(records))
    assert all("not stored" not in log_of(folder) for folder in folders)


def test_without_redis_url_it_says_what_to_do(tmp_path):
    """`metalanchor worker` alone needs to be told where the queue is."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("METALANCHOR_")}
    answer = subprocess.run(
        [sys.executable, "-c", RUN.format("")],
        env={**environ, "METALANCHOR_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert answer.returncode == 2
    assert "METALANCHOR_REDIS_URL" in answer.stderr


def test_it_never_forks_on_macos(valkey, tmp_path):
    """R91, R97: a forked child that touches system libraries dies there; all work is done in this process."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    upgrade(url)
    enqueue(valkey, make_records(5))
    darwin = "import os, sys; sys.platform = 'darwin'; os.fork = None; "
    with running_worker(valkey, url, tmp_path, before=darwin):
        eventually(lambda: count(url) == 5)


def test_two_workers_keep_the_rollups_as_rows_come_late(valkey, history_url, tmp_path):
    """Two at once over rows of the past, some of them only after their hour was summed: each counts once."""
    records = make_records(600)
    enqueue(valkey, records[::2])
    with running_worker(valkey, history_url, tmp_path), running_worker(valkey, history_url, tmp_path):
        eventually(lambda: summed(history_url) == {HOUR: 300, SIX_HOURS: 300, DAY: 300})
        enqueue(valkey, records[1::2])
        enqueue(valkey, records[:100])
        eventually(lambda: summed(history_url) == {HOUR: 600, SIX_HOURS: 600, DAY: 600})


def test_sums_that_cannot_be_taken_hold_up_no_row(valkey, history_url, tmp_path):
    """Figures that overflow, put there by hand: rows go on coming in, and the log says it once in a while."""
    engine = open_engine(history_url)
    Store(engine).save(make_records(2, received_at=round((time.time() - 2 * HOUR) * 1e3)))
    with engine.begin() as connection:
        connection.execute(requests.update().values(prompt_tokens=1 << 62, cached_tokens=1 << 62))
    engine.dispose()
    enqueue(valkey, make_records(100))
    with running_worker(valkey, history_url, tmp_path):
        eventually(lambda: count(history_url) == 102)
    assert log_of(tmp_path).count("sums") == 1, log_of(tmp_path)


def summed(url):
    """Requests by the length of the rollups that count them; those whose span is due are left out."""
    query = (
        select(rollups.c.span_s, func.sum(rollups.c.requests))
        .where(rollups.c.part == "all", ~select(rollups_due).where(
            rollups_due.c.span_s == rollups.c.span_s, rollups_due.c.start_s == rollups.c.start_s
        ).exists())
        .group_by(rollups.c.span_s)
    )  # fmt: skip
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return {span: int(number) for span, number in connection.execute(query)}
    finally:
        engine.dispose()
