"""Asks the running proxy's own API; the one place where the command line speaks HTTP."""

import http.client
import ipaddress
from typing import Any

import msgspec

from services.cli.errors import Failure, Unreachable
from services.settings import Settings

TIMEOUT_S = 10.0


def address(settings: Settings) -> str:
    """Where this machine reaches the proxy: a wildcard bind address is reached through loopback."""
    host = settings.host
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return f"{host}:{settings.port}"
    if number.is_unspecified:
        number = ipaddress.ip_address("127.0.0.1" if number.version == 4 else "::1")
    return f"[{number}]:{settings.port}" if number.version == 6 else f"{number}:{settings.port}"


def get(settings: Settings, path: str) -> Any:
    """The JSON below ``/metalanchor``; None for 404. Raises `Unreachable` or `Failure`.

    A refusal's own words are its `Failure`.
    """
    return _told(settings, *_ask(settings, "GET", path, TIMEOUT_S))


def post(settings: Settings, path: str, timeout_s: float = TIMEOUT_S, value: Any = None) -> Any:
    """As `get`, of a POST, with `value` as JSON unless it is None."""
    return _told(settings, *_ask(settings, "POST", path, timeout_s, value))


def _told(settings: Settings, status: int, body: bytes) -> Any:
    message = _message(body) if status >= 400 and status not in {401, 403, 404} else None
    if message:
        raise Failure(message)
    return _read(address(settings), status, body)


def _ask(
    settings: Settings, method: str, path: str, timeout_s: float, value: Any = None
) -> tuple[int, bytes]:
    where = address(settings)
    host, _, port = where.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
    headers = {"X-MetalAnchor-Token": settings.token} if settings.token else {}
    sent = None if value is None else msgspec.json.encode(value)
    if sent is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, f"/metalanchor{path}", sent, headers)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        raise Unreachable(
            f"No proxy answers at http://{where}. Start it with `metalanchor up`, "
            "or name its place in METALANCHOR_HOST and METALANCHOR_PORT."
        ) from None
    finally:
        connection.close()


def _message(body: bytes) -> str | None:
    try:
        error = msgspec.json.decode(body)["error"]
        return str(error["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return None


def status(settings: Settings) -> dict[str, Any]:
    """The proxy's ``/status``. Raises `Unreachable`, or `Failure` where another program answers."""
    found = get(settings, "/status")
    if not isinstance(found, dict) or not {"version", "status"} <= found.keys():
        raise Failure(
            f"What answers at http://{address(settings)} is no MetalAnchor proxy. "
            "Name the proxy's place in METALANCHOR_HOST and METALANCHOR_PORT."
        )
    return found


def served(settings: Settings) -> str | None:
    """The address of the configured model server, else of the one that a running proxy serves."""
    configured = next((row.url for row in settings.named_backends), None)
    if configured is not None:
        return configured
    try:
        url = (status(settings)["backend"] or {}).get("url")
    except (Failure, Unreachable):
        return None
    return str(url) if url else None


def _read(where: str, status: int, body: bytes) -> Any:
    if status == 404:
        return None
    if status in {401, 403}:
        raise Failure(
            f"The proxy at http://{where} refuses: set METALANCHOR_TOKEN to the token it runs with."
        )
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        value = None
    if status >= 400 or value is None:
        raise Failure(
            f"What answers at http://{where} is no MetalAnchor proxy, or a faulty one (HTTP {status})."
        )
    return value
