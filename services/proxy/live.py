"""Owns the flows that are under way: what `/status` counts, and what a stop or a leaving client ends.

A flow is ended by cancelling its task, in whichever phase it is; why it was cancelled stands here, since a
cancellation itself cannot say.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Literal

from services.proxy.flow import Flow

Ending = Literal["client_cancelled", "proxy_stopped"]


class LiveFlow:
    """One flow, its task, and why it was ended early, if it was. `close` writes its row, once."""

    __slots__ = ("_task", "close", "ending", "flow")

    def __init__(self, flow: Flow, task: asyncio.Task[object], close: Callable[[], None]) -> None:
        self.flow, self._task, self.close = flow, task, close
        self.ending: Ending | None = None

    def end(self, why: Ending) -> None:
        """Cancel the flow, once; the first reason stands."""
        if self.ending is None:
            self.ending = why
            self._task.cancel()


class Live:
    """All flows under way in this process, in order of arrival."""

    def __init__(self) -> None:
        self._flows: dict[str, LiveFlow] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._flows)

    def __iter__(self) -> Iterator[LiveFlow]:
        return iter(list(self._flows.values()))

    def enter(self, flow: Flow, close: Callable[[], None]) -> LiveFlow:
        """Register the flow that the current task carries; `close` is called if it will not end by itself."""
        task = asyncio.current_task()
        assert task is not None
        underway = self._flows[flow.id] = LiveFlow(flow, task, close)
        self._empty.clear()
        return underway

    def leave(self, flow: Flow) -> None:
        """The flow has its row."""
        self._flows.pop(flow.id, None)
        if not self._flows:
            self._empty.set()

    async def stop(self, timeout_s: float) -> None:
        """End every flow as `proxy_stopped`; one that cannot be ended in time has its row all the same."""
        self.stopping = True
        for underway in self:
            underway.end("proxy_stopped")
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            for underway in self:
                underway.flow.status = "proxy_stopped"
                underway.close()
