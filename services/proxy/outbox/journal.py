"""The journal: which requests are open in this process, kept where a kill -9 cannot take it.

Each process owns one file in the journal folder, mapped into memory and held under an exclusive lock for the
life of the process. A slot holds the row that the request would have if this process died now; it is written
when the request opens and cleared once its real row was queued or spooled. Writing a slot is a copy into
mapped memory: no system call, nothing that can wait. The kernel keeps the pages when the process is killed.

A file whose lock is free belongs to a dead process. Whoever finds it first takes the lock, turns the slots
left into rows with status ``proxy_lost``, and removes the file; ids make a repeat harmless. A live process's
file is never touched, since its lock is never free.

Only the event loop's thread opens slots; any thread may clear one. Without a usable folder requests go on
unjournalled, and are counted.
"""

import contextlib
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from services.proxy.outbox.claim import claim, create
from services.record import Record

SUFFIX = ".journal"
# A lost row is about 250 bytes; a long backend name and a path of 200 characters still fit.
SLOT = 640
HEAD = 3  # one byte state, two bytes length
# One growth step is 320 KiB of zeros written out, 0.1 ms: an unwritten hole in a mapped file would end the
# process with SIGBUS when the disk is full.
STEP = 512
# More open or undelivered requests than this are not journalled (40 MiB of file).
MAX_SLOTS = 65_536

OPEN = 1


class Journal:
    """The slots of this process. `unjournalled` counts requests for which there was no slot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = -1
        self._path: Path | None = None
        self._maps: list[mmap.mmap] = []
        self._free: list[tuple[mmap.mmap, int]] = []
        self._held: dict[str, tuple[mmap.mmap, int]] = {}
        self.unjournalled = 0
        self.error: str | None = None

    def __len__(self) -> int:
        return len(self._held)

    def start(self) -> None:
        """Create and lock this process's file; a folder that cannot be used is noted, not raised."""
        try:
            self._fd, self._path = create(self._folder, str(os.getpid()), SUFFIX, os.O_RDWR)
            self._grow()
        except OSError as error:
            self.error = error.strerror
            self._close()

    def open(self, record: Record, encoded: bytes) -> None:
        """Keep the row that `record`'s request has if this process dies before `release`."""
        slot = self._take() if len(encoded) <= SLOT - HEAD else None
        if slot is None:
            self.unjournalled += 1
            return
        mapped, offset = slot
        mapped[offset + 1 : offset + HEAD + len(encoded)] = len(encoded).to_bytes(2, "little") + encoded
        mapped[offset] = OPEN  # last, so that a slot seen open is complete
        self._held[record.id] = slot

    def release(self, request_id: str) -> None:
        """The request's own row is safe elsewhere, or counted as dropped."""
        slot = self._held.pop(request_id, None)
        if slot is not None:
            slot[0][slot[1]] = 0
            self._free.append(slot)

    def close(self) -> None:
        """End of the process: an empty journal is removed, one with open slots is left for the next start."""
        if self._path is not None and not self._held:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._close()

    def _take(self) -> tuple[mmap.mmap, int] | None:
        if not self._free and self._fd >= 0 and len(self._maps) * STEP < MAX_SLOTS:
            try:
                self._grow()
            except OSError as error:
                self.error = error.strerror
        return self._free.pop() if self._free else None

    def _grow(self) -> None:
        size = STEP * SLOT
        start = len(self._maps) * size
        if os.pwrite(self._fd, bytes(size), start) != size:
            raise OSError(28, "No space left on device")
        mapped = mmap.mmap(self._fd, size, offset=start)
        self._maps.append(mapped)
        self._free.extend((mapped, offset) for offset in range(size - SLOT, -1, -SLOT))

    def _close(self) -> None:
        self._free, self._held = [], {}
        for mapped in self._maps:
            mapped.close()
        self._maps = []
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._path = -1, None


@contextlib.contextmanager
def leftovers(folder: Path) -> Iterator[tuple[list[Record], list[Path]]]:
    """The rows that dead processes left open, and their files, held under lock for the length of the block.

    Remove the files inside the block once the rows are safe: whoever comes between finds them locked, whoever
    comes after finds them gone.
    """
    records: list[Record] = []
    paths: list[Path] = []
    with contextlib.ExitStack() as stack:
        for path in _journals(folder):
            fd = claim(path)
            if fd is None:
                continue
            stack.callback(os.close, fd)
            records.extend(_read(fd))
            paths.append(path)
        yield records, paths


def _journals(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    except OSError:
        return []


def _read(fd: int) -> Iterator[Record]:
    content = os.pread(fd, os.fstat(fd).st_size, 0)
    for start in range(0, len(content) - HEAD, SLOT):
        if content[start] != OPEN:
            continue
        length = int.from_bytes(content[start + 1 : start + HEAD], "little")
        with contextlib.suppress(msgspec.DecodeError):
            yield msgspec.json.decode(content[start + HEAD : start + HEAD + length], type=Record)
