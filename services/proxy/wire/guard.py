"""Who may use the proxy at all: owns nothing, decides from a request's head. Pure.

A web page can make a browser send requests to a loopback port under a name of its own (DNS rebinding). The
backends guard against it by the Host header, which the proxy rewrites; so the proxy has to look first.
"""

import hmac
import ipaddress

from services.proxy.wire.errors import RefusedError
from services.proxy.wire.headers import Headers, value_of
from services.settings import Settings

TOKEN = b"x-metalanchor-token"
LOCAL_NAMES = frozenset({"localhost", "host.docker.internal"})
KNOWN_HOSTS = 256  # Host values whose verdict is remembered: a machine has a handful of names


class Guard:
    """The rules of one configuration."""

    def __init__(self, settings: Settings) -> None:
        self._names = LOCAL_NAMES | {name.lower() for name in settings.allowed_hosts}
        self._token = settings.token.encode() if settings.token else None
        self._known: set[bytes] = set()

    def check_host(self, headers: Headers) -> None:
        """Refuse a Host that may be another site's name. An absent one is no browser's."""
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) > 1:
            raise RefusedError(400, "bad_request", "A request has one Host header.")
        if not hosts or not hosts[0] or hosts[0] in self._known:
            return
        if not self._is_local(hosts[0].decode("latin-1")):
            raise RefusedError(
                403,
                "host_not_allowed",
                "This Host is not answered (DNS rebinding). METALANCHOR_ALLOWED_HOSTS adds names.",
            )
        if len(self._known) < KNOWN_HOSTS:
            self._known.add(hosts[0])

    def check_origin(self, headers: Headers) -> None:
        """Refuse a page of another site; for the proxy's own routes, whose answers no other site may use."""
        origin = value_of(headers, b"origin")
        if origin is None:
            return
        host = (value_of(headers, b"host") or b"").decode("latin-1").lower()
        scheme, _, authority = origin.decode("latin-1").lower().partition("://")
        if scheme not in {"http", "https"} or authority != host:
            raise RefusedError(403, "origin_not_allowed", "This page may not use MetalAnchor's own routes.")

    def admit(self, headers: Headers) -> Headers:
        """The headers without the proxy's token; refuses a request that lacks a required one."""
        if self._token is None:
            return headers
        ours = [header for header in headers if self._is_token(header)]
        if not ours:
            raise RefusedError(
                401,
                "token_required",
                "Send METALANCHOR_TOKEN as X-MetalAnchor-Token, as Bearer or as x-api-key.",
            )
        return [header for header in headers if header not in ours]

    def strip(self, headers: Headers) -> Headers:
        """The headers without the proxy's token, which need not be there (CORS preflight)."""
        return headers if self._token is None else [h for h in headers if not self._is_token(h)]

    def _is_token(self, header: tuple[bytes, bytes]) -> bool:
        name, value = header
        if name == b"authorization":
            scheme, _, value = value.partition(b" ")
            if scheme.lower() != b"bearer":
                return False
        elif name not in {TOKEN, b"x-api-key"}:
            return False
        return self._token is not None and hmac.compare_digest(value.strip(), self._token)

    def _is_local(self, host: str) -> bool:
        if host.startswith("["):
            name, closed, rest = host[1:].partition("]")
            return bool(closed) and _is_port(rest) and _is_address(name)
        name, _, port = host.partition(":")
        return (not port or port.isdigit()) and (name.lower() in self._names or _is_address(name))


def _is_port(rest: str) -> bool:
    return not rest or (rest[0] == ":" and rest[1:].isdigit())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
