"""Cutting JSON: slices as received, tolerant of what backends accept, bounded against what nobody should."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.chunking import cut
from services.proxy.dialects.base import UnparsedError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=6), st.sampled_from([None, 1, 3]), st.booleans())
def test_slices_are_the_received_bytes(body, indent, escaped):
    """Every member's slice is found in the body where it says, and parses to the member's value."""
    data = json.dumps(body, indent=indent, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        return
    found = cut.members(data)
    assert {key: json.loads(bytes(raw)) for key, raw in found.items()} == json.loads(data)


def test_an_offset_is_exact_where_the_same_bytes_occur_twice():
    """The second of two equal items lies at its own offset, not at the first's."""
    body = b'{"a": [ {"x":1} , {"x":1} ]}'
    items = cut.elements(cut.members(body)["a"])
    assert [cut.offset(item, body) for item in items] == [8, 18]


def test_of_duplicate_keys_the_last_one_wins():
    """As in the parsers of the backends."""
    assert bytes(cut.members(b'{"a":1,"b":2,"a":3}')["a"]) == b"3"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (rb'"\ud83c"', "�"),
        (rb'"a\udf0dz"', "a�z"),
        (rb'"\ud83c\udf0d"', "🌍"),
        (rb'"\\ud83c"', r"\ud83c"),
        (b'"a\xffz"', "a�z"),
        ('"日🌍"'.encode(), "日🌍"),
        (rb'"\u00e9\/\n"', "é/\n"),
    ],
)
def test_broken_text_is_mended_and_sound_text_kept(raw, text):
    """Lone surrogates and stray bytes become U+FFFD; pairs and escaped backslashes stay what they are."""
    assert cut.text_of(raw) == text


def test_a_body_with_a_lone_surrogate_is_still_cut():
    """One broken character does not make a conversation unreadable."""
    assert cut.text_of(cut.members(rb'{"a":"x\ud83c","b":1}')["a"]) == "x�"


def test_numbers_of_any_size_are_skipped_and_sane_ones_read():
    """A number bomb costs nothing, because it is never converted."""
    fields = cut.members(b'{"seed":12345678901234567890,"bomb":' + b"9" * 100_000 + b',"n":1.5,"t":true}')
    assert cut.number_of(fields["seed"]) == 12345678901234567890
    assert cut.number_of(fields["bomb"]) is None
    assert cut.number_of(fields["n"]) == 1.5
    assert cut.number_of(fields["t"]) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"[1]",
        b'{"a":1}{',
        b'{"a":' + b"[" * 100_000,
        b'"text"',
        b"\xef\xbb\xbf{}",
        b"null",
    ],
)
def test_what_is_no_json_object_is_unparsed(body):
    """Whatever is wrong with it, depth bombs included, there is one error to catch."""
    with pytest.raises(UnparsedError):
        cut.members(body)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data):
    """Bodies come from strangers."""
    for read in (cut.members, cut.elements, cut.value):
        try:
            read(data)
        except UnparsedError:
            continue


def test_flags_and_presence_are_told_from_other_values():
    """Null counts as absent; a text is no flag."""
    fields = cut.members(b'{"t":true,"f":false,"n":null,"s":"true"}')
    assert [cut.flag_of(fields[key]) for key in "tfns"] == [True, False, None, None]
    assert [cut.is_set(fields[key]) for key in "tfns"] == [True, True, False, True]
    assert not cut.is_set(cut.NONE)
    assert cut.first_byte(msgspec.Raw(b"[1]")) == b"["
