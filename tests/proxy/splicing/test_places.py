"""Breakpoints are bytes put in at known places: nothing received is lost, moved or changed in meaning."""

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.dialects import for_route
from services.proxy.splicing.places import Places, places_of
from services.proxy.splicing.splice import Splice, apply
from tests.support.anthropic_cache import _no_twice

MARK = {"type": "ephemeral"}
TEXT = {"type": "text", "text": "hello"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def body(**members: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 1, **members}).encode()


def places(raw: bytes) -> Places:
    found = places_of(raw)
    assert found is not None
    return found


def all_of(raw: bytes) -> list[Splice]:
    """Every splice that a body has a place for."""
    found, count = places(raw), len(json.loads(raw).get("messages", []))
    marks = [found.tools(), found.system(), *(found.message(index) for index in range(count))]
    return [splice for mark in marks for splice in mark]


def taken_out(raw: bytes, splices: list[Splice]) -> bytes:
    """A spliced body without what was put in."""
    left, moved = raw, sum(len(data) for _, data in splices)
    for offset, data in sorted(splices, reverse=True):
        moved -= len(data)
        at = offset + moved
        assert left[at : at + len(data)] == data
        left = left[:at] + left[at + len(data) :]
    return left


def strict(raw: bytes) -> Any:
    return json.loads(raw, object_pairs_hook=_no_twice)


def bare(value: Any) -> Any:
    """A body's meaning: without breakpoints, texts as arrays of one block."""
    value = copy.deepcopy(value)
    for holder, key in [(value, "system"), *((m, "content") for m in value.get("messages", []))]:
        if isinstance(holder.get(key), str):
            holder[key] = [{"type": "text", "text": holder[key]}]
        for block in holder.get(key) or []:
            block.pop("cache_control", None)
    for tool in value.get("tools", []):
        tool.pop("cache_control", None)
    return value


def test_the_last_tool_is_marked() -> None:
    raw = body(tools=[{"name": "a"}, {"name": "b", "input_schema": {"type": "object"}}])
    made = strict(apply(raw, places(raw).tools()))
    assert made["tools"] == [
        {"name": "a"},
        {"name": "b", "input_schema": {"type": "object"}, "cache_control": MARK},
    ]


def test_tools_that_are_loaded_later_are_passed_over() -> None:
    raw = body(tools=[{"name": "a"}, {"name": "b", "defer_loading": True}])
    assert "cache_control" in strict(apply(raw, places(raw).tools()))["tools"][0]


def test_the_last_block_of_the_system_prompt_is_marked() -> None:
    raw = body(system=[TEXT, {"type": "text", "text": "two"}])
    assert strict(apply(raw, places(raw).system()))["system"] == [
        TEXT,
        {"type": "text", "text": "two", "cache_control": MARK},
    ]


def test_a_text_becomes_an_array_that_means_the_same() -> None:
    """It cannot carry a breakpoint itself; the received bytes of the text stay, escapes and all."""
    raw = rb'{"system": "a \"quoted\"\u00e9 \\ text" , "messages":[{"role":"user","content":"hi"}]}'
    found = places(raw)
    made = apply(raw, [*found.system(), *found.message(0)])
    assert (
        rb'[{"type":"text","text":"a \"quoted\"\u00e9 \\ text","cache_control":{"type":"ephemeral"}}] ,'
        in made
    )
    assert bare(strict(made)) == bare(json.loads(raw))


@pytest.mark.parametrize(
    "other", [THOUGHT, {"type": "text", "text": " \n"}, {"type": "something_new", "x": 1}]
)
def test_a_block_that_takes_none_is_passed_over(other: dict[str, Any]) -> None:
    raw = body(messages=[{"role": "assistant", "content": [TEXT, other]}])
    assert strict(apply(raw, places(raw).message(0)))["messages"][0]["content"] == [
        {**TEXT, "cache_control": MARK},
        other,
    ]


@pytest.mark.parametrize(
    "members",
    [
        {"system": ""},
        {"system": " \n"},
        {"system": None},
        {"system": []},
        {"system": [{"type": "text", "text": ""}]},
        {"tools": []},
        {"tools": [{}]},
        {"tools": [{"name": "a", "defer_loading": True}]},
        {"messages": [{"role": "assistant", "content": [THOUGHT]}]},
        {"messages": [{"role": "system", "content": "in between"}]},
        {"messages": [{"role": "user", "content": []}]},
        {"messages": [{"role": "user"}]},
    ],
)
def test_some_sections_have_no_place(members: dict[str, Any]) -> None:
    assert all_of(body(**members)) == []


