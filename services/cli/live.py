"""Follows the running proxy's event stream, as the dashboard does."""

import http.client
from collections.abc import Iterator
from typing import Any

import msgspec

from services.cli import client
from services.settings import Settings

# The proxy sends a comment every 15 s at least.
SILENCE_S = 40.0


def follow(settings: Settings, *, everything: bool = False) -> Iterator[tuple[str, Any]]:
    """(event, data) as they come: ``hello``, ``history``, then ``underway`` and ``ended``.

    Ends when the proxy ends the stream. Raises `Unreachable` when it breaks off or never
    begins, `Failure` when it is refused.
    """
    path = f"/metalanchor/events{'?all=true' if everything else ''}"
    connection = client.connect(settings, SILENCE_S)
    try:
        connection.request("GET", path, headers=client.credentials(settings))
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise client.refusal(settings, response.status, response.read())
        yield from _read(response)
    except (OSError, http.client.HTTPException):
        raise client.unreachable(settings) from None
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in response:
        if line.startswith(b"event:"):
            name = line[6:].strip().decode()
        elif line.startswith(b"data:"):
            yield name, msgspec.json.decode(line[5:])
