"""Every parser of foreign bytes as a function of bytes that may raise what its contract names, and no more.

Used by the property tests beside it and by the coverage-guided run (`python -m tests.fuzz.run`).
"""

import asyncio
import contextlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from services.history.console import Refused, run_sql
from services.history.engine import HistoryError, open_engine
from services.history.migrate import upgrade
from services.history.queries import BadCursor, Filters, list_lineages, list_requests, list_sessions
from services.proxy.app import PLAIN
from services.proxy.chunking import cut
from services.proxy.chunking.cut import UnparsedError
from services.proxy.dialects import for_route
from services.proxy.identity import SAFE, identify
from services.proxy.upstream.answer import Answer
from services.proxy.upstream.base import UpstreamError
from services.proxy.wire.errors import RefusedError
from services.proxy.wire.guard import Guard
from services.record import decode_batch
from services.settings import Settings, SettingsError, load

ROUTES = (
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings",
    "/api/chat", "/api/generate", "/api/embed", "/completion",
)  # fmt: skip
# Time one input of a few kilobytes may take: a quadratic reader on a loaded machine stays below, a hang not.
LIMIT_S = 5.0
KEY = b"k" * 32


class Link:
    """A connection that goes nowhere; `ended` once the answer let go of it."""

    ended = False

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def finished(self, *, reusable: bool) -> None:
        self.ended = True

    def drop(self) -> None:
        self.ended = True


def fuzz_cut(data: bytes) -> None:
    """Slices of JSON are the received bytes, at their offsets."""
    try:
        found = cut.members(data)
    except UnparsedError:
        return
    if cut.mend(data) != data:
        return  # a lone surrogate: what was cut is a mended copy
    for part in found.values():
        raw = bytes(part)
        at = cut.offset(part, data)
        assert data[at : at + len(raw)] == raw
        cut.is_set(part)
        cut.text_of(part)
        cut.number_of(part)
        cut.flag_of(part)


def fuzz_read(data: bytes) -> None:
    """A request in every dialect: read it, then every section of every chunk."""
    for path in ROUTES:
        dialect = for_route("POST", path)
        assert dialect is not None
        try:
            prompt = dialect.read(data, "b")
        except UnparsedError:
            continue
        for chunk in prompt.chunks:
            for section in dialect.sections(chunk.kind, chunk.raw):
                prompt.path(chunk, section.path)
        identity = identify([], prompt, KEY, None)
        for name in (identity.session, identity.agent, identity.scope):
            assert name is None or SAFE.fullmatch(name)


def fuzz_tap(data: bytes) -> None:
    """An answer in every dialect and encoding, cut anywhere; a tap never raises."""
    if not data:
        return
    kinds = ("application/json", "text/event-stream", "application/x-ndjson", "")
    encodings = ("", "gzip", "deflate", "br", "zstd", "gzip, deflate")
    step, encoding = data[0] % 40 + 1, encodings[data[0] % len(encodings)]
    body = data[1:]
    for path in ROUTES:
        dialect = for_route("POST", path)
        assert dialect is not None
        tap = dialect.tap(None, kinds[data[0] % len(kinds)], encoding)
        for at in range(0, len(body), step):
            tap.feed(body[at : at + step], 0.0)
        outcome = tap.close(1.0)
        assert not (outcome.unparsed or "").startswith("tap_"), outcome.unparsed


def fuzz_answer(data: bytes) -> None:
    """A backend's answer from the wire: an answer, or an `UpstreamError`."""
    asyncio.run(_answer(data))


async def _answer(data: bytes) -> None:
    link = Link()
    answer = Answer(link, bodiless=data[:1] > b"\x80")
    step = (data[0] if data else 0) % 60 + 1
    for at in range(1, len(data), step):
        if not link.ended:
            answer.feed(data[at : at + step])
    answer.ended()
    try:
        await answer.head()
        while await answer.more():
            answer.available()
    except UpstreamError:
        return
    assert 200 <= answer.status <= 999


def fuzz_settings(data: bytes) -> None:
    """Environment and file: settings, or an error that names one."""
    text = data.decode("utf-8", "surrogateescape").replace("\0", "")
    environ = {}
    for line in text.splitlines()[:20]:
        name, _, value = line.partition("=")
        environ[f"METALANCHOR_{name.upper()}"] = value
    environ.pop("METALANCHOR_CONFIG", None)
    try:
        load(environ)
    except SettingsError as error:
        said = str(error)
    else:
        return
    assert "METALANCHOR_" in said or "[[backend]]" in said


