"""A TCP relay that stands between an agent and the proxy and keeps what the agent sent, byte for byte."""

import asyncio
from dataclasses import dataclass, field

import httptools


@dataclass
class Sent:
    """One request as it left the agent."""

    method: str = ""
    target: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class _Reader:
    """Collects requests from one connection's bytes."""

    def __init__(self, requests: list[Sent]) -> None:
        self.requests = requests
        self.current = Sent()
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self.current = Sent()

    def on_url(self, url: bytes) -> None:
        self.current.target += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.current.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self.current.body += data

    def on_message_complete(self) -> None:
        self.current.method = self.parser.get_method().decode()
        self.requests.append(self.current)


class Recorder:
    """Listens on a free port and relays to `port`; `requests` holds what passed, oldest first."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.requests: list[Sent] = []
        self.server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where agents are pointed at."""
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        """Listen."""
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def close(self) -> None:
        """Stop listening and close what is open."""
        assert self.server is not None
        self.server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        parser = _Reader(self.requests).parser
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            await asyncio.gather(
                _pump(reader, up_writer, parser.feed_data), _pump(up_reader, writer, lambda _data: None)
            )
        except OSError:
            pass
        finally:
            up_writer.close()
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look) -> None:
    while data := await reader.read(65536):
        look(data)
        writer.write(data)
        await writer.drain()
    writer.write_eof()
