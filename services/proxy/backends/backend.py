"""A model server as the proxy knows it: where it is, and what it said it is."""

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from services.proxy.backends.restarts import Restart
from services.settings import backend_name


class Backend(msgspec.Struct, kw_only=True):
    """A model server. `kind` and `version` come from asking it, never from its port; None is unknown yet.

    `kind_given`: the user said what it is.
    """

    name: str
    url: str
    kind: str | None = None
    kind_given: bool = False
    version: str | None = None
    status: str = "unknown"
    facts: dict[str, Any] = {}
    restarts: list[Restart] = []

    @property
    def authority(self) -> str:
        """Host and port as they go into the Host header."""
        return backend_name(self.url)

    @property
    def base_path(self) -> str:
        """Path that the address adds before each request's own; empty for most."""
        return urlsplit(self.url).path.rstrip("/")

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The version as comparable numbers, or None where it is unknown or has none."""
        found = re.match(r"v?(\d+(?:\.\d+)*)", self.version or "")
        return tuple(int(part) for part in found[1].split(".")) if found else None
