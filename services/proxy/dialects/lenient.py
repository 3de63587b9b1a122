"""Answers in which a member has another type than its API gives it, read without that member.

Gateways write counters as texts and indexes as null. Of such an event everything else still counts: without
this, one odd counter took the end mark beside it away, and a whole answer was taken for a broken one.
"""

import re
from typing import Any, TypeVar

import msgspec

from services.proxy.chunking.cut import UnparsedError, decode

T = TypeVar("T")

MOST_MEMBERS = 16  # an event with more odd ones than that is no event of this API
MOST_BYTES = 64 << 10  # of these, sixteen rounds cost some 3 ms of the event loop
_PLACE = re.compile(r" - at `\$(.+)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def decode_answer(decoder: msgspec.json.Decoder[T], data: bytes, *, halves: bool = False) -> T:
    """As `cut.decode`; members of a foreign type are left out. Raises `UnparsedError`."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        refused = error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(decoder, data, halves=halves)
    if len(data) > MOST_BYTES:
        raise UnparsedError("not the JSON of this route") from refused
    value = msgspec.json.decode(data)
    for _ in range(MOST_MEMBERS):
        _leave_out(value, refused)
        try:
            return decoder.decode(msgspec.json.encode(value))
        except msgspec.ValidationError as again:
            refused = again
    raise UnparsedError("not the JSON of this route")


def _leave_out(value: Any, refused: msgspec.ValidationError) -> None:
    """Remove the member that was refused."""
    place = _PLACE.search(str(refused))
    steps: list[str | int] = [name or int(index) for name, index in _STEP.findall(place[1] if place else "")]
    try:
        for step in steps[:-1]:
            value = value[step]
        del value[steps[-1]]
    except (IndexError, KeyError, TypeError) as error:  # the event itself is of another type
        raise UnparsedError("not the JSON of this route") from error
