"""A compressed answer's plain copy, decoded as it passes; owns one decompressor.

The bytes that go to the client are never touched. The copy is bounded twice, because a few kilobytes may
claim to be gigabytes: by what one read may expand to (time on the event loop) and in total.
"""

import zlib

MAX_STEP = 2 << 20  # about 5 ms of inflating; honest text expands 4–20 times, a read is 64 KiB
MAX_TOTAL = 256 << 20


class UndecodedError(ValueError):
    """The copy cannot be decoded; the text is the reason as logged."""


class Decoding:
    """Decodes one answer; `decode` raises `UndecodedError` once and for all."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding.strip().lower()
        self._inflate = None if self.encoding in ("", "identity") else self._open()
        self._total = 0

    def _open(self) -> "zlib._Decompress":
        if self.encoding not in ("gzip", "x-gzip", "deflate"):
            name = "".join(letter for letter in self.encoding if letter.isalnum())[:16]
            raise UndecodedError(f"encoding_{name or 'unknown'}")
        return zlib.decompressobj(zlib.MAX_WBITS | 32)

    def decode(self, data: bytes) -> bytes:
        """The plain bytes behind these; may be empty."""
        if self._inflate is None:
            return data
        try:
            plain = self._step(data)
        except zlib.error as error:
            if self.encoding != "deflate" or self._total:
                raise UndecodedError("encoding_broken") from error
            self._inflate = zlib.decompressobj(
                -zlib.MAX_WBITS
            )  # servers that send deflate without its header
            plain = self._raw(data)
        self._total += len(plain)
        if self._total > MAX_TOTAL:
            raise UndecodedError("encoding_too_large")
        return plain

    def _raw(self, data: bytes) -> bytes:
        try:
            return self._step(data)
        except zlib.error as error:
            raise UndecodedError("encoding_broken") from error

    def _step(self, data: bytes) -> bytes:
        assert self._inflate is not None
        plain = b""
        if self._inflate.eof and data:
            self._inflate = self._open()
        while data:
            plain += self._inflate.decompress(data, MAX_STEP - len(plain) + 1)
            if len(plain) > MAX_STEP:
                raise UndecodedError("encoding_too_large")
            if not self._inflate.eof:
                break
            data = self._inflate.unused_data.lstrip(b"\0")
            if data:
                self._inflate = self._open()  # gzip members may follow one another
        return plain
