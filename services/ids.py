"""Request ids: UUIDv7 with dashes, strictly increasing within a process, so that lists order by id."""

import os
import secrets
import time


class IdFactory:
    """Makes ids; also after the clock stepped back, since time never runs backwards inside one factory."""

    def __init__(self) -> None:
        self._last_ms = 0
        self._sequence = 0
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._last_ms = 0

    def new(self) -> str:
        """The next id; 12 bits of sequence keep order inside a millisecond, 62 random bits keep it unique."""
        now = time.time_ns() // 1_000_000
        if now > self._last_ms:
            self._last_ms, self._sequence = now, secrets.randbits(8)
        else:
            self._sequence += 1
            if self._sequence > 0xFFF:
                self._last_ms, self._sequence = self._last_ms + 1, 0
        high = (self._last_ms << 16) | 0x7000 | self._sequence
        low = 0x8000_0000_0000_0000 | secrets.randbits(62)
        text = f"{high:016x}{low:016x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_factory = IdFactory()
new_id = _factory.new
