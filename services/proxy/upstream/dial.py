"""Opening connections: name resolution, TCP, TLS, and how long each may take."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from services.proxy.upstream.base import UpstreamError
from services.proxy.upstream.connection import Connection

# A closed port is refused at once. Off this machine silence means switched off or filtered: two tries answer
# within a second, and a lost SYN costs one of them (the kernel alone repeats it only after 1 s).
TRY_S = 0.45
# On this machine silence means a full accept queue (Python's http.server keeps 5 places): the kernel repeats
# the SYN after 1, 3 and 7 s, and a client without a proxy would wait for that too.
LOOPBACK_TRY_S = 10.0
# A handshake is two round trips and a signature; half of OpenSSL-based clients' usual 20 s.
TLS_S = 10.0

Address = tuple[socket.AddressFamily, Any]


class Dialler:
    """Opens connections to one backend; `url` is http or https, its path is the caller's matter."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is no http:// or https:// address")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = _context() if parts.scheme == "https" else None

    async def connect(
        self, released: Callable[[Connection], None], lost: Callable[[Connection], None]
    ) -> Connection:
        """Open one connection; raises `UpstreamError` with code ``unreachable``."""
        plain = self._tls is None
        try:
            sock = await self._socket()
            try:
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(sock, plain=plain, released=released, lost=lost),
                    sock=sock,
                    ssl=self._tls,
                    server_hostname=None if plain else self._host,
                    ssl_handshake_timeout=None if plain else TLS_S,
                )
            except BaseException:
                sock.close()
                raise
        except OSError as error:
            raise UpstreamError("unreachable", str(error) or "no answer to the connection attempt") from error
        return connection

    async def _socket(self) -> socket.socket:
        problem = OSError(f"{self._host} has no address")
        for family, address in await self._attempts():
            try:
                return await _open(family, address)
            except OSError as error:  # refused, no route, or TimeoutError
                problem = error
        raise problem

    async def _attempts(self) -> list[Address]:
        """The backend's addresses in the system's order; a single one off this machine gets two tries."""
        found = await self._resolve()
        if len(found) == 1 and not _local(found[0][4]):
            found *= 2
        return [(entry[0], entry[4]) for entry in found]

    async def _resolve(self) -> list[Any]:
        try:  # an address in figures needs no resolver, and so no thread
            return socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except socket.gaierror:
            loop = asyncio.get_running_loop()
            return await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)


async def _open(family: socket.AddressFamily, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(LOOPBACK_TRY_S if _local(address) else TRY_S):
            await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _local(address: Any) -> bool:
    return ipaddress.ip_address(address[0].partition("%")[0]).is_loopback


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
