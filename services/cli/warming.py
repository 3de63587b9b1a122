"""Sends requests through the running proxy to have their answers cached; behind `metalanchor cache warm`.

Owns some threads for as long as it runs: one that follows what the proxy works on, the others sending. Its
own requests are known by the session they name, so that it waits for everybody else's and not for itself.
"""

import http.client
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, NamedTuple

import click
import msgspec

from services.cli import client
from services.cli.errors import Failure, Unreachable
from services.cli.live import follow
from services.proxy.answers.reasons import NEVER
from services.settings import Settings

CHAT = "/v1/chat/completions"
LONGEST_LINE = 8 << 20  # the cache takes no longer body
ANSWER_S = 1_800.0  # a cold prompt on a laptop takes minutes
READY_S = 10.0
NAMED = "X-MetalAnchor-"


class Wanted(NamedTuple):
    """One request to be sent."""

    path: str
    body: bytes
    headers: Mapping[str, str]


class Tally(msgspec.Struct, kw_only=True):
    """What became of them. `asked` went to the backend, `bypassed` of these will not be cached, by reason."""

    requests: int = 0
    cached: int = 0
    asked: int = 0
    failed: int = 0
    bypassed: Counter[str] = msgspec.field(default_factory=Counter)
    errors: Counter[str] = msgspec.field(default_factory=Counter)
    waited_s: float = 0.0
    seconds: float = 0.0


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line that says where its body goes."""

    body: msgspec.Raw
    path: str = CHAT
    headers: dict[str, str] = {}


def read_lines(file: IO[bytes]) -> list[Wanted]:
    """The requests of a file of JSON lines; raises `Failure` naming the line that is none."""
    found: list[Wanted] = []
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise Failure(f"Line {number} is longer than {LONGEST_LINE} bytes; no such answer is cached.")
        if line.strip():
            found.append(_wanted(number, line.strip()))
    if not found:
        raise Failure("There is no request in it.")
    return found


def _wanted(number: int, line: bytes) -> Wanted:
    try:
        members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        if "body" not in members:
            return Wanted(CHAT, line, {})
        told = msgspec.json.decode(line, type=Line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Failure(
            f'Line {number} is neither {{"path", "body", "headers"}} nor the body of a chat: {error}.'
        ) from None
    if not told.path.startswith("/") or told.path.startswith("/metalanchor"):
        raise Failure(f"Line {number}: `path` is the backend's, such as {CHAT}.")
    return Wanted(told.path, bytes(told.body), told.headers)


class Others:
    """Whether the proxy works for anybody else, as its event stream tells."""

    def __init__(self, settings: Settings, own: str) -> None:
        self._settings, self._own = settings, own
        self._changed = threading.Condition()
        self._count: int | None = None
        self._error: click.ClickException | None = None

    def start(self) -> None:
        """Begin to follow; returns once the proxy has told how it stands."""
        threading.Thread(target=self._follow, name="others", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: self._count is not None or self._error, READY_S)
            if self._error is not None:
                raise self._error
            if self._count is None:
                raise Unreachable("The proxy does not say what it works on. `metalanchor status` says more.")

    def wait(self) -> float:
        """Return when there are none; the seconds that took. Raises what ended the following."""
        began = time.monotonic()
        with self._changed:
            if self._count or self._error:
                self._changed.wait_for(lambda: not self._count or self._error)
            if self._error is not None:
                raise self._error
        return time.monotonic() - began

    def end(self) -> None:
        """Let nobody wait any longer."""
        self._tell(0, Unreachable("Given up."))

    @property
    def none(self) -> bool:
        """Whether there are none now."""
        return not self._count

    def _follow(self) -> None:
        try:
            for name, data in follow(self._settings):
                if name == "underway":
                    self._tell(sum(item["session"] != self._own for item in data["items"]))
            raise Unreachable("The proxy stopped.")
        except click.ClickException as error:
            self._tell(0, error)

    def _tell(self, count: int, error: click.ClickException | None = None) -> None:
        with self._changed:
            self._count, self._error = count, error
            self._changed.notify_all()


def run(
    settings: Settings,
    wanted: Sequence[Wanted],
    headers: Iterable[tuple[str, str]],
    concurrency: int,
    told: Callable[[str], None],
) -> Tally:
    """Send them all, at most so many at a time; `told` hears of each, and of waiting."""
    own = f"warm-{secrets.token_hex(6)}"
    others = Others(settings, own)
    others.start()
    sender = _Sender(settings, headers, own, others, told)
    began = time.monotonic()
    with ThreadPoolExecutor(concurrency, thread_name_prefix="warm") as pool:
        try:
            for _ in pool.map(sender.send, wanted):
                pass
        except BaseException:  # Ctrl-C too: the pool would wait for what is under way, minutes long
            pool.shutdown(wait=False, cancel_futures=True)
            others.end()
            sender.give_up()
            raise
    sender.tally.seconds = round(time.monotonic() - began, 3)
    sender.tally.waited_s = round(sender.tally.waited_s, 3)
    return sender.tally


class _Sender:
    """Sends one request after the other, from several threads, and counts."""

    def __init__(
        self, settings: Settings, headers: Iterable[tuple[str, str]], own: str, others: Others,
        told: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._settings = settings
        self._headers = [
            ("Content-Type", "application/json"),
            (NAMED + "Session", own),
            (NAMED + "Cache-Control", "warm"),
            *client.credentials(settings).items(),
            *headers,
        ]
        self._others, self._told = others, told
        self._lock = threading.Lock()
        self._open: set[http.client.HTTPConnection] = set()
        self.tally = Tally()

    def send(self, wanted: Wanted) -> None:
        """Wait for others, then have it answered. Raises what ends the whole run."""
        if not self._others.none:
            self._told("Waiting for others")
        waited = self._others.wait()
        status, verdict, error = self._exchange(wanted)
        with self._lock:
            self._count(status, verdict, error, waited)
        self._told("")

    def give_up(self) -> None:
        """Break off what is under way, which frees the backend."""
        for connection in self._open.copy():
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _count(self, status: int, verdict: str, error: str, waited: float) -> None:
        tally = self.tally
        tally.requests += 1
        tally.waited_s += waited
        if error or status != http.client.OK:
            tally.failed += 1
            tally.errors[error or f"HTTP {status}"] += 1
        elif verdict in {"hit", "semantic"}:
            tally.cached += 1
        else:
            tally.asked += 1
            reason = verdict.removeprefix("bypass:") if verdict else "off"
            if reason in NEVER:
                tally.bypassed[reason] += 1

    def _exchange(self, wanted: Wanted) -> tuple[int, str, str]:
        connection = client.connect(self._settings, ANSWER_S)
        self._open.add(connection)
        try:
            connection.putrequest("POST", wanted.path)
            connection.putheader("Content-Length", str(len(wanted.body)))
            for name, value in [*self._headers, *wanted.headers.items()]:
                connection.putheader(name, value)
            connection.endheaders(wanted.body)
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0, "", type(error).__name__
        else:
            return response.status, str(response.getheader(NAMED + "Cache") or ""), ""
        finally:
            self._open.discard(connection)
            connection.close()
