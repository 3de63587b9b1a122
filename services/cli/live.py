"""Follows the running proxy's event stream, as the dashboard does."""

import http.client
from collections.abc import Iterator
from typing import Any

import msgspec

from services.cli import client
from services.cli.errors import Failure, Unreachable
from services.settings import Settings

# The proxy sends a comment every 15 s at least.
SILENCE_S = 40.0


def follow(settings: Settings, *, everything: bool = False) -> Iterator[tuple[str, Any]]:
    """(event, data) as they come: ``hello``, ``history``, then ``underway`` and ``ended``.

    Ends when the proxy ends the stream. Raises `Unreachable` when it breaks off or never begins.
    """
    where = client.address(settings)
    host, _, port = where.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=SILENCE_S)
    headers = {"X-MetalAnchor-Token": settings.token} if settings.token else {}
    try:
        connection.request("GET", f"/metalanchor/events{'?all=true' if everything else ''}", headers=headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise Failure(f"The proxy at http://{where} does not stream events (HTTP {response.status}).")
        yield from _read(response)
    except (OSError, http.client.HTTPException):
        raise Unreachable(f"No proxy answers at http://{where}. Start it with `metalanchor up`.") from None
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in response:
        if line.startswith(b"event:"):
            name = line[6:].strip().decode()
        elif line.startswith(b"data:"):
            yield name, msgspec.json.decode(line[5:])
