"""Owns this installation's secret hashing key: one small file that is made once and never changes.

Scopes, odd session ids and block digests are keyed with it, so that short texts and credentials cannot be
guessed from what Redis, the history or a backup holds. Machines that share a Redis share the file.
"""

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

import platformdirs

from services.settings import Settings, SettingsError

KEY_BYTES = 32
FILE_NAME = "install.key"


def load_key(settings: Settings) -> bytes:
    """The 32-byte key, made on first use; raises `SettingsError` where its file is malformed or unusable."""
    if settings.key_file:
        return _load(Path(settings.key_file).expanduser())
    home = Path(platformdirs.user_config_dir("metalanchor", appauthor=False)) / FILE_NAME
    try:
        return _load(home)
    except SettingsError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        return _load(settings.data_path / FILE_NAME)


def keyed(key: bytes, label: str, *parts: str) -> str:
    """A 128-bit digest of `parts` that only this installation can make, as 32 hexadecimal digits.

    `label` keeps uses apart (16 bytes at most); lengths are hashed too, so that parts cannot run together.
    """
    digest = hashlib.blake2b(key=key, digest_size=16, person=label.encode())
    for part in parts:
        raw = part.encode("utf-8", "surrogateescape")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def fingerprint(key: bytes) -> str:
    """A short public name of the key, to notice that two installations share a Redis."""
    return keyed(key, "fingerprint")[:12]


def _load(path: Path) -> bytes:
    try:
        with contextlib.suppress(FileExistsError):
            if not path.exists():
                _create(path)
        text = path.read_text("ascii")
    except OSError as error:
        raise SettingsError(f"The key file {path} cannot be used ({error.strerror}).") from error
    except UnicodeDecodeError:
        text = ""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"{path} is no key file (64 hexadecimal digits). Remove it to have a new one made."
        )
    return key


def _create(path: Path) -> None:
    """Write a whole file under another name, then give it its own: readers never see half a key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(draft)
    finally:
        draft.unlink()
