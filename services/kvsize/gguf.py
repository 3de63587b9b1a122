"""Reads the metadata at the head of a GGUF file, and nothing else of it. Bounded, whatever the file says.

It owns no state. Long arrays and those of texts (a tokenizer's words, above all) are stepped over, not kept.
The layout is that of ggml's ``docs/gguf.md``, versions 1 to 3, in either byte order.
"""

import struct
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"GGUF"
VERSIONS = (1, 2, 3)
# The largest vocabularies make some 10 MiB of metadata; files that claim more are broken or hostile.
MOST_BYTES = 64 << 20
MOST_KEYS = 65_536
LONGEST_KEY = 65_535
# A value for each layer is the longest array that matters here; some dozen of them is all a model has.
KEPT = 4_096
KEPT_IN_ALL = 64 * KEPT
LONGEST_TEXT = 4_096
DEEPEST = 4
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class BadGguf(ValueError):  # noqa: N818
    """The file is no GGUF, or its head is broken; the text says how."""


def read_metadata(path: Path) -> dict[str, Any]:
    """All keys with their values; arrays that are longer than a model has layers are absent.

    Raises `BadGguf`, or OSError where the file cannot be read.
    """
    with path.open("rb") as file:
        return _Reader(file).metadata()


class _Reader:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = MOST_BYTES
        self._room = KEPT_IN_ALL
        self._order = "<"
        self._wide = True

    def metadata(self) -> dict[str, Any]:
        if self._take(4) != MAGIC:
            raise BadGguf("It does not begin with GGUF.")
        version = self._version()
        if version not in VERSIONS:
            raise BadGguf(f"GGUF version {version} is not known.")
        self._wide = version > 1
        self._length()  # tensors
        count = self._length()
        if count > MOST_KEYS:
            raise BadGguf(f"It claims {count} keys.")
        found = {}
        for _ in range(count):
            key = self._text(LONGEST_KEY)
            value = self._value(self._number("I"), 0)
            if value is not None:
                found[key] = value
        return found

    def _version(self) -> int:
        raw = self._take(4)
        little, big = (int.from_bytes(raw, order) for order in ("little", "big"))
        if little > big:  # a file of a big-endian machine
            self._order = ">"
        return min(little, big)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in SCALARS:
            return self._number(SCALARS[kind])
        if kind == STRING:
            return self._string()
        if kind == ARRAY and depth < DEEPEST:
            return self._array(depth)
        raise BadGguf(f"It has a value of unknown type {kind}.")

    def _array(self, depth: int) -> list[Any] | None:
        kind, length = self._number("I"), self._length()
        if kind not in SCALARS:
            for _ in range(length):  # each takes some bytes, which the file must have
                self._value(kind, depth + 1)
            return None
        code = SCALARS[kind]
        size = length * struct.calcsize("<" + code)
        if length > min(KEPT, self._room) or depth:
            self._skip(size)
            return None
        self._room -= length
        return list(struct.unpack(f"{self._order}{length}{code}", self._take(size)))

    def _string(self) -> str | None:
        length = self._length()
        if length > LONGEST_TEXT:  # a chat template or a licence
            self._skip(length)
            return None
        return self._take(length).decode("utf-8", "replace")

    def _text(self, most: int) -> str:
        length = self._length()
        if length > most:
            raise BadGguf(f"A key claims {length} bytes.")
        return self._take(length).decode("utf-8", "replace")

    def _length(self) -> int:
        return int(self._number("Q" if self._wide else "I"))

    def _number(self, code: str) -> Any:
        form = self._order + code
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _take(self, count: int) -> bytes:
        self._spend(count)
        found = self._file.read(count)
        if len(found) != count:
            raise BadGguf("It ends in the middle of its metadata.")
        return found

    def _skip(self, count: int) -> None:
        self._spend(count)
        self._file.seek(count, 1)

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise BadGguf(f"Its metadata is longer than {MOST_BYTES >> 20} MiB.")
