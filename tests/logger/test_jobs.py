"""The job function: what a batch may hold, and what importing it must not do."""

import subprocess
import sys

import pytest

from services.history.engine import open_engine
from services.logger import jobs
from services.logger.store import Saved, Store, Unavailable
from services.record import encode
from tests.support.records import batch_of, make_record, make_records


@pytest.fixture
def tally(history_url, monkeypatch):
    """The tally of this process, with jobs that write to a fresh history."""
    monkeypatch.setattr(jobs, "tally", Saved())
    jobs.use(Store(open_engine(history_url)))
    yield jobs.tally
    jobs.use(None)


@pytest.mark.process
def test_a_batch_is_stored(tally):
    """The answer is the number of new rows."""
    batch = batch_of(make_records(7))
    assert (jobs.persist(batch), jobs.persist(batch)) == (7, 0)
    assert tally == Saved(stored=7, repeated=7)


@pytest.mark.process
def test_a_record_that_cannot_be_read_does_not_hold_up_the_others(tally):
    """It is counted; a proxy of another version may send one."""
    good = encode(make_record()).decode()
    batch = f'[{good}, {{"id": 5}}, {{"id": "x", "received_at": "yesterday", "status": "completed"}}, 7]'
    assert jobs.persist(batch) == 1
    assert tally == Saved(stored=1, dropped=3)


@pytest.mark.process
@pytest.mark.parametrize("batch", ["", "nonsense", "{}", '[{"id"', "null"])
def test_what_is_no_batch_is_counted(tally, batch):
    """It is not tried again for ever."""
    assert jobs.persist(batch) == 0
    assert tally.dropped == 1


@pytest.mark.process
def test_fields_of_a_newer_proxy_are_ignored(tally):
    """Proxy and worker may be updated one after the other."""
    newer = encode(make_record(v=2)).decode()[:-1] + ', "field_of_tomorrow": {"a": 1}}'
    assert jobs.persist(f"[{newer}]") == 1
    assert tally == Saved(stored=1)


def test_an_unexpected_error_tells_nothing_of_the_batch(monkeypatch):
    """R89: rq keeps the traceback in Redis; it names the kind of error alone."""

    class Broken:
        def save(self, records):
            raise RuntimeError("CANARY-123 " + records[0].id)

        def close(self):
            pass

    jobs.use(Broken())
    try:
        with pytest.raises(Unavailable) as caught:
            jobs.persist(batch_of(make_records(1)))
    finally:
        jobs.use(None)
    assert str(caught.value) == "RuntimeError"
    assert caught.value.__suppress_context__


def test_importing_the_job_starts_nothing():
    """No settings are read, no database is opened, and nothing of the proxy's framework is loaded."""
    code = (
        "import sys; from services.logger import jobs; "
        "assert jobs._store is None; "
        "assert not {'litestar', 'granian'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