def fuzz_file(data: bytes) -> None:
    """A settings file of any bytes."""
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(data)
        file.flush()
        try:
            load({}, Path(file.name))
        except SettingsError:
            return


def fuzz_guard(data: bytes) -> None:
    """Host, Origin and tokens of any bytes: let in, or refused; and one spelling only opens our routes."""
    host, _, rest = data.partition(b"\n")
    origin, _, path = rest.partition(b"\n")
    guard = Guard(Settings(token="secret"))
    headers = [(b"host", host), (b"origin", origin), (b"authorization", rest), (b"x-api-key", host)]
    for check in (guard.check_host, guard.check_origin, guard.admit):
        try:
            check(headers)
        except RefusedError:
            continue
    if PLAIN.match(path):
        assert b"%" not in path
        assert b"//" not in path
        assert b"/." not in path.replace(b"/.w", b"") or b"/../" not in path


def fuzz_headers(data: bytes) -> None:
    """Names from any header are safe to repeat."""
    values = data.split(b"\n")
    names = (b"x-metalanchor-session", b"user-agent", b"x-tenant", b"authorization", b"x-session-id")
    identity = identify(list(zip(names, values, strict=False)), None, KEY, "X-Tenant")
    for name in (identity.session, identity.agent, identity.agent_version, identity.scope):
        assert name is None or SAFE.fullmatch(name), name


def fuzz_batch(data: bytes) -> None:
    """A job's argument: records, or one kind of error."""
    try:
        decode_batch(data)
    except msgspec.DecodeError:
        return


class History:
    """One small history that no input may change."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ma-fuzz-"))
        self.path = self._folder / "history.sqlite"
        self.url = f"sqlite:///{self.path}"
        upgrade(self.url)
        self.engine = open_engine(self.url)
        self.before = self._dump()

    def _dump(self) -> str:
        connection = sqlite3.connect(self.path)
        try:
            return "\n".join(connection.iterdump())
        finally:
            connection.close()

    def unchanged(self) -> bool:
        """Whether file and folder are as they were."""
        names = {p.name.partition("-")[0] for p in self._folder.iterdir()}
        return self._dump() == self.before and names == {"history.sqlite"}


_history: list[History] = []


def history() -> History:
    """The process's history, made on first use."""
    if not _history:
        _history.append(History())
    return _history[0]


def fuzz_sql(data: bytes) -> None:
    """Any statement is answered or refused, in time, and changes nothing."""
    with contextlib.suppress(Refused, HistoryError):
        run_sql(history().url, data.decode("utf-8", "replace"), limit=10, timeout=0.5)
    assert history().unchanged()


def fuzz_cursor(data: bytes) -> None:
    """A cursor nobody gave out is refused or harmless."""
    text = data.decode("utf-8", "replace")
    with history().engine.connect() as connection:
        asks: tuple[Callable[[], dict[str, Any]], ...] = (
            lambda: list_requests(connection, Filters(), text),
            lambda: list_sessions(connection, text),
            lambda: list_lineages(connection, text),
        )
        for ask in asks:
            with contextlib.suppress(BadCursor):
                assert ask()["items"] == []


TARGETS: dict[str, Callable[[bytes], None]] = {
    "answer": fuzz_answer,
    "batch": fuzz_batch,
    "cursor": fuzz_cursor,
    "cut": fuzz_cut,
    "file": fuzz_file,
    "guard": fuzz_guard,
    "headers": fuzz_headers,
    "read": fuzz_read,
    "settings": fuzz_settings,
    "sql": fuzz_sql,
    "tap": fuzz_tap,
}


def timed(name: str, data: bytes) -> None:
    """One input, which may not hang."""
    started = time.monotonic()
    TARGETS[name](data)
    assert time.monotonic() - started < LIMIT_S, f"{name} took {time.monotonic() - started:.1f} s"


def seeds() -> dict[str, list[bytes]]:
    """The committed corpus, by target."""
    corpus = json.loads((Path(__file__).parent / "corpus.json").read_text("utf-8"))
    return {name: [text.encode("utf-8", "surrogateescape") for text in corpus[name]] for name in TARGETS}
