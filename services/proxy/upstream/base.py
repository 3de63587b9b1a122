"""How the proxy talks to a backend: the protocol that forwarding is written against.

One implementation lives beside this module; `bench/overhead.py` measures it (see docs/dependencies.md).
"""

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

Headers = list[tuple[bytes, bytes]]


class UpstreamError(Exception):
    """The backend could not be used. `code` is ``unreachable``, ``reset`` or ``protocol``."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail or code)
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
    http_version: str

    def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as soon as they arrive, unframed and undecoded, with back-pressure.

        Raises `UpstreamError` with code ``reset`` when the connection ends before the body does.
        """

    def available(self) -> bytes:
        """Body bytes that have already arrived, without waiting; may be empty."""

    @property
    def complete(self) -> bool:
        """Whether the whole body has arrived."""

    async def close(self) -> None:
        """Give the connection back when the body is complete, else close it at once. Idempotent."""


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
