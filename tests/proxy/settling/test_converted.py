"""Requests of other APIs as the chats that servers make of them."""

from services.proxy.settling.converted import chat_of
from tests.support.talk import claude, flat, function


def test_system_blocks_are_one_text_and_the_billing_token_is_pinned():
    """llama-server overwrites the token, so two that differ render alike."""
    head = "x-anthropic-billing-header: cc_version=2.1.90; cc_entrypoint=cli; cch={};"
    blocks = [
        [{"type": "text", "text": text} for text in (head.format(cch), "Go.")] for cch in ("1a2b3", "99999")
    ]
    made = [chat_of([system], [], [], pinned=True) for system in blocks]
    assert made[0] == made[1]
    assert made[0]["messages"][0]["content"].endswith("cch=fffff;Go.")


def test_a_turn_of_blocks_becomes_text_calls_and_thoughts():
    turn = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "Reading."},
            {"type": "tool_use", "id": "t1", "name": "read", "input": {"b": 1, "a": "é"}},
        ],
    }
    (made,) = chat_of([], [turn], [])["messages"]
    assert made["content"] == [{"type": "text", "text": "Reading."}]
    assert made["reasoning_content"] == "hm"
    assert made["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"b":1,"a":"é"}'}


def test_content_that_is_no_block_is_passed_over():
    """A client may send anything; the server that got it has judged it already."""
    turn = {"role": "assistant", "content": ["odd", {"type": "tool_use", "name": "read", "input": {}}]}
    (made,) = chat_of([], [turn], [])["messages"]
    assert made["tool_calls"][0]["function"]["name"] == "read"
    assert chat_of([], [{"role": "user", "content": ["odd"]}], [])["messages"][0]["content"] == ["odd"]


def test_results_are_turns_of_their_own_behind_the_text_beside_them():
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "file"}]}
    turn = {"role": "user", "content": [result, {"type": "text", "text": "and?"}]}
    made = chat_of([], [turn], [])["messages"]
    assert [m["role"] for m in made] == ["user", "tool"]
    assert made[1] == {"role": "tool", "tool_call_id": "t1", "content": "file"}


def test_an_image_becomes_a_data_address():
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
    (made,) = chat_of([], [{"role": "user", "content": [block]}], [])["messages"]
    assert made["content"] == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}]


def test_tools_are_nested_and_those_of_the_server_left_out():
    assert chat_of([], [], [claude("read"), {"type": "web_search_20250305", "name": "web"}]) == {
        "messages": [],
        "tools": [function("read")],
    }
    assert chat_of([], [], [flat("read"), {"type": "web_search"}])["tools"] == [function("read")]


def test_items_of_one_turn_are_one_turn():
    """Thoughts, calls and their outputs, in the order in which the model made them."""
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "function_call", "name": "a", "arguments": "{}", "call_id": "1"},
        {"type": "function_call", "name": "b", "arguments": "{}", "call_id": "2"},
        {"type": "function_call_output", "call_id": "1", "output": "one"},
    ]
    made = chat_of(["Rules.", {"role": "developer", "content": "More."}], items, [])["messages"]
    assert [m["role"] for m in made] == ["system", "developer", "user", "assistant", "tool"]
    assert made[3]["reasoning_content"] == "hm"
    assert [call["function"]["name"] for call in made[3]["tool_calls"]] == ["a", "b"]
    assert made[4] == {"role": "tool", "tool_call_id": "1", "content": "one"}
