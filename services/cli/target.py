"""What `bench` and `demo` measure: the running proxy, or one of their own, and the server behind it."""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli import client
from services.cli.errors import Failure
from services.settings import Settings

if TYPE_CHECKING:
    from services.evidence.runner import Target

WAIT_BACKEND_S = 120.0  # a large model may still be loading
EMBEDDED = "embedded"


@contextmanager
def target_for(
    settings: Settings, backend: str | None, model: str | None, api_key: str | None
) -> Iterator[tuple["Target", dict[str, Any]]]:
    """The running proxy where it fits, else one of our own; and what is known of the engine behind it."""
    if backend is None and client.running(settings):
        running = wait_for_backend(settings)
        direct = settings.backend_url or running["backend"]["url"]
        target = target_of(settings, direct, model, api_key)
        yield target, engine_of(running, target.model)
        return
    from services.cli.private_stack import private_stack  # noqa: PLC0415
    from services.local_backend import choose  # noqa: PLC0415

    url = backend or choose(settings).url
    folder = Path(tempfile.mkdtemp(prefix="ma-bench-"))
    try:
        with private_stack(folder, _say, None if url in {None, EMBEDDED} else url) as stack:
            status = wait_for_backend(stack.settings)
            direct = status["backend"]["url"] if url in {None, EMBEDDED} else str(url)
            target = target_of(stack.settings, direct, model, api_key)
            yield target, engine_of(status, target.model)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_backend(settings: Settings) -> dict[str, Any]:
    """The status of a proxy once its model server is up; raises `Failure` when that takes too long."""
    until = time.monotonic() + WAIT_BACKEND_S
    while time.monotonic() < until:
        status = client.running(settings)
        if (status.get("backend") or {}).get("status") == "up":
            return status
        time.sleep(0.2)
    raise Failure(f"The model server did not become ready within {WAIT_BACKEND_S:.0f} s.")


def target_of(settings: Settings, direct: str, model: str | None, api_key: str | None) -> "Target":
    """Where to send through the proxy of `settings` and, directly, to the server behind it."""
    from services.evidence.runner import Target  # noqa: PLC0415

    theirs = _auth(api_key)
    return Target(
        proxy=f"http://{client.address(settings)}",
        direct=direct,
        model=model or _first_model(direct, theirs),
        look_up=lambda request_id: client.get(settings, f"/api/requests/{request_id}"),
        proxy_headers={**theirs, **client.credentials(settings)},
        direct_headers=theirs,
    )


def _auth(api_key: str | None) -> dict[str, str]:
    agent = {"User-Agent": "metalanchor-bench"}
    return {**agent, "Authorization": f"Bearer {api_key}"} if api_key else agent


def _first_model(direct: str, headers: dict[str, str]) -> str:
    from services.evidence.exchange import ExchangeError, models  # noqa: PLC0415

    try:
        return models(direct, headers)[0]
    except (ExchangeError, IndexError) as error:
        raise Failure(f"The model server lists no model ({error}); name one with --model.") from None


def engine_of(status: dict[str, Any], model: str) -> dict[str, Any]:
    """What stands behind a proxy, and the machine it was measured on."""
    backend = status["backend"]
    return {
        "kind": backend["kind"],
        "version": backend["version"],
        "model": model,
        "cpus": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "proxy_version": status["version"],
    }


def _say(text: str) -> None:
    click.echo(text, err=True)
