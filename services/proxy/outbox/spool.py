"""The spool: rows on disk while Redis cannot take them, bounded in bytes.

A segment is a file of lines, one encoded row each, named so that names sort by age. It has one writer, which
holds its lock; a segment whose lock is free is finished, whoever wrote it, and any process may claim it to
replay and remove it. So several proxies share one folder, and what a dead one left is replayed by the next.

A killed writer leaves at most a torn last line, without its newline; it is skipped, its request is still
open in the journal. A write that fails half-way (disk full) is cut back. When the folder is full the oldest
segment goes; every row that goes is counted. Only the outbox's thread calls this.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from services.proxy.outbox.claim import claim, create
from services.record import Record

SUFFIX = ".rows"
# Dropping the oldest segment must not cost a large part of what is kept: an eighth, at most 4 MiB.
SEGMENT = 4 << 20
PARTS = 8

_row = msgspec.json.Decoder(Record)
# A row's journal slot is freed once it is here, so here it must outlast a power cut. A batch takes 3.5 ms
# (median, ext4 on a virtual disk), in a thread of its own, and four times a second while rows come slowly.
_sync = getattr(os, "fdatasync", os.fsync)


class Spool:
    """The folder and this process's open segment. `dropped` counts rows that gave way to newer ones."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max = folder, max_bytes
        self._segment = min(SEGMENT, max(max_bytes // PARTS, 1))
        self._fd = -1
        self._path: Path | None = None
        self._size = 0
        self._counted: dict[str, tuple[int, int]] = {}
        self.dropped = 0
        self.records = 0
        self.bytes = 0
        self.segments = 0
        self.error: str | None = None

    def write(self, rows: list[bytes]) -> bool:
        """Keep the rows; False when there is no room or the folder cannot be written. Never raises."""
        data = b"\n".join(rows) + b"\n"
        try:
            kept = self._make_room(len(data))
            self.error = None if kept else "full"
            if kept:
                self._append(data)
        except OSError as error:
            kept, self.error = False, error.strerror
        self.measure()
        return kept

    def measure(self) -> None:
        """Count the rows and bytes of all processes' segments; only what is new since last time is read."""
        sizes = dict(self._segments())
        counted: dict[str, tuple[int, int]] = {}
        for path, size in sizes.items():
            known, lines = self._counted.get(path.name, (0, 0))
            counted[path.name] = (known, lines) if known == size else (size, lines + _lines(path, known))
        self._counted = counted
        self.records = sum(lines for _, lines in counted.values())
        self.bytes = sum(sizes.values())
        self.segments = len(sizes)

    @contextlib.contextmanager
    def oldest(self) -> Iterator[tuple[list[bytes], Path] | None]:
        """The oldest finished segment's rows and file, claimed for the length of the block; None if none.

        Rows that are none (a torn last line apart) are counted as dropped. Remove the file inside the block
        once its rows are safe.
        """
        self._finish()
        for path, _ in self._segments():
            fd = claim(path)
            if fd is None:
                continue
            try:
                yield self._rows(fd), path
            finally:
                os.close(fd)
            return
        yield None

    def close(self) -> None:
        """Leave the open segment to whoever replays next."""
        self._finish()

    def _rows(self, fd: int) -> list[bytes]:
        lines = os.pread(fd, os.fstat(fd).st_size, 0).split(b"\n")[:-1]
        rows = [line for line in lines if _is_row(line)]
        self.dropped += len(lines) - len(rows)
        return rows

    def _segments(self) -> list[tuple[Path, int]]:
        try:
            with os.scandir(self._folder) as entries:
                found = [(Path(e.path), e.stat().st_size) for e in entries if e.name.endswith(SUFFIX)]
        except OSError:
            return []
        return sorted(found)

    def _make_room(self, size: int) -> bool:
        segments = self._segments()
        total = sum(length for _, length in segments) + size
        if size > self._max:
            return False
        for path, length in segments:
            if total <= self._max:
                break
            if path == self._path:
                self._finish()
            if self._discard(path):
                total -= length
        return total <= self._max

    def _discard(self, path: Path) -> bool:
        fd = claim(path)
        if fd is None:
            return False
        try:
            lost = len(os.pread(fd, os.fstat(fd).st_size, 0).split(b"\n")) - 1
            path.unlink()
            self.dropped += lost
        finally:
            os.close(fd)
        return True

    def _append(self, data: bytes) -> None:
        if self._fd >= 0 and self._size + len(data) > self._segment:
            self._finish()
        if self._fd < 0:
            self._begin()
        try:
            written = 0
            while written < len(data):
                written += os.write(self._fd, data[written:])
            _sync(self._fd)
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def _begin(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND
        self._fd, self._path = create(self._folder, f"{time.time_ns():020d}-{os.getpid()}", SUFFIX, flags)
        self._size = 0
        _sync_name(self._folder)

    def _finish(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._path, self._size = -1, None, 0


def _sync_name(folder: Path) -> None:
    """Else a power cut may take a new file's name, and with it the rows; not every file system can."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def _is_row(line: bytes) -> bool:
    try:
        _row.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _lines(path: Path, start: int) -> int:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read().count(b"\n")
    except OSError:
        return 0
