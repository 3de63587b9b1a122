"""The history and the disk say no: a locked file, a full disk, a full spool, a clock that steps back."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


def test_a_locked_history(make_stack, drill, done):
    """Another program holds SQLite's write lock for four seconds: batches wait in the queue."""
    stack = make_stack()
    with drill("SQLite: locked for 4 s", stack) as it, it.fault():
        it.traffic.flow(0.5)
        other = sqlite3.connect(stack.database.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        it.traffic.flow(4.0)
        other.execute("ROLLBACK")
        other.close()
    done(it.result())


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 12 MB that `grow` enlarges."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("a small file system of its own needs root on Linux")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this container may not mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def filled(disk: Path):
    """The disk without a byte left, for the length of the block."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(65536))
    yield
    ballast.unlink()


def test_a_full_disk_under_the_history(make_stack, drill, done, small_disk):
    """Batches wait in the queue until there is room again."""
    stack = make_stack(f"sqlite:///{small_disk / 'history.sqlite'}")
    with drill("disk full under the history", stack) as it, it.fault():
        it.traffic.flow(0.5)
        with filled(small_disk):
            it.traffic.flow(4.0)
    done(it.result())


def test_a_full_disk_under_spool_and_journal(make_stack, drill, done, small_disk):
    """With Redis away too there is nowhere to put a row: it is dropped and counted, no request notices."""
    stack = make_stack(data_dir=small_disk / "data")
    with drill("disk full under the spool, Redis stopped", stack) as it, it.fault():
        it.traffic.flow(0.5)
        with filled(small_disk):
            stack.valkey.stop()
            it.traffic.flow(3.0)
        it.traffic.flow(1.0)
        stack.valkey.start()
    done(it.result())


def test_a_full_spool(make_stack, drill, done):
    """Over its bound the spool drops its oldest rows, and counts each."""
    stack = make_stack(spool_max_bytes=96 << 10)
    with drill("spool full (96 KiB), Redis stopped", stack) as it, it.fault():
        it.traffic.flow(0.5)
        stack.valkey.stop()
        it.traffic.flow(5.0)
        dropped = stack.status()["dropped"]["records"]
        stack.valkey.start()
    found = it.result()
    assert dropped > 0
    done(found)


def test_a_clock_that_steps_back(make_stack, drill, done, tmp_path, monkeypatch):
    """Two hours back in mid-run: ids still rise, waits and limits do not follow the wall clock."""
    library = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    if library is None:
        pytest.skip("libfaketime is not installed (Debian: apt-get install libfaketime)")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    for name, value in {
        "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    stack = make_stack()
    with drill("clock: two hours back, then on", stack) as it, it.fault():
        it.traffic.flow(0.8)
        clock.write_text("-2h")
        it.traffic.flow(3.0)
        clock.write_text("+0")
    found = it.result(worst_ms=8_000)  # the library's clock costs the proxy and worker a file read a look
    ids = [entry.id for entry in sorted(it.traffic.entries, key=lambda e: e.sent) if entry.id]
    late = [entry for entry in it.traffic.entries if entry.id and entry.sent > it.span[0] + 1.5]
    early = [entry for entry in it.traffic.entries if entry.id and (entry.head or 0) < it.span[0]]
    assert len(set(ids)) == len(ids)
    assert max(entry.id for entry in early) < min(entry.id for entry in late)
    done(found)
