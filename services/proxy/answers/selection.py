"""Which index sets an answer stands in, and which of them a selector means. Pure."""

from typing import Any

import msgspec

from services.proxy.answers import terms
from services.proxy.answers.base import About, Selector


def indexes(secret: bytes, about: About) -> list[bytes]:
    """The index sets of an answer, but for its words."""
    named = {"model": about.model, "backend": about.backend, "scope": about.scope}
    pairs = [*named.items(), ("namespace", about.namespace), *(("tag", tag) for tag in about.tags)]
    return [terms.name_of(secret, kind, value) for kind, value in pairs]


def arguments(secret: bytes, selector: Selector) -> list[Any]:
    """The script's arguments: key, namespace to begin anew, age, set of the long ones, common, names.

    Raises `ValueError` for a selector that selects nothing in particular.
    """
    given = msgspec.structs.asdict(selector)
    everything, older = given.pop("everything"), given.pop("older_than_s")
    key, keyword = given.pop("key"), given.pop("keyword")
    named = {kind: value for kind, value in given.items() if value is not None}
    only = key is None and keyword is None and older is None
    if everything != (only and not named):
        raise ValueError("Say what is to be dropped, or that everything is, but not both.")
    common = [terms.name_of(secret, kind, value) for kind, value in named.items()]
    words = terms.wanted(secret, keyword) if keyword is not None else []
    if keyword is not None and not words:
        raise ValueError("The keyword has no letters or digits.")
    if key is not None and (len(key) != KEY_DIGITS or set(key) - set("0123456789abcdef")):
        raise ValueError("A key is 32 hexadecimal digits.")
    begun = selector.namespace if only and len(named) == 1 else None
    age = 0 if everything else -1 if older is None else max(0, round(older * 1e6))
    every = terms.every(secret) if words else b""
    return [bytes.fromhex(key or ""), begun or "", age, every, len(common), *common, *words]


KEY_DIGITS = 32