@pytest.mark.parametrize(
    "raw",
    [
        body(cache_control=MARK, system="s"),
        body(tools=[{"name": "a", "cache_control": MARK}]),
        body(system=[{**TEXT, "cache_control": MARK}]),
        body(system=[{**TEXT, "cache_control": None}]),
        body(messages=[{"role": "user", "content": [{**TEXT, "cache_control": MARK}]}]),
        body(messages=[{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": [{**TEXT, "cache_control": MARK}]}
        ]}]),
        body(messages=[{"role": "user", "content": [
            {"type": "document", "source": {"type": "content", "content": [{**TEXT, "cache_control": MARK}]}}
        ]}]),
        body(system=[{**TEXT, "cache_control": MARK}]).replace(b"cache_control", rb"cache\u005fcontrol"),
        body(system=[{**TEXT, "cache_control": MARK}]).replace(b"cache", rb"\u0063ache"),
    ],
)  # fmt: skip
def test_a_clients_own_is_left_alone_with_all_the_rest(raw: bytes) -> None:
    """Nothing is moved, and nothing added beside it, however the key is spelt."""
    assert places_of(raw) is None


def test_the_words_cache_control_in_a_text_are_no_breakpoint() -> None:
    """Nor are they in a tool's schema or a call's arguments."""
    raw = body(
        tools=[{"name": "cache_control", "input_schema": {"properties": {"cache_control": {}}}}],
        system='Set "cache_control" on each block.',
        messages=[
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t", "name": "n", "input": {"cache_control": "no-store"}}
            ]},
        ],
    )  # fmt: skip
    assert len(all_of(raw)) == 4


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b'"cache"', b"null", b"{}x", b'{"messages":1}', b'{"tools":{"a":1}}',
        b'\xef\xbb\xbf{"system":"s"}',
        b'{"messages":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
)  # fmt: skip
def test_a_body_of_another_shape_is_left_alone(raw: bytes) -> None:
    found = places_of(raw)
    assert found is None or found.system() == []


def test_what_stands_twice_is_marked_where_it_holds() -> None:
    """Of two members of one name the last one is read, by the service as here."""
    raw = b'{"system":"one","system":"two"}'
    assert json.loads(apply(raw, places(raw).system()))["system"][0]["text"] == "two"


def test_splices_may_come_in_any_order() -> None:
    assert apply(b"abc", [Splice(2, b"Y"), Splice(0, b"X"), Splice(3, b"Z")]) == b"XabYcZ"


_words = st.text(max_size=12) | st.sampled_from(["cache_control", '"', "\\", "}]", "\u2028", "日本"])
_blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, _words),
    st.builds(lambda text: {"type": "tool_use", "id": "i", "name": "n", "input": {text: text}}, _words),
    st.builds(lambda text: {"type": "tool_result", "tool_use_id": "i", "content": text}, _words),
    st.just(THOUGHT),
)
_contents = _words | st.lists(_blocks, max_size=4)
_messages = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant"]),
        _contents,
    ),
    max_size=4,
)
_systems = st.lists(st.builds(lambda text: {"type": "text", "text": text}, _words), max_size=3) | _words


@given(
    system=_systems,
    messages=_messages,
    names=st.lists(_words, max_size=3),
    indent=st.sampled_from([None, 1]),
    escaped=st.booleans(),
)
def test_any_body_keeps_its_bytes_and_its_meaning(
    system: Any, messages: Any, names: Any, indent: Any, escaped: Any
) -> None:
    """Taking out what was put in gives the received bytes; reading both gives the same prompt."""
    value = {
        "model": "m",
        "system": system,
        "messages": messages,
        "tools": [{"name": name} for name in names],
    }
    raw = json.dumps(value, indent=indent, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    splices = all_of(raw)
    made = apply(raw, splices)
    assert all(one.offset <= two.offset for one, two in pairwise(sorted(splices)))
    assert taken_out(made, splices) == raw
    assert bare(strict(made)) == bare(value)
    dialect = for_route("POST", "/v1/messages")
    assert dialect is not None
    assert dialect.read(made, "b").prefixes == dialect.read(raw, "b").prefixes
