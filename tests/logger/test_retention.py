"""Old rows go in small steps, and nobody waits for that."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from services.history.engine import HistoryError, open_engine
from services.history.tables import requests, time_of
from services.logger.retention import cutoff, prune, prune_step
from services.logger.store import Store
from tests.support.records import START_MS, make_records

pytestmark = pytest.mark.process


@pytest.fixture
def engine(history_url):
    engine = open_engine(history_url)
    yield engine
    engine.dispose()


def count(engine):
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(requests))


def test_rows_before_the_time_go_and_the_rest_stay(engine, history_url):
    """The border itself stays; progress tells how far it is."""
    Store(engine).save(make_records(120))
    seen = []
    done = prune(history_url, time_of(START_MS + 100_000), lambda *step: seen.append(step), batch=30)
    assert (done, count(engine)) == (100, 20)
    assert seen == [(30, 100), (60, 100), (90, 100), (100, 100)]


def test_one_step_is_small(engine):
    """The write lock is given back between steps."""
    Store(engine).save(make_records(50))
    assert prune_step(engine, cutoff(0), batch=20) == 20
    assert count(engine) == 30


def test_pruning_and_writing_at_once_disturb_neither(engine, history_url):
    """A worker goes on storing while the command line prunes, and readers read."""
    Store(engine).save(make_records(1_000))
    fresh = make_records(500, received_at=int(datetime.now(UTC).timestamp() * 1000))

    def write():
        store = Store(engine)
        for start in range(0, len(fresh), 25):
            store.save(fresh[start : start + 25])
            assert count(engine) > 0

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        prune(history_url, datetime.now(UTC) - timedelta(days=1), batch=50)
        writing.result()
    assert count(engine) == 500


def test_without_a_history_it_says_so(database_url):
    """The command line shows one line, not a traceback."""
    with pytest.raises(HistoryError, match="METALANCHOR_DATABASE_URL"):
        prune(database_url, cutoff(1))


def test_more_days_than_the_calendar_has_keep_everything():
    """Whoever writes 9,999,999 means for ever."""
    assert cutoff(9_999_999) == time_of(0)
