"""A stack of its own for `bench` and `demo`: other folder, other port, nothing of the user's settings.

It shares one thing with the user's own: the stand-in's model file, which is 250 MB.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from services.cli.stack import Stack, free_port
from services.settings import PREFIX, Settings, load
from services.signals import STOPPING


@contextmanager
def private_stack(
    folder: Path, say: Callable[[str], None], backend: str | None, kind: str = "auto", port: int | None = None
) -> Iterator[Stack]:
    """A running stack with its data in `folder`; without a backend, on the stand-in. Gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    _share_model(folder)
    config = folder / "metalanchor.toml"
    config.touch()
    own = {
        "CONFIG": str(config),
        "DATA_DIR": str(folder),
        "PORT": str(port or free_port()),
        "EMBEDDED_ENGINE": "never" if backend else "always",
        "BACKEND_KIND": kind,
        **({"BACKEND_URL": backend} if backend else {}),
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    environ = clean | {PREFIX + name: value for name, value in own.items()}
    stack = Stack(load(environ), say, environ)
    try:
        stack.start()
        yield stack
    finally:
        with _undisturbed():
            stack.stop()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no second Ctrl-C leave half of the children behind."""
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in STOPPING]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _share_model(folder: Path) -> None:
    models, link = Settings().data_path / "models", folder / "models"
    models.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(models.absolute(), target_is_directory=True)
