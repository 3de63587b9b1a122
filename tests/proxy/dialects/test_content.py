"""What is content and what is not: the same in every spelling, different where a template could print it."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.dialects.base import UnparsedError
from tests.support.requests import CHAT, MESSAGES, OLLAMA, dialect_of, dump, read, texts

TOOL = {"name": "read", "description": "Reads", "parameters": {"type": "object", "properties": {"p": {}}}}
PNG = base64.b64encode(b"\x89PNG picture").decode()


def chat(*messages, **more):
    return read(CHAT, model="m", messages=list(messages), **more)


def claude(*messages, **more):
    return read(MESSAGES, model="m", messages=list(messages), **more)


def same(one, other):
    return one.request_hash == other.request_hash


def user(content):
    return {"role": "user", "content": content}


def test_a_string_equals_one_text_block():
    """Claude Code switches a message from blocks to a string when its cache marker moves on."""
    block = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    assert same(claude(user("hi")), claude(user([block])))
    assert same(chat(user("hi")), chat(user([{"type": "text", "text": "hi"}])))


def test_two_blocks_are_not_their_joined_text():
    """Templates join blocks in their own ways."""
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert not same(chat(user("ab")), chat(user(blocks)))


def test_markers_ids_and_the_order_of_envelope_keys_are_no_content():
    """Codex and OpenClaw change all three between turns."""
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"p":1}'}}
    renamed = {"function": {"arguments": '{"p":1}', "name": "read"}, "id": "call1", "type": "function"}
    one = chat({"role": "assistant", "content": None, "tool_calls": [call]}, tools=[])
    other = chat({"tool_calls": [renamed], "role": "assistant"})
    assert same(one, other)
    marked = {"role": "user", "content": "x", "cache_control": {"type": "ephemeral"}}
    assert same(chat(user("x")), chat(marked))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {"type": "search_result", "source": "u", "title": "t", "content": [{"type": "text", "text": "AAAA"}]},
        {"type": "server_tool_use", "id": "s", "name": "n", "input": {"q": "AAAA"}},
        {"type": "tool_result", "content": [{"type": "tool_reference", "tool_name": "AAAA"}]},
        {"type": "image", "image": "file:///AAAA.png"},
        {"image_url": {"url": "http://h/AAAA.png"}},
        {"type": "of_tomorrow", "payload": {"x": ["AAAA"]}, "text": None},
        {"type": "long", "payload": "AAAA" + "x" * 5_000},
    ],
    ids=lambda block: block.get("type", "none"),
)
def test_blocks_that_no_template_here_is_known_to_print_are_content_all_the_same(block):
    """Two requests that differ in nothing else are two; markers and ids stay none."""
    one, beside = {**block, "cache_control": {"type": "ephemeral"}, "id": "i"}, {"type": "text", "text": "é"}
    other = json.loads(json.dumps(block).replace("AAAA", "AAAB"))
    for read_ in (chat, claude):
        assert same(read_(user([block])), read_(user([one])))
        assert not same(read_(user([block])), read_(user([other])))
        assert not same(read_(user([beside, block])), read_(user([beside, other])))
        assert not same(read_(user([beside, block])), read_(user([beside])))


def test_spaces_between_members_are_no_content():
    """Only one agent (vibe) writes them."""
    body = {"model": "m", "messages": [user("hi")], "stream": True}
    dialect = dialect_of(CHAT)
    assert same(dialect.read(dump(body), "b"), dialect.read(dump(body, spaced=True), "b"))


def test_escaped_and_raw_characters_are_the_same_text():
    """Only the decoded text reaches a template."""
    dialect = dialect_of(CHAT)
    one = dialect.read(b'{"model":"m","messages":[{"role":"user","content":"\\u00e9\\/"}]}', "b")
    assert same(one, dialect.read('{"model":"m","messages":[{"role":"user","content":"é/"}]}'.encode(), "b"))


@pytest.mark.parametrize("path", [CHAT, OLLAMA, MESSAGES])
def test_the_key_order_of_arguments_is_content(path):
    """Templates print them as given."""

    def turn(first, second):
        if path == MESSAGES:
            block = {"type": "tool_use", "id": "t", "name": "f", "input": {first: 1, second: 2}}
            message = {"role": "assistant", "content": [block]}
        else:
            arguments = {first: 1, second: 2} if path == OLLAMA else dump({first: 1, second: 2}).decode()
            call = {"function": {"name": "f", "arguments": arguments}}
            message = {"role": "assistant", "content": "", "tool_calls": [call]}
        return read(path, model="m", messages=[user("go"), message])

    assert not same(turn("a", "b"), turn("b", "a"))
    assert texts(path, turn("a", "b"))["messages[1].tool_calls[0].arguments"] == '{"a":1,"b":2}'
    assert texts(path, turn("a", "b"))["messages[1].tool_calls[0].name"] == "f"


def test_the_name_of_a_tool_result_is_content():
    """Hermes drops it on resume, and some templates print it."""
    result = {"role": "tool", "tool_call_id": "c", "content": "x"}
    named = chat(user("go"), result | {"name": "read"})
    assert not same(named, chat(user("go"), result))
    assert texts(CHAT, named)["messages[1].name"] == "read"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_has_one_path_whatever_it_is_called(field):
    """Servers and clients name it in three ways."""
    found = texts(CHAT, chat(user("go"), {"role": "assistant", "content": "A", field: "R"}))
    assert found["messages[1].reasoning"] == "R"
    assert found["messages[1]"] == "A"


def test_thinking_blocks_are_reasoning_and_calls_are_calls():
    """An Anthropic turn with thinking, text and a call has the paths of every other dialect."""
    blocks = [
        {"type": "thinking", "thinking": "R", "signature": "s"},
        {"type": "text", "text": "A"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}},
    ]
    found = texts(MESSAGES, claude(user("go"), {"role": "assistant", "content": blocks}))
    assert found == {
        "messages[0]": "go",
        "messages[1].reasoning": "R",
        "messages[1]": "A",
        "messages[1].tool_calls[0].name": "f",
        "messages[1].tool_calls[0].arguments": '{"x":1}',
    }


def test_several_blocks_are_counted_as_received():
    """`content[k]` is the index a reader of the request would count."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "out"}]}
    prompt = claude(user([result, {"type": "text", "text": "and now?"}]))
    assert texts(MESSAGES, prompt) == {"messages[0].content[0]": "out", "messages[0].content[1]": "and now?"}


