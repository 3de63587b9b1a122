"""The hot path gives what the general way gives, for every message and every tool."""

import json
from hashlib import sha1

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.proxy.chunking import cut
from services.proxy.dialects.build import message_chunk, number_system
from services.proxy.dialects.normal import digest
from services.proxy.dialects.tools import read_tools, tool_sections
from tests.support.requests import CHAT, MESSAGES, OLLAMA, RESPONSES, dialect_of

text = st.text(max_size=12) | st.sampled_from(["", "a\nb", '"q"', "中", "\\", "中\\u中/\x1b", "é\n" * 99])
optional = st.none() | text
arguments = text | st.dictionaries(text, text, max_size=2) | st.none() | st.integers()
calls = st.lists(
    st.builds(
        lambda name, value, odd: {"id": "c"} if odd else {"function": {"name": name, "arguments": value}},
        optional,
        arguments,
        st.just(False) | st.booleans(),
    ),
    max_size=3,
)
blocks = st.lists(
    st.one_of(
        st.builds(
            lambda kind, value: {"type": kind, "text": value}, st.sampled_from(["text", "input_text"]), text
        ),
        st.builds(lambda value: {"type": "thinking", "thinking": value}, text),
        st.builds(lambda value: {"type": "redacted_thinking", "data": value}, text),
        st.builds(lambda name, value: {"type": "tool_use", "name": name, "input": value}, text, arguments),
        st.builds(lambda value: {"type": "tool_result", "content": value}, text),
        st.builds(lambda value: {"type": "tool_result", "content": [{"type": "text", "text": value}]}, text),
        st.just({"type": "image", "source": {"data": "AAAA"}}),
        st.just({"type": "odd", "x": 1}),
    ),
    max_size=4,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "User", "odd", ""])},
    optional={
        "content": optional | blocks | st.integers(),
        "reasoning_content": optional,
        "reasoning": optional,
        "name": optional,
        "tool_calls": calls | st.none(),
        "function_call": st.fixed_dictionaries({"name": text, "arguments": text}),
        "refusal": optional,
        "images": st.just(["AAAA"]),
    },
)
responses_items = st.one_of(
    messages,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["function_call", "custom_tool_call"]), "name": optional},
        optional={"arguments": arguments, "input": text},
    ),
    st.fixed_dictionaries({"type": st.just("function_call_output"), "output": text | blocks}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "summary": blocks}),
)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, OLLAMA, RESPONSES])
def test_messages_come_out_as_by_their_sections(path):
    """Hash, sizes, role and media, whichever shape the message has."""
    dialect = dialect_of(path)

    @settings(max_examples=200, deadline=None)
    @given(st.lists(responses_items if path == RESPONSES else messages, max_size=3))
    def check(found):
        raws = cut.elements(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
        general = [message_chunk(i, digest(*dialect.opaque(raw)), raw) for i, raw in enumerate(raws)]
        assert dialect.chunks(raws, 0, cut.UNKNOWN) == general

    check()


schema = st.dictionaries(text, text, max_size=2)
tools = st.one_of(
    st.fixed_dictionaries({"name": text, "description": text, "input_schema": schema}),
    st.fixed_dictionaries({"type": st.just("web_search")}),
    st.builds(
        lambda name, about, value, extra: {
            "type": "function",
            "function": {"name": name, "description": about, "parameters": value} | extra,
        },
        text,
        text,
        schema,
        st.sampled_from([{}, {"strict": True}]),
    ),
    st.builds(
        lambda name, about, value: {
            "type": "function",
            "name": name,
            "description": about,
            "parameters": value,
        },
        text,
        text,
        schema,
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(tools, min_size=1, max_size=3))
def test_tools_come_out_as_by_their_sections(found):
    """Whether a definition is common or odd."""
    raw = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
    hashes = [digest("tool", tool_sections("", item)) for item in cut.elements(raw)]
    known = read_tools(raw)
    assert (known.size, known.wide) == (sum(d.size for d in hashes), sum(d.wide for d in hashes))
    assert known.hash == sha1(b"tools" + b"".join(d.hash for d in hashes)).digest()


spellings = st.lists(
    st.sampled_from(["a", "/", "\\", '"', "\n", "\x1b", "u", "é", "中", "🌍", "\ufffd"]).flatmap(
        lambda char: st.tuples(
            st.just(char),
            st.sampled_from(
                [
                    json.dumps(char)[1:-1],
                    json.dumps(char, ensure_ascii=False)[1:-1],
                    json.dumps(char, ensure_ascii=False)[1:-1].replace("/", "\\/"),
                    json.dumps(char)[1:-1].replace("\\u00e9", "\\u00E9").replace("\\n", "\\u000a"),
                ]
            ),
        )
    ),
    max_size=5,
)
shapes = st.sampled_from(
    [
        '{"role":"user","content":"%s"}',
        '{"role":"user","content":[{"type":"text","text":"%s"}]}',
        '{"content" : "%s", "role": "user", "id": "中"}',
        '{"role":"user","content":"%s","name":"","refusal":""}',
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(spellings, shapes), min_size=2, max_size=2), st.sampled_from([CHAT, MESSAGES]))
def test_hashes_are_equal_where_and_only_where_the_decoded_texts_are(pair, path):
    """Whether characters come raw or escaped, in a string or a block, beside ASCII or not."""
    bodies = ['{"messages":[%s]}' % (shape % "".join(s for _, s in chars)) for chars, shape in pair]
    one, two = (dialect_of(path).read(body.encode(), "b").chunks[0] for body in bodies)
    same = ["".join(char for char, _ in chars) for chars, _ in pair]
    assert (one.hash == two.hash) == (same[0] == same[1])
    assert one.hash != two.hash or (one.size, one.wide) == (two.size, two.wide)


@settings(max_examples=300, deadline=None)
@given(st.lists(spellings, min_size=1, max_size=3), st.booleans())
def test_systems_come_out_as_by_their_sections(parts, blocks):
    """One text or several, in the field or in leading messages."""
    dialect = dialect_of(MESSAGES)
    texts = ['"' + "".join([spelt for _, spelt in part]) + '"' for part in parts]
    items = [] if blocks else [f'{{"role":"system","content":{text}}}' for text in texts[1:]]
    several = ",".join(f'{{"type":"text","text":{text}}}' for text in texts)
    field = f"[{several}]" if blocks else texts[0]
    raws = [msgspec.Raw(raw.encode()) for raw in (field, *items)]
    lead, system = dialect.leading(raws[0], raws[1:], cut.UNKNOWN)
    sections = number_system([dialect.system_part(raw) for raw in raws])
    assert lead == len(items)
    assert (system.digest if system else None) == (digest("system", sections) if sections else None)
