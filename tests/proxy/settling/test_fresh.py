"""What a request added to its conversation, as its row keeps it."""

from services.proxy.settling.row import record_of
from tests.support.pipeline import Pipeline

SYSTEM = {"role": "system", "content": "You keep lists. " * 20}
ASK = {"role": "user", "content": "What is in the folder?"}


def called(name: str, arguments: str, call_id: str) -> dict:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(text: str, call_id: str) -> dict:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


async def added(pipeline: Pipeline, *messages: dict) -> list[str]:
    flow = await pipeline.send({"model": "m", "messages": list(messages)})
    return record_of(flow).new_chunks or []


async def test_a_first_request_adds_all_and_the_next_only_what_is_new():
    """Letter, hash and size; the system prompt is not counted again."""
    pipeline = Pipeline()
    first = await added(pipeline, SYSTEM, ASK)
    assert [entry[0] for entry in first] == ["s", "m"]
    assert first[1][13:] == str(len(ASK["content"]))
    second = await added(pipeline, SYSTEM, ASK, {"role": "assistant", "content": "ok"}, ASK)
    assert [entry[0] for entry in second] == ["m", "m"]
    assert second[1] == first[1]


async def test_the_same_call_has_the_same_entry_whatever_its_id_and_session():
    """With the size of the result that followed it; other arguments are another call."""
    pipeline = Pipeline()
    one = await added(pipeline, SYSTEM, ASK, called("list", '{"path":"a"}', "1"), result("x" * 500, "1"))
    two = await added(pipeline, ASK, called("list", '{"path":"a"}', "2"), result("y" * 70, "2"))
    other = await added(pipeline, ASK, called("list", '{"path":"b"}', "3"), result("y" * 70, "3"))
    calls = [next(entry for entry in entries if entry[0] == "c") for entries in (one, two, other)]
    assert calls[0][:13] == calls[1][:13] != calls[2][:13]
    assert (calls[0][13:], calls[1][13:]) == ("500", "70")


async def test_a_repeat_adds_nothing():
    """An exact repeat has no entries."""
    pipeline = Pipeline()
    await added(pipeline, SYSTEM, ASK)
    assert await added(pipeline, SYSTEM, ASK) == []


async def test_results_in_one_message_count_for_the_first_call():
    """Anthropic's shape: the results of a turn are one user message."""
    pipeline = Pipeline("anthropic")
    use = [{"type": "tool_use", "id": "1", "name": "list", "input": {"path": "a"}}]
    back = [{"type": "tool_result", "tool_use_id": "1", "content": "z" * 90}]
    messages = [ASK, {"role": "assistant", "content": use}, {"role": "user", "content": back}]
    flow = await pipeline.send({"model": "m", "max_tokens": 5, "messages": messages}, path="/v1/messages")
    entries = record_of(flow).new_chunks or []
    (call,) = [entry for entry in entries if entry[0] == "c"]
    assert int(call[13:]) >= 90
