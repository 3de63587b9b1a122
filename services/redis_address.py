"""Where the shared Redis is: one server by its URL, or whichever server Sentinel names as the master.

Pure. ``redis+sentinel://[user:password@]host[:port],host[:port]…/SERVICE[/DB]``, or `rediss+sentinel` for
TLS to the master; the Sentinels' own password is ``?sentinel_password=…``.
"""

import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
PORT = 26379
_URL = re.compile(
    r"(?P<tls>rediss?)\+sentinel://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<hosts>[^/?@]+)/(?P<service>[^/?]+)(?:/(?P<db>\d+))?(?:\?(?P<query>.*))?"
)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?")


class Sentinels(NamedTuple):
    """What such a URL says: Sentinels as (host, port), the master's name, and what to log in with where."""

    hosts: list[tuple[str, int]]
    service: str
    master: dict[str, Any]
    own: dict[str, Any]


def parse(url: str) -> Sentinels | None:
    """The Sentinels of a URL; None for one that names a server itself. Raises `ValueError` that says why."""
    if "+sentinel:" not in url:
        return None
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError("expected redis+sentinel://HOST:PORT,HOST:PORT/SERVICE")
    master = {"username": found["user"], "password": found["password"]}
    master = {name: unquote(value) for name, value in master.items() if value}
    query = dict(parse_qsl(found["query"] or ""))
    own = {name: query.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    if query:
        raise ValueError(f"{min(query)} is no parameter of a Sentinel URL")
    more = {"db": int(found["db"] or 0)} | ({"ssl": True} if found["tls"] == "rediss" else {})
    return Sentinels(
        [_host(one) for one in found["hosts"].split(",")],
        unquote(found["service"]),
        {**master, **more},
        {name: value for name, value in own.items() if value},
    )


def _host(text: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:80]!r} is no host and port")
    return found[1].strip("[]"), int(found[2] or PORT)
