"""R88: several writers, long readers and two migrations at once end without an error."""

import multiprocessing
import time

import pytest
from sqlalchemy import func, select, text

from services.history import migrate
from services.history.engine import open_engine
from services.history.tables import requests
from services.logger.store import Store
from tests.support.records import make_records

pytestmark = pytest.mark.process

WRITERS, ROWS = 4, 1_000


def write(url):
    """One process that stores its rows in small batches; answers how many were new."""
    engine = open_engine(url)
    store = Store(engine)
    records = make_records(ROWS)
    stored = sum(store.save(records[start : start + 20]).stored for start in range(0, ROWS, 20))
    engine.dispose()
    return stored


def read(url):
    """One process with a snapshot held open for two seconds; answers whether it stayed the same."""
    engine = open_engine(url, read_only=True)
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        else:
            connection.exec_driver_sql("BEGIN")
        query = select(func.count()).select_from(requests)
        first = connection.scalar(query)
        time.sleep(2)
        same = connection.scalar(query) == first
    engine.dispose()
    return same


def test_writers_readers_and_migrations_at_once(history_url):
    """Every row is there, every reader saw one state, nobody was told that the database is locked."""
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        writers = [pool.apply_async(write, [history_url]) for _ in range(WRITERS)]
        readers = [pool.apply_async(read, [history_url]) for _ in range(2)]
        movers = [pool.apply_async(migrate.upgrade, [history_url]) for _ in range(2)]
        assert [writer.get(60) for writer in writers] == [ROWS] * WRITERS
        assert [reader.get(60) for reader in readers] == [True, True]
        assert [mover.get(60) for mover in movers] == [migrate.newest()] * 2
    engine = open_engine(history_url)
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(requests)) == WRITERS * ROWS
    engine.dispose()


def test_a_reader_cannot_write(history_url):
    """What the dashboard and the command line open is read-only in the database itself."""
    from sqlalchemy.exc import DBAPIError

    engine = open_engine(history_url, read_only=True)
    with engine.connect() as connection, pytest.raises(DBAPIError, match=r"(?i)read-?only"):
        connection.execute(requests.delete())
    engine.dispose()
