"""Who may see the dashboard of a proxy with a token, when the browser cannot send one: a cookie. Pure.

The cookie holds no token: a keyed digest of its end, keyed by installation and token, so that a new token
ends all of them, and that another server on this host, which browsers hand cookies to as well, learns
nothing that opens the proxy.
"""

import hmac
import re
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie

from services.proxy.wire.headers import Headers, value_of

COOKIE = "metalanchor_login"
LASTS_S = 30 * 86_400
# What a browser needs before it has the cookie: the form, its style sheet and icon.
OPEN = re.compile(rb"/metalanchor/(?:login|assets/[A-Za-z0-9._-]+)\Z")
SAFE = frozenset({"GET", "HEAD"})


class Door:
    """Gives out cookies and knows them again."""

    def __init__(self, key: bytes, token: str | None) -> None:
        self._token = token
        self._key = hmac.new(key, (token or "").encode(), sha256).digest()

    @property
    def locked(self) -> bool:
        """Whether a token is needed at all."""
        return self._token is not None

    def accepts(self, token: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    def cookie(self, now: float) -> str:
        """The value of a new cookie."""
        until = str(int(now) + LASTS_S)
        return f"{until}.{self._sign(until)}"

    def opens(self, method: str, path: bytes, headers: Headers, now: float) -> bool:
        """Whether a request without a token may pass.

        A cookie changes things only from our own pages: a browser names the page's origin there, which was
        compared with our own beforehand.
        """
        if OPEN.match(path):
            return True
        if method not in SAFE and value_of(headers, b"origin") is None:
            return False
        return any(self._knows(value, now) for value in cookies(headers, COOKIE))

    def _knows(self, value: str, now: float) -> bool:
        until, _, signature = value.partition(".")
        if not re.fullmatch(r"[0-9]{1,12}", until) or int(until) < now:
            return False
        return hmac.compare_digest(signature.encode(), self._sign(until).encode())

    def _sign(self, until: str) -> str:
        return hmac.new(self._key, b"dashboard " + until.encode(), sha256).hexdigest()


def cookies(headers: Headers, name: str) -> list[str]:
    """The values of a cookie; more than one when paths or ports overlap."""
    found = []
    for header, value in headers:
        if header == b"cookie":
            for part in value.decode("latin-1").split(";"):
                found += _value(part, name)
    return found


def _value(part: str, name: str) -> list[str]:
    try:
        morsel = SimpleCookie(part.strip()).get(name)
    except CookieError:
        return []
    return [morsel.value] if morsel else []


def wants_page(method: str, headers: Headers) -> bool:
    """Whether a browser is looking for a page, rather than a program for data."""
    return method == "GET" and b"text/html" in (value_of(headers, b"accept") or b"")
