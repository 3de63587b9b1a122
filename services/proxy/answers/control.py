"""What a client asks of the response cache: `X-MetalAnchor-Cache-Control` and `-Namespace`. Pure.

As in HTTP, a directive that is not understood is passed over: a request never fails for it.
"""

import msgspec

from services.proxy.identity import clean

CONTROL, NAMESPACE = b"x-metalanchor-cache-control", b"x-metalanchor-namespace"
TAGS = 16  # of one answer
LONGEST_S = 365 * 86_400.0


class CacheControl(msgspec.Struct, kw_only=True, gc=False):
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


def control_of(headers: list[tuple[bytes, bytes]], key: bytes) -> CacheControl:
    """The directives of a request; `key` hides names that are not safe in a list."""
    control = CacheControl()
    for name, value in headers:
        if name == NAMESPACE and value.strip():
            control.namespace = _name(value, key)
    for name, value in headers:
        if name == CONTROL:
            for directive in value.split(b","):
                _apply(control, directive.strip(), key)
    return control


def _apply(control: CacheControl, directive: bytes, key: bytes) -> None:
    name, _, value = directive.partition(b"=")
    value = value.strip().strip(b'"')
    match name.strip().lower():
        case b"no-cache":
            control.read = False
        case b"no-store":
            control.write = False
        case b"only-if-cached":
            control.only = True
        case b"warm":
            control.warm = True
        case b"ttl":
            _live_for(control, value)
        case b"namespace" if value:
            control.namespace = _name(value, key)
        case b"tag" if value and len(control.tags) < TAGS:
            control.tags = (*control.tags, _name(value, key))


def _live_for(control: CacheControl, value: bytes) -> None:
    """Whole or broken seconds; none at all is no storing."""
    try:
        seconds = float(value)
    except ValueError:
        return
    if seconds > 0:
        control.ttl_s = min(seconds, LONGEST_S)
    elif seconds <= 0:
        control.write = False


def _name(value: bytes, key: bytes) -> str:
    return clean(value.strip().decode("utf-8", "surrogateescape"), key)
