"""Steady mixed traffic, and the client's side of the books.

Every request carries its number as explicit session, so that its row is found by it whatever became of the
answer. One `Entry` says what was sent and what came back; `ledger.compare` holds it against SQL.
"""

import asyncio
import itertools
import json
import random
import threading
import time
from dataclasses import dataclass
from typing import Any, Self

SYSTEM = "You are a careful assistant that answers briefly and never guesses. " * 6
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("read_file", "write_file", "run")
]
LAST_WORDS = {
    "/api/chat": b'"done": true',
    "/v1/chat/completions": b'"finish_reason": "stop"',
    "/v1/messages": b'"stop_reason": "end_turn"',
    "/v1/responses": b'"status": "completed"',
}
WAIT_S = 30.0  # no request waits this long by itself


@dataclass
class Entry:
    """One request. Instants are `time.monotonic` seconds; `end` says how it ended for the client.

    `plan`: ``ok``, ``error`` (the backend's own 404), ``leave`` (this client goes), or a backend's fault.
    `end`: ``answered`` (complete), ``left`` (as planned), ``broken``, ``refused`` (no connection),
    ``truncated`` (well framed, yet not whole), ``late``.
    """

    number: int
    method: str
    path: str
    plan: str
    sent: float
    head: float | None = None
    done: float | None = None
    status: int | None = None
    id: str | None = None
    error: str | None = None
    end: str = ""

    @property
    def session(self) -> str:
        """The session that its row carries."""
        return f"ledger-{self.number}"

    @property
    def wait_s(self) -> float | None:
        """Seconds until the answer began."""
        return None if self.head is None else self.head - self.sent


@dataclass(frozen=True)
class Ask:
    """What to send."""

    method: str
    path: str
    body: bytes = b""
    plan: str = "ok"
    leave_after: float | None = None
    fault: str | None = None


class Talk:
    """One agent's conversation, which grows turn by turn and starts anew now and then."""

    def __init__(self, name: str, dice: random.Random, faults: float) -> None:
        self._name, self._dice, self._faults = name, dice, faults
        self._turns = itertools.count()
        self._messages: list[dict[str, Any]] = []

    def ask(self) -> Ask:
        """The next request: mostly chats in all dialects, now and then something else."""
        dice = self._dice.random()
        if dice < 0.06:
            return Ask("GET", self._dice.choice(("/api/tags", "/v1/models", "/api/version")))
        if dice < 0.10:
            return Ask(
                "POST", "/api/embed", _dump(model="qwen3:8b", input=f"{self._name} {next(self._turns)}")
            )
        if dice < 0.13:
            return Ask("POST", "/api/nothing", _dump(model="qwen3:8b"), plan="error")
        if dice < 0.17:
            path, body = self._chat(stream=True)
            return Ask("POST", path, body, "leave", leave_after=self._dice.uniform(0.02, 0.08))
        if dice < 0.17 + self._faults:
            fault = self._dice.choice(("garbage", "cut", "close"))
            return Ask("POST", *self._chat(stream=True), fault)
        return Ask("POST", *self._chat(stream=self._dice.random() < 0.6))

    def _chat(self, *, stream: bool) -> tuple[str, bytes]:
        if len(self._messages) > 24:
            self._messages = []
        number = next(self._turns)
        if self._messages:
            self._messages.append({"role": "assistant", "content": "The scripted model answers."})
        self._messages.append({"role": "user", "content": f"{self._name} asks {number}. " * 12})
        path = self._dice.choice(("/api/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses"))
        common = {"model": "qwen3:8b", "stream": stream}
        if path == "/v1/messages":
            return path, _dump(**common, max_tokens=64, system=SYSTEM, messages=self._messages)
        if path == "/v1/responses":
            return path, _dump(**common, instructions=SYSTEM, input=self._messages)
        messages = [{"role": "system", "content": SYSTEM}, *self._messages]
        return path, _dump(**common, tools=TOOLS, messages=messages)


