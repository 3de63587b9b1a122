"""Notices that the client left, in every phase: owns the one pending `receive()` of a request.

granian swallows sends to a client that is gone; only `receive()` tells. It is watched through a callback, not
a task: this is on the path of every request.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

Receive = Callable[[], Awaitable[dict[str, Any]]]


class DisconnectWatch:
    """Calls `left` once when the client goes before `ended` is set."""

    __slots__ = ("_left", "_pending", "_receive", "_watching", "ended")

    def __init__(self, receive: Receive, left: Callable[[], None]) -> None:
        self._receive, self._left = receive, left
        self._pending: Any = None
        self._watching = False
        self.ended = False

    def watch(self) -> None:
        """Start watching, once; the request's body must have been read, or be without one."""
        if not self._watching:
            self._watching = True
            self._listen()

    def _listen(self) -> None:
        pending: Any = self._receive()
        if not hasattr(pending, "add_done_callback"):  # a coroutine, or granian's already finished answer
            pending = self._pending = asyncio.ensure_future(_await(pending))
        # granian's own future is not kept: it holds our callback, and a cycle through it cannot be collected,
        # so every request would stay in memory with its body.
        pending.add_done_callback(self._done)

    def release(self) -> None:
        """The request is over; nothing is called any more."""
        self.ended, self._left = True, _nothing

    def _done(self, future: Any) -> None:
        if self.ended:
            if isinstance(future, asyncio.Future) and not future.cancelled():
                future.exception()
            return
        message = cast("dict[str, Any]", future.result())
        if message["type"] == "http.disconnect":
            self.ended = True
            self._left()
        else:
            self._listen()


def _nothing() -> None:
    """What is called when the client of a request that is over leaves."""


async def _await(awaitable: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    return await awaitable
