"""rq's worker as we run it, in this process: how it leaves its loop."""

import threading

import pytest
from redis.exceptions import RedisError

from services.logger.rqworker import LogWorker
from services.queue import open_queue

pytestmark = pytest.mark.process


@pytest.mark.parametrize("step", ["check_for_suspension", "run_maintenance_tasks"])
def test_redis_that_goes_in_mid_loop_ends_the_loop_quietly(valkey, monkeypatch, caplog, step):
    """Whatever rq asks of Redis: the caller is told, and no traceback fills the log."""
    client = valkey.client()
    worker = LogWorker(open_queue(client), threading.Event())
    worker.last_cleaned_at = None  # so that maintenance is due
    theirs = getattr(type(worker).__mro__[1], step)

    def dying(self, *args):
        valkey.stop()
        return theirs(self, *args)

    monkeypatch.setattr(type(worker).__mro__[1], step, dying)
    with client, pytest.raises((RedisError, OSError)):
        worker.stretch(max_jobs=1, idle_s=1, burst=True)

    assert "Traceback" not in caplog.text
