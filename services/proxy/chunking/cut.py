"""Cuts JSON into raw slices without building what is inside them; owns no state.

A request is understood by slicing it (`msgspec.Raw`) and decoding only what is needed, because whole trees of
Python objects cost ten times as much as the SHA-1 that has to run anyway. JSON from strangers is accepted as
their own backends accept it: duplicate keys (the last one wins), lone surrogates, any spacing, any number.
Everything else raises `UnparsedError`; depth is bounded by the decoder's own recursion limit.
"""

import ctypes
import re
from typing import NamedTuple, TypeVar, cast

import msgspec
from msgspec import Raw

T = TypeVar("T")


class UnparsedError(ValueError):
    """The body is not JSON, or not the JSON of this route; it is forwarded and logged all the same."""


NONE = Raw(b"")
"""Stands for a field that is absent; compared by identity or truth, never decoded."""

_members = msgspec.json.Decoder(dict[str, Raw])
_elements = msgspec.json.Decoder(list[Raw])
_string = msgspec.json.Decoder(str)
_number = msgspec.json.Decoder(int | float)
_anything = msgspec.json.Decoder()

# A pair of surrogate escapes, a single one, or any other escape: the last alternative keeps the scan in step
# with backslashes that are themselves escaped.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def decode(decoder: msgspec.json.Decoder[T], raw: Raw | bytes, *, halves: bool = False) -> T:
    """Decode, once more with broken text mended if need be (see `mend`); raises `UnparsedError`."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise UnparsedError("not the JSON of this route") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _decode_mended(decoder, bytes(raw), error, halves=halves)
    except RecursionError as error:
        raise UnparsedError("nested too deeply") from error


def _decode_mended(decoder: msgspec.json.Decoder[T], raw: bytes, error: Exception, *, halves: bool) -> T:
    mended = mend(raw, halves=halves)
    if mended == raw:
        raise UnparsedError("not JSON") from error
    try:
        return decoder.decode(mended)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as again:
        raise UnparsedError("not JSON") from again


def mend(raw: bytes, *, halves: bool = False) -> bytes:
    """The same JSON with lone surrogates and broken UTF-8 replaced by U+FFFD, as backends read them.

    With `halves`, lone surrogates become characters that nobody uses instead, for `join_halves`.
    """

    def replace(found: re.Match[bytes]) -> bytes:
        if not found[1]:
            return found[0]
        return (
            chr(_HALVES + int(found[1].removeprefix(b"\\u"), 16) - 0xD800).encode() if halves else b"\\ufffd"
        )

    return _ESCAPES.sub(replace, raw).decode("utf-8", "replace").encode()


_HALVES = 0x10F000  # 2,048 code points of the last private plane stand for the surrogates
_HALF = re.compile("[\U0010f000-\U0010f3ff][\U0010f400-\U0010f7ff]|[\U0010f000-\U0010f7ff]")


def join_halves(text: str) -> str:
    """A text that came in pieces, with characters that were cut into surrogates whole again."""
    return text if text.isascii() else _HALF.sub(_join, text)


def _join(found: re.Match[str]) -> str:
    if len(found[0]) == 1:
        return "\ufffd"
    high, low = (ord(half) - _HALVES for half in found[0])
    return chr(0x10000 + (high << 10) + (low - 0x400))


class Spelling(NamedTuple):
    """How the strings of some JSON are spelled.

    `simple`: none has an escape that could be spelled otherwise; `single`: no backslash is one of a pair.
    `ascii`: all bytes are. Each is False as well where nobody has looked.
    """

    simple: bool
    single: bool
    ascii: bool


UNKNOWN = Spelling(simple=False, single=False, ascii=False)

# The C library's search goes through a body at 30 GB/s (glibc on x86-64) where `in` makes 1.1, because the
# second character of the needle is a common one. JSON holds no NUL, and bytes objects end in one.
_strstr = ctypes.PyDLL(None).strstr
_strstr.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
_strstr.restype = ctypes.c_void_p


def spelling(data: bytes) -> Spelling:
    """Look at JSON that was cut."""
    return Spelling(is_simple(data), is_single(data), data.isascii())


def is_simple(data: bytes) -> bool:
    r"""Whether there is no ``\u`` and no ``\/`` (nor ``\\u``, which looks alike)."""
    return not (holds(data, b"\\u") or holds(data, b"\\/"))


def is_single(data: bytes) -> bool:
    """Whether no backslash follows another."""
    return not holds(data, b"\\\\")


def holds(data: bytes, needle: bytes) -> bool:
    """Whether JSON holds some bytes; not for anything with a NUL in it."""
    return bool(_strstr(data, needle))


def members(raw: Raw | bytes) -> dict[str, Raw]:
    """The values of an object by key; raises `UnparsedError` when it is none."""
    return decode(_members, raw)


def elements(raw: Raw | bytes) -> list[Raw]:
    """The items of an array; raises `UnparsedError` when it is none."""
    return decode(_elements, raw)


def value(raw: Raw | bytes) -> object:
    """Any JSON as Python objects; raises `UnparsedError`."""
    return cast(object, decode(_anything, raw))


def first_byte(raw: Raw | bytes) -> bytes:
    """The byte that tells a value's type (slices carry no surrounding space); empty where absent."""
    return bytes(memoryview(raw)[:1])


def is_string(raw: Raw | bytes) -> bool:
    """Whether a slice is a JSON string."""
    return first_byte(raw) == b'"'


def text_of(raw: Raw | bytes) -> str | None:
    """The text of a JSON string; None for anything else."""
    if not raw or not is_string(raw):
        return None
    try:
        return decode(_string, raw)
    except UnparsedError:
        return None


def number_of(raw: Raw | bytes) -> float | int | None:
    """A JSON number of sane length; None for anything else."""
    data = bytes(raw)
    if not data or len(data) > 40 or data[0] not in b"-0123456789":
        return None
    try:
        return decode(_number, data)
    except UnparsedError:
        return None


def flag_of(raw: Raw | bytes) -> bool | None:
    """A JSON boolean; None for anything else."""
    return {b"true": True, b"false": False}.get(bytes(raw))


def is_set(raw: Raw | bytes) -> bool:
    """Whether a field is present and not null."""
    return bool(raw) and bytes(raw) != b"null"


class _Buffer(ctypes.Structure):
    """The head of CPython's `Py_buffer`; the tail is never looked at."""

    _fields_ = [("address", ctypes.c_void_p), ("rest", ctypes.c_byte * 128)]


def offset(part: Raw, body: bytes) -> int:
    """Where a slice that was cut from `body` begins in it, in bytes.

    The slice is a view of the body, so the difference of their addresses is exact even where the same bytes
    occur more than once.
    """
    return address(part) - address(body)


def address(data: Raw | bytes) -> int:
    """Where the bytes of an object lie in memory, for as long as it lives."""
    view = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(data), ctypes.byref(view), 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return int(view.address)
