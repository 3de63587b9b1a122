"""How the proxy talks to a backend: the protocol that forwarding is written against.

One implementation lives beside this module; `bench/overhead.py` measures it (see docs/dependencies.md).
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Protocol

Headers = list[tuple[bytes, bytes]]
# Takes body bytes; what it returns has to be waited for before it takes more.
Taker = Callable[[bytes], Awaitable[None] | None]


class UpstreamError(Exception):
    """The backend could not be used. `code` is ``unreachable``, ``reset`` or ``protocol``."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class RequestHead(NamedTuple):
    """A request line and its headers as they go out; `target` is path and query byte for byte."""

    method: bytes
    target: bytes
    headers: Headers


class Response(Protocol):
    """An answer whose head has arrived."""

    status: int
    headers: Headers

    async def pour(self, take: Taker) -> None:
        """Hand over body bytes as soon as they arrive, unframed and undecoded, until the body's end.

        While `take` has nothing to wait for it is called from the socket's own callback: waking a task for
        each event of a stream costs as much as passing it on. Raises `UpstreamError` with code ``reset`` when
        the connection ends before the body does, and what `take` raises.
        """

    async def more(self) -> bool:
        """Wait until there are body bytes to take; False at the body's end. Raises like `pour`."""

    def available(self) -> bytes:
        """Body bytes that have already arrived, without waiting; may be empty."""

    @property
    def complete(self) -> bool:
        """Whether the whole body has arrived."""


class Upstream(Protocol):
    """A pool of kept-alive connections to one backend."""

    async def send(self, head: RequestHead, body: bytes | AsyncIterator[bytes]) -> "Exchange":
        """Write the request and return at once; a `bytes` body is written before this returns.

        A kept-alive connection found closed before any response byte is replaced and the request sent once
        more. Raises `UpstreamError`.
        """

    async def close(self) -> None:
        """Close all connections."""


class Exchange(Protocol):
    """A request on its way."""

    async def response(self) -> Response:
        """The response head (1xx answers skipped); raises `UpstreamError`."""

    async def abort(self) -> None:
        """Close the connection now: the client left. Idempotent, safe in any phase."""
