"""The name of a path as rows hold it: known routes as they are, of others only what is a word. Pure.

A path may carry what nobody wants in a history: a key, a name, an id of which there are millions. What is no
plain word becomes ``*``, so that such requests also count together.
"""

import re

from services.proxy.dialects import is_known

MOST_SEGMENTS = 8
# Words as routes have them: no digits, no capitals, no long run of letters, none of what keys begin with.
_KEYS = r"(?:sk|pk|rk|hf|gh[a-z]|xox[a-z]|key|token|bearer)"
_WORD = re.compile(rf"(?!{_KEYS}[-_.])[a-z]{{1,14}}(?:[-_.][a-z]{{1,14}}){{0,2}}")
_VERSION = re.compile(r"v\d{1,2}(?:alpha|beta)?\d?")


def endpoint_of(path: str) -> str:
    """The name of a raw path, without its query."""
    bare = path.partition("?")[0]
    return bare if is_known(bare) else _named(bare)


def _named(path: str) -> str:
    segments = path.lstrip("/").split("/")
    named = [one if not one or _WORD.fullmatch(one) or _VERSION.fullmatch(one) else "*" for one in segments]
    rest = ["*"] if len(named) > MOST_SEGMENTS else []
    return "/" + "/".join(named[:MOST_SEGMENTS] + rest)
