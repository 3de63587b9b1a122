"""Tool definitions: paths, hashes in order and without it, and shapes without names or with tools inside."""

from services.proxy.dialects.tools import read_tools, tools_sections
from tests.support.requests import CHAT, MESSAGES, RESPONSES, dump, read

SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}}


def chat_tool(name, **more):
    return {
        "type": "function",
        "function": {"name": name, "description": f"{name}s", "parameters": SCHEMA} | more,
    }


def paths(tools):
    return {section.path: section.text.decode() for section in tools_sections(dump(tools))}


def test_all_apis_have_the_same_paths_and_hashes():
    """Agents on different APIs share their tools, if the texts are the same."""
    chat = [chat_tool("read")]
    messages = [{"name": "read", "description": "reads", "input_schema": SCHEMA}]
    responses = [{"type": "function", "name": "read", "description": "reads", "parameters": SCHEMA}]
    expected = {
        "tools[0].name": "read",
        "tools[0].description": "reads",
        "tools[0].parameters": dump(SCHEMA).decode(),
    }
    assert paths(chat) == paths(messages) == paths(responses) == expected
    assert len({read_tools(dump(tools)).hash for tools in (chat, messages, responses)}) == 1


def test_another_order_changes_one_hash_and_not_the_other():
    """`tools_hash` is ordered, `tools_set_hash` is not."""
    one = read_tools(dump([chat_tool("read"), chat_tool("write")]))
    other = read_tools(dump([chat_tool("write"), chat_tool("read")]))
    assert one.hash != other.hash
    assert one.set_hash == other.set_hash
    assert (one.names, one.length) == (("read", "write"), 2)


def test_the_key_order_inside_a_schema_is_content():
    """One agent (vibe) swaps two keys when it resumes; templates print them as given."""
    swapped = {"properties": SCHEMA["properties"], "type": "object"}
    assert (
        read_tools(dump([chat_tool("a")])).hash != read_tools(dump([chat_tool("a", parameters=swapped)])).hash
    )


def test_markers_and_the_order_of_a_definitions_own_keys_are_no_content():
    """`cache_control` sits on the last tool, wherever that is."""
    plain = {"name": "a", "description": "d", "input_schema": SCHEMA}
    marked = {"input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}, "description": "d", "name": "a"}
    assert read_tools(dump([plain])).hash == read_tools(dump([marked])).hash


def test_tools_without_a_name_and_nested_ones_are_ordinary():
    """Codex sends both."""
    inner = {"type": "function", "name": "click", "description": "clicks", "parameters": {}}
    tools = [{"type": "web_search"}, {"type": "namespace", "name": "browser", "tools": [inner]}]
    found = paths(tools)
    assert found["tools[1].name"] == "browser"
    assert found["tools[1].tools[0].name"] == "click"
    assert found["tools[1].tools[0].parameters"] == "{}"
    assert found["tools[0]"] == '{"type":"web_search"}'
    assert read_tools(dump(tools)).names == ("web_search", "browser")


def test_other_members_of_a_definition_are_content():
    """A template that prints definitions whole prints them too."""
    assert read_tools(dump([chat_tool("a")])).hash != read_tools(dump([chat_tool("a", strict=True)])).hash


def test_sections_are_labelled_with_their_tool():
    """So that a moved tool is still the same tool."""
    labels = {section.label for section in tools_sections(dump([chat_tool("read"), {"type": "web_search"}]))}
    assert labels == {"read", "web_search"}


def test_no_tools_have_no_hash():
    """Absent, null and an empty list are the same."""
    for path, tools in ((CHAT, []), (MESSAGES, None), (RESPONSES, [])):
        name = "input" if path == RESPONSES else "messages"
        prompt = read(path, model="m", tools=tools, **{name: [{"role": "user", "content": "x"}]})
        assert (prompt.tools_hash, prompt.tools_set_hash, prompt.tool_count) == (None, None, 0)


def test_a_custom_tool_of_chat_completions_has_its_name_and_description():
    """They stand below `custom`, as those of a function below `function`."""
    tool = {"type": "custom", "custom": {"name": "sql", "description": "runs", "format": {"type": "text"}}}
    found = paths([tool])
    assert (found["tools[0].name"], found["tools[0].description"]) == ("sql", "runs")
    assert found["tools[0]"] == '{"format":{"type":"text"},"type":"custom"}'
    assert read_tools(dump([tool])).names == ("sql",)