def test_a_turn_of_tool_results_alone_is_the_tools():
    """Engines that drop thinking do so at a new user turn, not at a tool result."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": "out"}
    assert claude(user([result])).chunks[-1].role == "tool"
    assert claude(user([result, {"type": "text", "text": "x"}])).chunks[-1].role == "user"


def test_media_count_by_their_decoded_bytes():
    """The same picture as a data URL, as Anthropic's source or with other padding is the same content."""
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    plain = {"type": "image_url", "image_url": f"data:image/x;base64,{PNG}"}
    source = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    prompts = [chat(user([url])), chat(user([plain])), claude(user([source]))]
    assert len({prompt.chunks[-1].hash for prompt in prompts}) == 1
    assert all(prompt.has_media and prompt.chunks[-1].media == 1 for prompt in prompts)
    assert prompts[0].chunks[-1].size == 0


def test_other_pictures_and_addresses_are_other_content():
    """An address counts as itself; it is not fetched."""
    one = chat(user([{"type": "image_url", "image_url": {"url": "http://x/a.png"}}]))
    other = chat(user([{"type": "image_url", "image_url": {"url": "http://x/b.png"}}]))
    assert not same(one, other)


def test_ollamas_images_are_media():
    """They are bare base64 beside the content."""
    prompt = read(OLLAMA, model="m", messages=[user("see") | {"images": [PNG]}])
    assert prompt.has_media
    assert prompt.chunks[-1].media == 1


def test_an_item_of_unknown_shape_is_one_json_text():
    """A change in it is seen, though not named."""
    prompt = chat(user({"odd": [1, 2]}), user("x"))
    assert texts(CHAT, prompt)["messages[0]"] == '{"role":"user","content":{"odd":[1,2]}}'
    assert not same(prompt, chat(user({"odd": [1, 3]}), user("x")))


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":"text"}',
        b'{"messages":[1]}',
        b'{"messages":{}}',
        b'{"messages":[{"role":"user"}',
        b"[]",
        b"\x1f\x8b",
    ],
)
def test_what_is_not_the_json_of_the_route_is_unparsed(body):
    """It is forwarded and logged all the same."""
    with pytest.raises(UnparsedError):
        dialect_of(CHAT).read(body, "b")


def test_hashes_start_from_backend_and_model():
    """Another backend or model shares nothing, though the content is the same."""
    body = dump({"model": "m", "messages": [user("x")]})
    dialect = dialect_of(CHAT)
    one, other = dialect.read(body, "a"), dialect.read(body, "b")
    assert one.chunks[0].hash == other.chunks[0].hash
    assert one.prefixes != other.prefixes
    assert len(one.prefixes) == len(one.chunks)


def test_appending_a_message_keeps_every_earlier_prefix():
    """That is what a prefix hash is for."""
    before = chat(
        user("a"), {"role": "assistant", "content": "b"}, tools=[{"type": "function", "function": TOOL}]
    )
    after = chat(
        user("a"),
        {"role": "assistant", "content": "b"},
        user("c"),
        tools=[{"type": "function", "function": TOOL}],
    )
    assert after.prefixes[: len(before.prefixes)] == before.prefixes
    assert after.request_hash == after.prefixes[-1]
    assert after.first_hash == before.first_hash


@given(st.text(max_size=50))
def test_sizes_count_normalised_bytes(text):
    """Whatever escapes the request used."""
    prompt = chat(user("x" + text))
    assert prompt.chunks[-1].size == len(("x" + text).encode("utf-8", "replace"))


def test_chinese_is_counted_as_wide():
    """Tokens per byte differ, so the estimate needs to know."""
    chunk = chat(user("ab中文")).chunks[-1]
    assert (chunk.size, chunk.wide) == (8, 6)
