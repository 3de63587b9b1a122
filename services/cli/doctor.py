"""``metalanchor doctor`` checks what an installation stands on and says what to do about each fault.

Each check is one function that answers with a verdict; none changes anything but a probe file in the data
folder, and one job of its own in the queue.
"""

import resource
import sys
import tempfile
from collections.abc import Callable

import click

from services import engine, local_backend
from services.cli import client, flags, prices, stores
from services.cli.errors import Failure, Unreachable
from services.cli.output import as_json, print_json, print_rows
from services.cli.verdict import Verdict
from services.probe import probe_blocking
from services.settings import Settings, load

FILES_LOW = 1024  # a proxied stream takes two; a handful of agents with their probes stays below this


@click.command()
@as_json
def doctor(as_json: bool) -> int:
    """Check this installation and say what to do about each fault.

    Exit code: 0 nothing failed, 1 something did.
    """
    settings = load()
    rows = [
        dict(zip(("check", "result", "about", "advice"), (name, *check(settings)), strict=True))
        for name, check in CHECKS.items()
    ]
    if as_json:
        print_json({"items": rows, "next": None})
    else:
        colours = {"ok": "green", "warn": "yellow", "fail": "red"}
        print_rows(rows, ("check", "result", "about", "advice"), lambda row: colours[row["result"]])
    return int(any(row["result"] == "fail" for row in rows))


def _python(_: Settings) -> Verdict:
    return Verdict("ok", f"Python {sys.version.split()[0]} on {sys.platform}")


def _data_folder(settings: Settings) -> Verdict:
    path = settings.data_path.absolute()
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        return Verdict("fail", f"{path}: {error.strerror}", "Make it writable, or set METALANCHOR_DATA_DIR.")
    return Verdict("ok", str(path))


def _files(_: Settings) -> Verdict:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES_LOW:
        return Verdict(
            "warn", f"{soft} open files allowed", "`metalanchor up` raises it; else: ulimit -n 8192"
        )
    return Verdict("ok", f"{soft} open files allowed, at most {hard}")


def _job(_: Settings) -> Verdict:
    """Run one job as the worker does: in this process, without a fork (macOS kills forked workers)."""
    from services.logger.jobs import persist  # noqa: PLC0415

    try:
        stored = persist("[]")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the verdict
        return Verdict("fail", f"{type(error).__name__}", "See the check `database`.")
    return Verdict("ok", f"one empty batch handled, {stored} rows stored")


def _backend(settings: Settings) -> Verdict:
    urls: list[str | None] = [b.url for b in settings.backend] or [settings.backend_url]
    if urls == [None]:
        if served := _served(settings):
            return served
        choice = local_backend.choose(settings)
        return Verdict("warn" if choice.provisional else "ok", choice.sentence)
    missing = [url for url in urls if url and probe_blocking(url) is None]
    if missing:
        return Verdict("fail", f"{', '.join(missing)} does not answer", "Start it, or correct its address.")
    return Verdict("ok", f"{', '.join(url for url in urls if url)} answers")


def _served(settings: Settings) -> Verdict | None:
    """What a running proxy serves, which says more than what one started now would find."""
    found = client.running(settings)
    if not found:
        return None
    backend = found.get("backend") or {}
    about = f"the running proxy serves {backend.get('kind') or 'a server'} at {backend.get('url')}"
    up = backend.get("status") == "up"
    return Verdict("ok" if up else "warn", about, "" if up else "Start the model server.")


def _stand_in(_: Settings) -> Verdict:
    if engine.installed():
        return Verdict("ok", "the stand-in model server is installed")
    return Verdict("ok", "the stand-in model server is not installed; `up` fetches it when it is needed")


def _proxy(settings: Settings) -> Verdict:
    try:
        found = client.status(settings)
    except Unreachable:
        return Verdict("warn", "not running", "metalanchor up")
    except Failure as error:
        return Verdict("fail", error.message, "Set METALANCHOR_PORT to a free one, or correct the token.")
    level = {"ok": "ok", "degraded": "warn"}.get(found["status"], "fail")
    return Verdict(level, f"status {found['status']}", "" if level == "ok" else "metalanchor status")


CHECKS: dict[str, Callable[[Settings], Verdict]] = {
    "python": _python,
    "data folder": _data_folder,
    "open files": _files,
    "redis": stores.redis,
    "database": stores.database,
    "worker": stores.worker,
    "job": _job,
    "backend": _backend,
    "flags": flags.flags,
    "stand-in": _stand_in,
    "proxy": _proxy,
    "prices": prices.prices,
}
