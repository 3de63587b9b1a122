"""Clients of the shared Redis."""

import asyncio
import contextlib

from services.redis_client import end


async def test_a_task_that_takes_a_cancellation_for_a_time_limit_ends_all_the_same():
    """It is cancelled until it has ended; its neighbours' failures are nobody's business."""
    begun = asyncio.Event()

    async def deaf() -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    async def failing() -> None:
        raise OSError("gone")

    tasks = [asyncio.create_task(deaf()), asyncio.create_task(failing())]
    await begun.wait()
    await asyncio.wait_for(end(tasks), 5)
    assert all(task.done() for task in tasks)
