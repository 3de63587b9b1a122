"""Reading the head of a GGUF file: every version and byte order, and never more than it must."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.kvsize import gguf as reader
from services.kvsize.gguf import BadGguf, read_metadata
from tests.support.gguf import gguf

KEYS: dict[str, Any] = {
    "general.architecture": "gemma3",
    "gemma3.block_count": 18,
    "gemma3.scale": 0.5,
    "gemma3.pattern": [True, False, True],
    "gemma3.attention.head_count_kv": [1, 2, 3],
    "tokenizer.ggml.tokens": ["a", "", "ünï"],
    "gemma3.late": True,
}
KEPT = {key: value for key, value in KEYS.items() if key != "tokenizer.ggml.tokens"}

# The head of a file with one key, whose value is still to come.
ONE = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q1s", 1, b"k")


def written(folder: Path, raw: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_keys_come_back(tmp_path: Path, order: str, version: int):
    """Also those behind the vocabulary, which is stepped over."""
    assert read_metadata(written(tmp_path, gguf(KEYS, order=order, version=version) + b"tensors")) == KEPT


def test_long_values_are_stepped_over(tmp_path: Path):
    """Chat templates and scores of a whole vocabulary are of no use here."""
    keys = {"t": "x" * 10_000, "scores": list(range(10_000)), "n": 1}
    assert read_metadata(written(tmp_path, gguf(keys))) == {"n": 1}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "ends in the middle"),
        (b"PK\x03\x04" + bytes(40), "does not begin"),
        (gguf(KEYS, version=9), "version 9"),
        (gguf(KEYS)[:-1], "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "claims"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63), "claims"),
        (ONE + struct.pack("<I", 99), "unknown type 99"),
        (ONE + struct.pack("<IIQ", 9, 4, 2**62), "longer than"),
        (ONE + struct.pack("<IIQ", 9, 8, 2**62), "ends in the middle"),
        (ONE + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9, "unknown type 9"),
    ],
)  # fmt: skip
def test_a_broken_file_is_refused(tmp_path: Path, raw: bytes, words: str):
    """With a sentence; sizes that a file claims are not believed."""
    with pytest.raises(BadGguf, match=words):
        read_metadata(written(tmp_path, raw))


def test_what_is_kept_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Arrays beyond it are stepped over."""
    monkeypatch.setattr(reader, "KEPT_IN_ALL", 5)
    assert read_metadata(written(tmp_path, gguf({"a": [1, 2, 3], "b": [1, 2, 3], "c": [7]}))) == {
        "a": [1, 2, 3],
        "c": [7],
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400), st.integers(0, 400), st.booleans())
def test_no_file_makes_it_fail_otherwise(tmp_path: Path, noise: bytes, place: int, cut: bool):
    """Noise in any place of a good file, and noise alone."""
    good = gguf(KEYS)
    for raw in (noise, b"GGUF" + noise, good[:place] + noise + (b"" if cut else good[place + len(noise) :])):
        try:
            found = read_metadata(written(tmp_path, raw))
        except BadGguf:
            continue
        assert isinstance(found, dict)
