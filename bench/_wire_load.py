"""The load of `bench.overhead`: conversations that grow turn by turn, and clients that time their answers."""

import asyncio
import json
import re
import time
from dataclasses import dataclass, field

STAMP = re.compile(rb'"content":"(\d+) "')
TURNS = 12


@dataclass
class Timed:
    """What one target's clients saw; times in seconds."""

    first: list[float] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)
    requests: int = 0
    events: int = 0
    wall: float = 0.0
    cpu: float = 0.0


def conversation(size: int, messages: int, model: str, session: int, *, stream: bool) -> list[bytes]:
    """Request bodies of about `size` bytes: each continues the one before by an answer and a question."""
    text = (
        f"Session {session} looks at file number %d of the work tree, its tests and what they say about it. "
    )
    each = max(1, (size // messages - 60) // len(text))
    turns = [{"role": "system", "content": "You are a careful agent."}]
    turns += [
        {"role": "assistant" if i % 2 else "user", "content": text % i * each} for i in range(messages - 1)
    ]
    bodies = []
    for turn in range(TURNS):
        head = {"model": model, "stream": stream, "messages": turns}
        bodies.append(json.dumps(head, separators=(",", ":")).encode())
        turns = [
            *turns,
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": f"Now step {turn}."},
        ]
    return bodies


def request(body: bytes) -> bytes:
    """A whole request as an agent's HTTP client writes it."""
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\n"
        "Authorization: Bearer sk-local\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Client(asyncio.Protocol):
    """One kept-alive connection; `ask` returns when the answer is complete."""

    def __init__(self, seen: Timed) -> None:
        self._seen = seen
        self._done: asyncio.Future | None = None

    def connection_made(self, transport):
        self._transport = transport

    def connection_lost(self, _):
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionError("the target closed the connection"))

    async def ask(self, sent: bytes) -> None:
        self._head = b""
        self._left = None
        self._tail = b""
        self._done = asyncio.get_running_loop().create_future()
        self._began = time.perf_counter()
        self._first = True
        self._transport.write(sent)
        await self._done
        self._seen.requests += 1

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data):
        if self._first:
            self._seen.first.append(time.perf_counter() - self._began)
            self._first = False
        now = time.monotonic_ns()
        stamps = STAMP.findall(data)
        self._seen.events += len(stamps)
        self._seen.lag += [(now - int(stamp)) / 1e9 for stamp in stamps]
        if self._left is None and not self._read_head(data):
            return
        if self._left >= 0:
            self._left -= len(data) if not self._head else 0
        self._tail = (self._tail + data)[-5:]
        if self._left == 0 or (self._left < 0 and self._tail == b"0\r\n\r\n"):
            self._done.set_result(None)
        self._head = b""

    def _read_head(self, data) -> bool:
        self._head += data
        head, found, rest = self._head.partition(b"\r\n\r\n")
        if not found:
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            self._done.set_exception(
                RuntimeError(head.decode("latin-1")[:200] + rest.decode("latin-1")[:300])
            )
            return False
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        self._left = int(length[1]) - len(rest) if length else -1
        return True


async def drive(port: int, bodies: list[list[bytes]], each: int) -> Timed:
    """Let one client per conversation send `each` requests in turn, all clients at once."""
    seen = Timed()
    loop = asyncio.get_running_loop()
    sent = [[request(body) for body in turns] for turns in bodies]
    clients = [(await loop.create_connection(lambda: _Client(seen), "127.0.0.1", port))[1] for _ in bodies]

    async def run(client: _Client, turns: list[bytes]) -> None:
        for i in range(each):
            await client.ask(turns[i % len(turns)])

    began = time.perf_counter()
    await asyncio.gather(*[run(client, turns) for client, turns in zip(clients, sent, strict=True)])
    seen.wall = time.perf_counter() - began
    for client in clients:
        client.close()
    return seen
