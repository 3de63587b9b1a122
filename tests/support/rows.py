"""What is in the queue, as rows, for tests of the way out of the proxy."""

import json
import time
from collections.abc import Callable
from typing import Any

from services.queue import open_queue


def queued(valkey: Any) -> list[dict[str, Any]]:
    """The rows of all waiting jobs, first queued first."""
    client = valkey.client()
    try:
        jobs = open_queue(client).jobs
        return [row for job in jobs for row in json.loads(job.args[0])]
    finally:
        client.close()


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The condition's first true value; fails when none comes in time."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"did not come true within {seconds} s"
        time.sleep(0.02)
    return value
