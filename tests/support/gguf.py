"""Writes the metadata of GGUF files, for tests; tensors there are none."""

import struct
from typing import Any

CODES = {"u32": (4, "I"), "i32": (5, "i"), "f32": (6, "f"), "bool": (7, "?")}


def gguf(keys: dict[str, Any], *, order: str = "<", version: int = 3) -> bytes:
    """A file with these keys: ints are u32, lists of ints i32 arrays, of bools and texts their own."""
    wide = "Q" if version > 1 else "I"

    def text(value: str) -> bytes:
        raw = value.encode()
        return struct.pack(order + wide, len(raw)) + raw

    def array(values: list[Any]) -> bytes:
        if values and isinstance(values[0], str):
            return struct.pack(order + "I" + wide, 8, len(values)) + b"".join(map(text, values))
        kind, code = CODES["bool" if values and isinstance(values[0], bool) else "i32"]
        return struct.pack(f"{order}I{wide}{len(values)}{code}", kind, len(values), *values)

    def value(one: Any) -> bytes:
        if isinstance(one, str):
            return struct.pack(order + "I", 8) + text(one)
        if isinstance(one, list):
            return struct.pack(order + "I", 9) + array(one)
        kind, code = CODES["bool" if isinstance(one, bool) else "f32" if isinstance(one, float) else "u32"]
        return struct.pack(f"{order}I{code}", kind, one)

    head = b"GGUF" + struct.pack(order + "I" + wide * 2, version, 0, len(keys))
    return head + b"".join(text(key) + value(one) for key, one in keys.items())
