"""A TCP relay before a real Redis that can be told to misbehave on the wire."""

import asyncio
import contextlib
from typing import Literal, Self

Mode = Literal["pass", "hang", "refuse", "slow", "loading"]


class FaultyRedis:
    """Relays to `port`. hang: takes requests, passes no reply; refuse: closes; slow: one byte a time.

    `delay_s` holds every reply back by that long in mode ``pass``. loading: answers every request with the
    error of a server that is still reading its file.
    """

    def __init__(self, port: int) -> None:
        self.mode: Mode = "pass"
        self.delay_s = 0.0
        self.connections = 0
        self._port = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._tasks.add(asyncio.current_task())
        self._writers.add(writer)
        if self.mode == "refuse":
            writer.close()
            return
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.add(up_writer)
        back = asyncio.create_task(self._back(up_reader, writer))
        self._tasks.add(back)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self.mode == "loading":
                    writer.write(b"-LOADING server is loading the dataset in memory\r\n")
                else:
                    up_writer.write(data)
        back.cancel()
        up_writer.close()
        writer.close()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                while self.mode == "hang":  # noqa: ASYNC110 - the mode is set from outside
                    await asyncio.sleep(0.01)
                await asyncio.sleep(self.delay_s)
                if self.mode == "slow":
                    for at in range(len(data)):
                        writer.write(data[at : at + 1])
                        await asyncio.sleep(0.02 if self.mode == "slow" else 0)
                else:
                    writer.write(data)