class Traffic:
    """`clients` agents in a thread of their own, each on a kept-alive connection, with pauses."""

    def __init__(
        self, port: int, clients: int = 4, pause_s: float = 0.02, faults: float = 0.03, seed: int = 1
    ) -> None:
        self.port = port
        self.entries: list[Entry] = []
        self._clients, self._pause, self._faults = clients, pause_s, faults
        self._dice = random.Random(seed)
        self._numbers = itertools.count(1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="traffic", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S + 5)

    def flow(self, seconds: float) -> tuple[float, float]:
        """Let it run on for a while; the span."""
        start = time.monotonic()
        time.sleep(seconds)
        return start, time.monotonic()

    async def _run(self) -> None:
        seeds = [random.Random(self._dice.random()) for _ in range(self._clients)]
        talks = [Talk(f"agent {i}", dice, self._faults) for i, dice in enumerate(seeds)]
        async with asyncio.TaskGroup() as group:
            for talk in talks:
                group.create_task(self._chatter(talk))

    async def _chatter(self, talk: Talk) -> None:
        line = Line(self.port)
        while not self._stop.is_set():
            await self.send(line, talk.ask())
            await asyncio.sleep(self._pause)
        line.close()

    async def send(self, line: "Line", ask: Ask) -> Entry:
        """One request, and its entry."""
        entry = Entry(next(self._numbers), ask.method, ask.path, ask.plan, time.monotonic())
        self.entries.append(entry)
        try:
            async with asyncio.timeout(ask.leave_after or WAIT_S):
                entry.end = await line.exchange(entry, ask)
        except TimeoutError:
            entry.end = "left" if ask.leave_after else "late"
            line.close()
        except ConnectionRefusedError:
            entry.end = "refused"
            line.close()
        except (OSError, EOFError, ValueError):
            entry.end = "broken"
            line.close()
        if entry.plan == "leave" and entry.end == "answered":
            entry.plan = "ok"
        entry.done = time.monotonic()
        if entry.end in {"refused", "broken"}:
            await asyncio.sleep(0.05)
        return entry


class Line:
    """One kept-alive connection, opened when needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    def close(self) -> None:
        """Leave at once."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def exchange(self, entry: Entry, ask: Ask) -> str:
        """Send and read to the end; how it ended. Raises what the socket raises."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            entry.sent = time.monotonic()
        assert self._reader is not None
        self._writer.write(_head(entry, ask) + ask.body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        entry.head = time.monotonic()
        fields = _fields(entry, head)
        body = await self._drain(fields)
        if body is None or fields.get("connection") == "close":
            self.close()
        if body is None:
            return "broken"
        # Well framed is not whole: the last words of every complete answer are known.
        complete = entry.plan != "ok" or ask.path not in LAST_WORDS or LAST_WORDS[ask.path] in body[-2000:]
        return "answered" if complete else "truncated"

    async def _drain(self, fields: dict[str, str]) -> bytes | None:
        """The body, None where its end was not told."""
        reader = self._reader
        assert reader is not None
        if "content-length" in fields:
            return await reader.readexactly(int(fields["content-length"]))
        if fields.get("transfer-encoding") != "chunked":
            await reader.read(-1)
            return None
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return body


def _head(entry: Entry, ask: Ask) -> bytes:
    lines = [f"{ask.method} {ask.path} HTTP/1.1", "Host: 127.0.0.1", f"X-Ledger: {entry.number}"]
    lines += [f"X-MetalAnchor-Session: {entry.session}", f"Content-Length: {len(ask.body)}"]
    if ask.body:
        lines.append("Content-Type: application/json")
    if ask.plan not in {"ok", "error"}:
        lines.append(f"X-Fault: {ask.fault or ask.plan}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _fields(entry: Entry, head: bytes) -> dict[str, str]:
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    entry.status = int(first.split(" ")[1])
    entry.id = fields.get("x-metalanchor-request-id")
    entry.error = fields.get("x-metalanchor-error")
    return fields


def _dump(**body: Any) -> bytes:
    return json.dumps(body).encode()


def quantile(values: list[float], part: float) -> float:
    """A quantile; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0
