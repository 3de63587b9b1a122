"""Asks the running proxy's own API, and knows where it is and how it lets us in."""

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


def connect(settings: Settings, timeout_s: float) -> http.client.HTTPConnection:
    """A connection to the proxy, not made yet."""
    host, _, port = address(settings).rpartition(":")
    return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)


def credentials(settings: Settings) -> dict[str, str]:
    """The header that a proxy with a token asks for; empty where it has none."""
    return {"X-MetalAnchor-Token": settings.token} if settings.token else {}


def get(settings: Settings, path: str) -> Any:
    """The JSON below ``/metalanchor``; None for 404. Raises `Unreachable` or `Failure`.

    A refusal's own words are its `Failure`.
    """
    return _ask(settings, "GET", path, TIMEOUT_S)


def post(settings: Settings, path: str, timeout_s: float = TIMEOUT_S, value: Any = None) -> Any:
    """As `get`, of a POST, with `value` as JSON unless it is None."""
    return _ask(settings, "POST", path, timeout_s, value)


def unreachable(settings: Settings) -> Unreachable:
    """That nothing answers where the proxy should be, and what to do about it."""
    return Unreachable(
        f"No proxy answers at http://{address(settings)}. Start it with `metalanchor up`, "
        "or name its place in METALANCHOR_HOST and METALANCHOR_PORT."
    )


def refusal(settings: Settings, status: int, body: bytes) -> Failure:
    """Why the proxy did not do what was asked, in its own words where it gave some."""
    where = f"http://{address(settings)}"
    if status in {401, 403}:
        return Failure(f"The proxy at {where} refuses: set METALANCHOR_TOKEN to the token it runs with.")
    match _decoded(body):
        case {"error": {"message": words}}:
            return Failure(str(words))
    return Failure(f"What answers at {where} is no MetalAnchor proxy, or a faulty one (HTTP {status}).")


def _ask(settings: Settings, method: str, path: str, timeout_s: float, value: Any = None) -> Any:
    headers, sent = credentials(settings), None
    if value is not None:
        headers["Content-Type"] = "application/json"
        sent = msgspec.json.encode(value)
    connection = connect(settings, timeout_s)
    try:
        connection.request(method, f"/metalanchor{path}", sent, headers)
        response = connection.getresponse()
        status, body = response.status, response.read()
    except (OSError, http.client.HTTPException):
        raise unreachable(settings) from None
    finally:
        connection.close()
    return _read(settings, status, body)


def status(settings: Settings) -> dict[str, Any]:
    """The proxy's ``/status``. Raises `Unreachable`, or `Failure` where another program answers."""
    found = get(settings, "/status")
    if not isinstance(found, dict) or not {"version", "status"} <= found.keys():
        raise Failure(
            f"What answers at http://{address(settings)} is no MetalAnchor proxy. "
            "Name the proxy's place in METALANCHOR_HOST and METALANCHOR_PORT."
        )
    return found


def running(settings: Settings) -> dict[str, Any]:
    """As `status`; empty where no proxy runs, or none that lets us in."""
    try:
        return status(settings)
    except (Failure, Unreachable):
        return {}


def served(settings: Settings) -> str | None:
    """The address of the configured model server, else of the one that a running proxy serves."""
    configured = next((row.url for row in settings.named_backends), None)
    if configured is not None:
        return configured
    url = (running(settings).get("backend") or {}).get("url")
    return str(url) if url else None


def _read(settings: Settings, status: int, body: bytes) -> Any:
    if status == 404:
        return None
    value = _decoded(body) if status < 400 else None
    if value is None:
        raise refusal(settings, status, body)
    return value


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
