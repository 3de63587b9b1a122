"""Lines of JSON from bytes cut anywhere; owns the unfinished line of one answer."""

MAX_LINE = 8 << 20  # no model server writes a longer one; what does is dropped and counted


class Lines:
    """Splits one stream into lines, named like events so that both framings read alike."""

    def __init__(self) -> None:
        self.dropped = 0
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The lines that these bytes complete, without blank ones."""
        data = self._rest + data if self._rest else data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        if len(self._rest) > MAX_LINE:
            self._rest = b""
            self.dropped += 1
        return [(b"", line) for line in data[:end].split(b"\n") if line.strip()]

    def close(self) -> list[tuple[bytes, bytes]]:
        """The last line, where it lacks its newline."""
        rest, self._rest = self._rest, b""
        return [(b"", rest)] if rest.strip() else []
