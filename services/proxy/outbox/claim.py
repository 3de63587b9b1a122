"""Who owns a file: its writer holds the file's lock for as long as it lives; a free lock means a dead writer.

The kernel frees the lock when a process ends in whichever way, so no process id is ever compared and one used
again confuses nothing. Journal and spool both rest on this.
"""

import fcntl
import os
from pathlib import Path

TRIES = 16  # a claimant may take a file in the instant between its creation and its lock; then another name


def create(folder: Path, stem: str, suffix: str, flags: int) -> tuple[int, Path]:
    """Make a file that this process owns; its descriptor and path. Raises `OSError` where that cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        path = folder / f"{stem}-{os.urandom(3).hex()}{suffix}"
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        if _lock(fd, path):
            return fd, path
        os.close(fd)
    raise OSError(16, os.strerror(16))


def claim(path: Path) -> int | None:
    """A descriptor that owns a file its writer left; None while the writer lives or when the file is gone."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return None
    if _lock(fd, path):
        return fd
    os.close(fd)
    return None


def _lock(fd: int, path: Path) -> bool:
    """Whether the lock was free and the file is still the one under that name."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.stat().st_ino == os.fstat(fd).st_ino
    except OSError:
        return False
