"""A raw-socket HTTP/1.1 client: it sends what it is told and keeps what came, with the instants."""

import socket
import time
from dataclasses import dataclass, field
from typing import Self

Headers = list[tuple[str, str]]


@dataclass
class Answer:
    """One response. `pieces` are its body's reads with their instants; `broken`: it ended too early."""

    status: int
    reason: str
    headers: Headers
    body: bytes = b""
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    broken: bool = False
    head_at: float = 0.0

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever its case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def all(self, name: str) -> list[str]:
        """All values of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    @property
    def ours(self) -> dict[str, str]:
        """The headers that the proxy adds, without their common prefix."""
        prefix = "x-metalanchor-"
        return {k.lower()[len(prefix) :]: v for k, v in self.headers if k.lower().startswith(prefix)}


class Client:
    """One connection to 127.0.0.1."""

    def __init__(self, port: int, timeout: float = 15.0, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._method = "GET"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave."""
        self.socket.close()

    def send(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Headers | None = None,
        *,
        host: str | None = "127.0.0.1",
    ) -> None:
        """Send a request; a body gets its Content-Length unless `headers` say how it is framed."""
        self._method = method
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [] if host is None else [f"Host: {host}"]
        named = {name.lower() for name, _ in headers or []}
        lines += [f"{name}: {value}" for name, value in headers or []]
        if body and not named & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(body)}")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def head(self) -> Answer:
        """Wait for a response's head; 100 Continue is passed over."""
        while True:
            while b"\r\n\r\n" not in self._buffer:
                data = self.socket.recv(65_536)
                assert data, f"the connection closed without an answer, after {self._buffer!r}"
                self._buffer += data
            raw, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            first, *lines = raw.decode("latin-1").split("\r\n")
            _, status, reason = (first + " ").split(" ", 2)
            headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
            if int(status) >= 200:
                return Answer(int(status), reason.strip(), headers, head_at=time.monotonic())

    def answer(self) -> Answer:
        """Wait for a whole response."""
        answer = self.head()
        length, chunked = answer.header("content-length"), answer.header("transfer-encoding") == "chunked"
        if self._method == "HEAD" or answer.status in {204, 304}:
            return answer
        if chunked:
            self._chunks(answer)
        elif length is not None:
            while len(answer.body) < int(length):
                data = self._take(int(length) - len(answer.body))
                if not data:
                    answer.broken = True
                    break
                _add(answer, data)
        else:
            while data := self._take(1 << 20):
                _add(answer, data)
        return answer

    def request(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Headers | None = None,
        *,
        host: str | None = "127.0.0.1",
    ) -> Answer:
        """Send a request and wait for the whole response."""
        self.send(method, target, body, headers, host=host)
        return self.answer()

    def _chunks(self, answer: Answer) -> None:
        while True:
            line = self._line()
            if not line:
                answer.broken = True
                return
            size = int(line, 16)
            data = b""
            while len(data) < size:
                more = self._take(size - len(data))
                if not more:
                    answer.broken = True
                    _add(answer, data)
                    return
                data += more
            if size:
                _add(answer, data)
            if self._line() is None:
                answer.broken = True
                return
            if not size:
                return

    def _line(self) -> bytes | None:
        while b"\r\n" not in self._buffer:
            data = self._receive()
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _take(self, most: int) -> bytes:
        if not self._buffer:
            self._buffer = self._receive()
        data, self._buffer = self._buffer[:most], self._buffer[most:]
        return data

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(1 << 20)
        except ConnectionResetError:
            return b""


def _add(answer: Answer, data: bytes) -> None:
    if data:
        answer.body += data
        answer.pieces.append((time.monotonic(), data))
