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
        self.plain = self.encoding in ("", "identity")
        self._inflate: zlib._Decompress | None = None
        self._start = b""
        self._total = 0
        if self.encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            name = "".join(letter for letter in self.encoding if letter.isalnum())[:16]
            raise UndecodedError(f"encoding_{name or 'unknown'}")

    def decode(self, data: bytes) -> bytes:
        """The plain bytes behind these; may be empty."""
        if self.plain:
            return data
        try:
            plain = self._step(data)
        except zlib.error as error:
            raise UndecodedError("encoding_broken") from error
        self._total += len(plain)
        if self._total > MAX_TOTAL:
            raise UndecodedError("encoding_too_large")
        return plain

    def _step(self, data: bytes) -> bytes:
        plain = b""
        if self._inflate is None:
            data, self._start = self._start + data, b""
            if len(data) < 2:
                self._start = data
                return b""
            self._inflate = zlib.decompressobj(self._window(data))
        while data:
            if self._inflate.eof:  # gzip members may follow one another
                self._inflate = zlib.decompressobj(self._window(data))
            plain += self._inflate.decompress(data, MAX_STEP - len(plain) + 1)
            if len(plain) > MAX_STEP:
                raise UndecodedError("encoding_too_large")
            data = self._inflate.unused_data.lstrip(b"\0")
        return plain

    def _window(self, start: bytes) -> int:
        """How zlib is to begin: many servers send deflate without the header that its name implies."""
        if self.encoding == "deflate" and (start[0] & 15 != 8 or int.from_bytes(start[:2], "big") % 31):
            return -zlib.MAX_WBITS
        return zlib.MAX_WBITS | 32
