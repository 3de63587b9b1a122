"""Server-sent events from bytes cut anywhere; owns the unfinished line and event of one answer.

Events are found as the standard says (LF, CRLF or CR; comments; several data lines; a BOM before the first),
and a last event without its blank line counts too, because servers forget it. Data is not decoded here, so a
character cut in two by the network is whole again before anybody looks.
"""

MAX_EVENT = 8 << 20  # a completed response repeats the whole answer in one event; more than this is no event


class Events:
    """Splits one stream into (event name, data) pairs; memory is bounded by `MAX_EVENT`."""

    def __init__(self) -> None:
        self.dropped = 0
        self._rest = b""
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._fresh = True

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The events that these bytes complete."""
        data = self._rest + data if self._rest else data
        if self._fresh:
            if data in (b"\xef", b"\xef\xbb"):
                self._rest = data
                return []
            data = data.removeprefix(b"\xef\xbb\xbf")
            self._fresh = False
        end = _complete(data)
        self._rest = data[end:]
        if len(self._rest) > MAX_EVENT:
            self._rest = b""
            self.dropped += 1
        return self._lines(data[:end].splitlines())

    def close(self) -> list[tuple[bytes, bytes]]:
        """What the end of the stream completes."""
        rest, self._rest = self._rest, b""
        return self._lines([*rest.splitlines(), b""])

    def _lines(self, lines: list[bytes]) -> list[tuple[bytes, bytes]]:
        events = []
        for line in lines:
            if line[:5] == b"data:":
                self._add(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if self._data:
                    events.append(
                        (self._name, self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                    )
                    self._data = []
                    self._size = 0
                self._name = b""
            elif line[:6] == b"event:":
                self._name = line[6:].strip()
            elif line[:6] == b"error:":  # llama-server before 2025 named the field so
                self._name = b"error"
                self._add(line[6:].strip())
        return events

    def _add(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MAX_EVENT:
            self.dropped += 1
            self._data = []
            self._size = 0
            return
        self._data.append(data)


def _complete(data: bytes) -> int:
    """Where the last finished line ends; a final CR may still be followed by its LF."""
    end = data.rfind(b"\n") + 1
    cr = data.rfind(b"\r", end, len(data) - 1) + 1
    return max(end, cr)
