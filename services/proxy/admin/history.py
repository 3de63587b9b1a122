"""The way from the admin routes to the history: reads in threads of their own, bounded in number and time.

Owns the read-only engine, opened at the first question: the proxy imports SQLAlchemy only when somebody
looks. The threads are daemons outside the loop's pool, so that a database that hangs holds up neither the
analysis of requests nor the end of the process.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from services.proxy.admin.errors import HistoryUnavailable

T = TypeVar("T")

READERS = 4
# The report figure is 100 ms at a million rows; whoever waits longer waits for a locked or absent database.
LIMIT_S = 10.0


class History:
    """Runs questions against the history; raises `HistoryUnavailable` when it is away or too slow."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine: Any = None
        self._lock = threading.Lock()
        self._slots = asyncio.Semaphore(READERS)

    async def ask(self, question: Callable[..., T], *args: Any, limit_s: float = LIMIT_S) -> T:
        """`question(connection, *args)` in a thread, on a connection that cannot write."""
        return await self.run(self._connected, question, *args, limit_s=limit_s)

    async def run(self, work: Callable[..., T], *args: Any, limit_s: float = LIMIT_S) -> T:
        """`work(*args)` in a thread, with the same limits and errors."""
        try:
            async with asyncio.timeout(limit_s):
                await self._slots.acquire()
                future = _in_thread(work, args)
                future.add_done_callback(self._free(asyncio.get_running_loop()))
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise HistoryUnavailable("The history database does not answer in time.") from None

    def close(self) -> None:
        """Give the connections back."""
        if self._engine is not None:
            self._engine.dispose()

    def _free(self, loop: asyncio.AbstractEventLoop) -> Callable[[Future[Any]], None]:
        def freed(_: Future[Any]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._slots.release)

        return freed

    def _connected(self, question: Callable[..., T], *args: Any) -> T:
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  # not before somebody looks

        from services.history.engine import HistoryError, open_engine  # noqa: PLC0415

        try:
            with self._lock:
                self._engine = self._engine or open_engine(self.url, read_only=True)
            with self._engine.connect() as connection:
                return question(connection, *args)
        except HistoryError as error:
            raise HistoryUnavailable(str(error)) from None
        except SQLAlchemyError as error:
            raise HistoryUnavailable(_advice(error)) from None


def _in_thread(work: Callable[..., T], args: tuple[Any, ...]) -> Future[T]:
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # it is done when the thread is, whoever gave up waiting before

    def run() -> None:
        try:
            future.set_result(work(*args))
        except BaseException as error:  # noqa: BLE001  # whoever awaits it gets it
            future.set_exception(error)

    threading.Thread(target=run, name="history", daemon=True).start()
    return future


def _advice(error: Exception) -> str:
    kind = type(getattr(error, "orig", None) or error).__name__
    return (
        f"The history database cannot be read ({kind}). Check METALANCHOR_DATABASE_URL, "
        "and that `metalanchor migrate` and the worker have run."
    )
