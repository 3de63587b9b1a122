"""What a client asks of the response cache: `X-MetalAnchor-Cache-Control` and `-Namespace`. Pure.

As in HTTP, a directive that is not understood is passed over: a request never fails for it.
"""

import msgspec

from services.proxy.identity import clean

CONTROL, NAMESPACE = b"x-metalanchor-cache-control", b"x-metalanchor-namespace"
PREFIX = b"x-metalanchor-"
TAGS = 16  # of one answer
LONGEST_S = 365 * 86_400.0


class Wish(msgspec.Struct, kw_only=True, gc=False):
    """`read` an answer from the cache, `write` a new one into it, or take `only` what is there.

    `ttl_s` is None where the client leaves it to the settings. `warm`: nobody asks, this only has the answer
    stored before somebody does.
    """

    read: bool = True
    write: bool = True
    only: bool = False
    warm: bool = False
    ttl_s: float | None = None
    namespace: str = ""
    tags: tuple[str, ...] = ()

    @property
    def counted(self) -> bool:
        """Whether a look is one of those that the statistics are about."""
        return self.read and not self.warm


def wish_of(headers: list[tuple[bytes, bytes]], key: bytes) -> Wish:
    """The wish of a request; `key` hides names that are not safe in a list."""
    wish = Wish()
    for name, value in headers:
        if name == NAMESPACE and value.strip():
            wish.namespace = _name(value, key)
    for name, value in headers:
        if name == CONTROL:
            for directive in value.split(b","):
                _apply(wish, directive.strip(), key)
    return wish


def _apply(wish: Wish, directive: bytes, key: bytes) -> None:
    name, _, value = directive.partition(b"=")
    value = value.strip().strip(b'"')
    match name.strip().lower():
        case b"no-cache":
            wish.read = False
        case b"no-store":
            wish.write = False
        case b"only-if-cached":
            wish.only = True
        case b"warm":
            wish.warm = True
        case b"ttl":
            _live_for(wish, value)
        case b"namespace" if value:
            wish.namespace = _name(value, key)
        case b"tag" if value and len(wish.tags) < TAGS:
            wish.tags = (*wish.tags, _name(value, key))


def _live_for(wish: Wish, value: bytes) -> None:
    """Whole or broken seconds; none at all is no storing."""
    try:
        seconds = float(value)
    except ValueError:
        return
    if seconds > 0:
        wish.ttl_s = min(seconds, LONGEST_S)
    elif seconds <= 0:
        wish.write = False


def _name(value: bytes, key: bytes) -> str:
    return clean(value.strip().decode("utf-8", "surrogateescape"), key)
