"""``metalanchor service`` keeps MetalAnchor running in the background, under launchd or systemd.

It owns the service's file. The settings of the moment go into it, so that what runs tomorrow is what was seen
to run today; it is closed to other users, since settings may hold a token.
"""

import os
import sys
import time
from pathlib import Path

import click

from services.cli import client
from services.cli.errors import Failure, Unreachable
from services.cli.managers import Manager, Service, manager
from services.cli.output import as_json, print_json
from services.settings import PREFIX, Settings, config_file, load

READY_S = 20.0
LOOK_S = 0.25


@click.group()
def service() -> None:
    """Run in the background from login on: launchd on macOS, systemd on Linux."""


@service.command()
def install() -> None:
    """Install the service, or renew it after an update or a change of settings, and start it.

    It runs `metalanchor proxy` where a Redis is configured, else `metalanchor up`.
    """
    settings = load()
    found = manager()
    what = describe(settings)
    what.folder.mkdir(parents=True, exist_ok=True)
    _write(found.path, found.render(what))
    found.load()
    click.echo(f"Installed {found.path}: {' '.join(what.argv[-1:])}")
    _wait(settings, found)
    click.echo(f"Its log: {found.logs}")
    if found.hint:
        click.echo(found.hint)


@service.command()
def uninstall() -> None:
    """Stop the service and remove it; data and settings stay."""
    found = manager()
    was_there = found.path.exists()
    found.unload()
    found.path.unlink(missing_ok=True)
    click.echo(f"Removed {found.path}" if was_there else "The service was not installed.")


@service.command()
@as_json
def status(as_json: bool) -> int:
    """Say whether the service is installed and runs.

    Exit code: 0 it runs, 3 it does not.
    """
    found = manager()
    installed = found.path.exists()
    state = found.state() if installed else None
    running = bool(state and state.running)
    if as_json:
        print_json(
            {
                "installed": installed,
                "running": running,
                "about": state.about if state else None,
                "file": str(found.path),
                "logs": found.logs,
            }
        )
    elif state is None:
        click.echo("The service is not installed. Install it with `metalanchor service install`.")
    else:
        click.echo(f"{'Running' if running else 'Not running'}: {state.about}\nIts log: {found.logs}")
    return 0 if running else 3


def describe(settings: Settings) -> Service:
    """The service for the settings of the moment."""
    verb = "proxy" if settings.redis_url else "up"
    env = {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIX)}
    file = config_file()
    if file is not None:
        env[PREFIX + "CONFIG"] = str(file)
    env |= _absolute_paths(settings)
    if broken := next((name for name, value in env.items() if not value.isprintable()), None):
        raise Failure(f"{broken} holds a control character, which no service file can carry.")
    folder = settings.data_path.absolute()
    env["PATH"] = os.environ.get("PATH", os.defpath)
    # -P: nothing in the folder it starts in is taken for a module.
    return Service([sys.executable, "-P", "-m", "services.cli", verb], env, folder)


def _absolute_paths(settings: Settings) -> dict[str, str]:
    """Paths that are relative to the present folder: the service starts in another one."""
    paths = {"DATA_DIR": settings.data_dir, "KEY_FILE": settings.key_file, "PRICES": settings.prices}
    relative = {name: Path(path).expanduser() for name, path in paths.items() if path}
    return {PREFIX + name: str(path.absolute()) for name, path in relative.items() if not path.is_absolute()}


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".new")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    partial.replace(path)


def _wait(settings: Settings, found: Manager) -> None:
    until = time.monotonic() + READY_S
    address = f"http://{client.address(settings)}"
    while time.monotonic() < until:
        try:
            client.get(settings, "/healthz")
        except (Unreachable, Failure):
            time.sleep(LOOK_S)
        else:
            click.echo(f"It answers at {address}")
            return
    state = found.state()
    if not state.running:
        raise Failure(f"It does not run ({state.about}). Its log says why: {found.logs}")
    click.echo(f"It runs, and does not answer at {address} yet.")
