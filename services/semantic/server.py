"""One kept HTTP connection to a server that speaks JSON. Owns it; used by one thread at a time."""

import http.client
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit


class ServerError(Exception):
    """No answer; the text is a short word without any content: ``http_500``, ``unreachable``."""


class JsonServer:
    """A server by its URL; `timeout_s` bounds each of connecting, writing and waiting."""

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        self._make = _maker(parts.scheme, parts.hostname or "", parts.port or port(parts.scheme), timeout_s)
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The reply to a JSON body. Raises `ServerError`, `TimeoutError` or `ValueError` (no JSON object)."""
        for kept in (True, False):  # a kept connection may have been closed meanwhile
            connection = self._connection if kept else None
            if connection is None:
                connection = self._connection = self._make()
            try:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                text = response.read()
            except TimeoutError:
                self.close()
                raise
            except (http.client.HTTPException, OSError):
                self.close()
                continue
            return _object(response.status, text)
        raise ServerError("unreachable")

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _object(status: int, text: bytes) -> dict[str, Any]:
    if status != HTTPStatus.OK:
        raise ServerError(f"http_{status}")
    reply = json.loads(text)
    if not isinstance(reply, dict):
        raise ServerError("no_object")
    return reply


def port(scheme: str) -> int:
    """The port of a URL that names none."""
    return 443 if scheme == "https" else 80


def openai_path(url: str, route: str) -> str:
    """The path of an OpenAI-shaped route below a base URL, which may end with ``/v1`` or name the route."""
    base = urlsplit(url).path.rstrip("/")
    if base.endswith(route):
        return base
    return f"{base}{route}" if base.endswith("/v1") else f"{base}/v1{route}"


def _maker(scheme: str, host: str, number: int, timeout_s: float) -> Callable[[], http.client.HTTPConnection]:
    if scheme == "https":
        return lambda: http.client.HTTPSConnection(host, number, timeout=timeout_s)
    return lambda: http.client.HTTPConnection(host, number, timeout=timeout_s)
