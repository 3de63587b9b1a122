"""Chunks in template order with their paths, and what a body says besides text."""

import json

import pytest

from services.proxy.prompt import Engine
from tests.support.requests import (
    CHAT,
    GENERATE,
    MESSAGES,
    OLLAMA,
    RESPONSES,
    dialect_of,
    dump,
    read,
    sections,
    texts,
)

USER = {"role": "user", "content": "go"}


def kinds(prompt):
    return [chunk.kind for chunk in prompt.chunks]


def test_chunks_come_in_the_order_of_templates_not_of_the_body():
    """Every agent writes messages before tools."""
    prompt = read(
        CHAT,
        messages=[{"role": "system", "content": "S"}, USER],
        tools=[{"name": "f"}],
        model="m",
        reasoning_effort="high",
    )
    assert kinds(prompt) == ["params", "tools", "system", "message"]
    assert prompt.model == "m"
    assert prompt.message_count == 2
    assert prompt.chunks[-1].index == 1


def test_one_system_text_is_system_and_several_are_numbered():
    """Blocks of one message and several leading messages are counted alike."""
    one = read(CHAT, messages=[{"role": "developer", "content": "A"}, USER])
    assert texts(CHAT, one) == {"system": "A", "messages[1]": "go"}
    two = read(
        CHAT, messages=[{"role": "system", "content": "A"}, {"role": "developer", "content": "B"}, USER]
    )
    assert texts(CHAT, two) == {"system[0]": "A", "system[1]": "B", "messages[2]": "go"}
    blocks = read(
        MESSAGES, system=[{"type": "text", "text": "A"}, {"type": "text", "text": "B"}], messages=[USER]
    )
    assert texts(MESSAGES, blocks) == {"system[0]": "A", "system[1]": "B", "messages[0]": "go"}
    assert two.system_hash == blocks.system_hash


def test_a_system_string_equals_one_block():
    """In the API's own field too."""
    one = read(MESSAGES, system="A", messages=[USER])
    other = read(
        MESSAGES,
        system=[{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}],
        messages=[USER],
    )
    assert one.system_hash == other.system_hash is not None


def test_claude_codes_in_band_system_message_is_a_message():
    """Only what leads is system text; indices count the received array."""
    messages = [USER, {"role": "system", "content": "env"}, {"role": "user", "content": "more"}]
    prompt = read(MESSAGES, system="S", messages=messages)
    assert texts(MESSAGES, prompt) == {
        "system": "S",
        "messages[0]": "go",
        "messages[1]": "env",
        "messages[2]": "more",
    }
    leading = read(MESSAGES, system="S", messages=[{"role": "system", "content": "env"}, USER])
    assert texts(MESSAGES, leading) == {"system[0]": "S", "system[1]": "env", "messages[1]": "go"}
    assert leading.first_hash == prompt.first_hash


def test_codexs_developer_items_are_its_system_text():
    """It sends no `instructions`; items have ids that are no content."""

    def codex(number):
        text = [{"type": "input_text", "text": "rules"}]
        return read(
            RESPONSES,
            model="m",
            input=[
                {"type": "message", "role": "developer", "id": f"msg_{number}", "content": text},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
                {
                    "type": "reasoning",
                    "id": f"rs_{number}",
                    "summary": [{"type": "summary_text", "text": "R"}],
                },
                {"type": "function_call", "call_id": f"c{number}", "name": "sh", "arguments": '{"a": 1}'},
                {"type": "function_call_output", "call_id": f"c{number}", "output": "done"},
            ],
        )

    prompt = codex(1)
    assert texts(RESPONSES, prompt) == {
        "system": "rules",
        "input[1]": "go",
        "input[2].reasoning": "R",
        "input[3].name": "sh",
        "input[3].arguments": '{"a": 1}',
        "input[4]": "done",
    }
    assert prompt.request_hash == codex(2).request_hash
    assert [chunk.role for chunk in prompt.chunks[1:]] == ["user", "assistant", "assistant", "tool"]


def test_responses_input_may_be_a_text():
    """It is one user message, after the instructions."""
    prompt = read(RESPONSES, model="m", instructions="S", input="go")
    assert texts(RESPONSES, prompt) == {"system": "S", "input[0]": "go"}
    listed = read(RESPONSES, model="m", instructions="S", input=[USER])
    assert prompt.request_hash == listed.request_hash


def test_items_of_other_types_are_content_without_their_ids():
    """A web search that is replayed with another id is the same item."""

    def search(number):
        item = {
            "type": "web_search_call",
            "id": f"ws_{number}",
            "status": "completed",
            "action": {"query": "q"},
        }
        return read(RESPONSES, model="m", input=[item])

    assert search(1).request_hash == search(2).request_hash


PARAMS = {
    "reasoning_effort": "high",
    "reasoning": {"effort": "low", "summary": "auto"},
    "think": True,
    "thinking": {"type": "adaptive"},
    "chat_template_kwargs": {"enable_thinking": False, "b": 1},
    "tool_choice": "auto",
    "response_format": {"type": "json_object"},
    "format": "json",
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "output_config": {"effort": "medium"},
}


def test_params_are_those_of_the_contract_and_only_those_present():
    """Samplers and null values are no template inputs."""
    prompt = read(CHAT, messages=[USER], temperature=1, top_p=0.5, store=False, tool_choice=None, think=False)
    assert texts(CHAT, prompt) == {"params.think": "false", "messages[0]": "go"}
    assert set(texts(CHAT, read(CHAT, messages=[USER], **PARAMS))) == {
        "params.reasoning_effort",
        "params.reasoning.effort",
        "params.think",
        "params.thinking",
        "params.chat_template_kwargs.enable_thinking",
        "params.chat_template_kwargs.b",
        "params.tool_choice",
        "params.response_format",
        "params.format",
        "params.text.format",
        "params.output_config",
        "messages[0]",
    }
    assert read(CHAT, messages=[USER]).params_hash is None


def test_names_of_params_may_hold_anything():
    """They come from bodies, and still read back."""
    odd = 'a"b\\c.é'
    assert f"params.chat_template_kwargs.{odd}" in texts(
        CHAT, read(CHAT, messages=[USER], chat_template_kwargs={odd: 1})
    )


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        ("5m", 300.0), ("24h", 86400.0), ("1h30m", 5400.0), ("-1s", -1.0), ("300ms", 0.3),
        ("1.5h", 5400.0),
        ("0", 0.0), (0, 0.0), (-1, -1.0), (3600, 3600.0), ("5 m", None), ("", None), (None, None),
        ("m", None),
    ],
)  # fmt: skip
def test_keep_alive_is_seconds_or_a_go_duration(sent, seconds):
    """Negative never unloads; what Go would not parse is unset."""
    assert read(OLLAMA, model="m", messages=[USER], keep_alive=sent).engine.keep_alive_s == seconds


def test_ollamas_load_affecting_options_are_kept_as_sent():
    """Sampling options reload nothing; `shift` does."""
    options = {
        "num_ctx": 8192,
        "use_mmap": False,
        "num_keep": 4,
        "temperature": 0.5,
        "num_predict": 20,
        "top_k": 1,
    }
    engine = read(OLLAMA, model="m", messages=[USER], options=options, shift=False).engine
    assert engine.options == {"num_ctx": 8192, "use_mmap": False, "num_keep": 4, "shift": False}
    assert (engine.temperature, engine.max_tokens) == (0.5, 20)


def test_options_on_openai_routes_do_not_count():
    """Hermes sends `num_ctx` there, and Ollama ignores it."""
    assert read(CHAT, model="m", messages=[USER], options={"num_ctx": 8192}).engine.options == {}


@pytest.mark.parametrize(
    ("path", "body"),
    [(OLLAMA, {"messages": []}), (OLLAMA, {}), (GENERATE, {}), (GENERATE, {"prompt": ""})],
)
def test_ollama_bodies_without_a_prompt_load_or_unload(path, body):
    """They are management, and there is nothing to hash in them."""
    load = read(path, model="m", keep_alive="10m", **body)
    assert (load.kind, load.engine.load, load.engine.unload, load.chunks) == ("management", True, False, [])
    unload = read(path, model="m", keep_alive=0, **body)
    assert (unload.engine.load, unload.engine.unload) == (False, True)


def test_ollama_streams_unless_told_not_to():
    """The other way round than OpenAI."""
    assert read(OLLAMA, model="m", messages=[USER]).stream
    assert not read(OLLAMA, model="m", messages=[USER], stream=False).stream
    assert not read(CHAT, model="m", messages=[USER]).stream


def test_limits_and_switches_are_read_where_each_api_has_them():
    """Titles are known by their small limits, disabled caches by their switch."""
    assert read(CHAT, messages=[USER], max_completion_tokens=7, max_tokens=9).engine.max_tokens == 7
    assert read(RESPONSES, input="x", max_output_tokens=7).engine.max_tokens == 7
    assert read("/completion", prompt="x", n_predict=0, cache_prompt=False).engine == Engine(
        cache_prompt=False, max_tokens=0
    )


def test_hints_say_who_sends():
    """Ids as received; names of tools; the first words of the system text."""
    user_id = json.dumps({"device_id": "d", "session_id": "s"})
    claude = read(
        MESSAGES,
        messages=[USER],
        metadata={"user_id": user_id},
        system=[{"type": "text", "text": "You are Claude Code\nand more"}],
        tools=[{"name": "Read"}, {"type": "web_search"}],
    )
    assert claude.hints.user_id == user_id
    assert claude.hints.system_head == "You are Claude Code\nand more"
    assert claude.hints.tool_names == ("Read", "web_search")
    codex = read(RESPONSES, input="x", prompt_cache_key="k", client_metadata={"thread_id": "t", "n": 1})
    assert codex.hints.prompt_cache_key == "k"
    assert codex.hints.client_metadata == {"thread_id": "t"}


@pytest.mark.parametrize(
    "text", ["You are Hermes. " * 100, "Ты — агент. " * 300, "日" * 3000, 'a"\\\n' * 500, "🌍" * 900]
)
def test_the_head_of_a_long_system_text_is_cut_at_200_characters(text):
    """Without decoding all of it, and without breaking a character."""
    for ascii_only in (True, False):
        body = json.dumps(
            {"messages": [{"role": "system", "content": text}]}, ensure_ascii=ascii_only
        ).encode()
        head = dialect_of(CHAT).read(body, "b").hints.system_head
        assert text.startswith(head)
        assert len(head) == 200


def test_completions_have_one_prompt_chunk():
    """A list of one text is that text; tokens are JSON."""
    for path in ("/completion", "/v1/completions", GENERATE):
        prompt = read(path, model="m", prompt="once")
        assert kinds(prompt) == ["prompt"]
        assert sections(path, prompt) == [("prompt", "text", b"once")]
    one = read("/v1/completions", model="m", prompt="once")
    assert one.request_hash == read("/v1/completions", model="m", prompt=["once"]).request_hash
    assert sections("/completion", read("/completion", prompt=[1, 2])) == [("prompt", "json", b"[1,2]")]


def test_generate_has_a_system_chunk_before_its_prompt():
    """And keeps apart what else makes up its text."""
    prompt = read(GENERATE, model="m", system="S", prompt="P", suffix="Z", template="T", images=["AAAA"])
    assert kinds(prompt) == ["system", "prompt"]
    assert prompt.has_media
    found = texts(GENERATE, prompt)
    assert {key: found[key] for key in ("system", "prompt", "prompt.suffix", "prompt.template")} == {
        "system": "S", "prompt": "P", "prompt.suffix": "Z", "prompt.template": "T",
    }  # fmt: skip


def test_embeddings_are_read_for_their_model_alone():
    """Their texts are no prompt."""
    prompt = read("/api/embed", model="m", input=["a"], keep_alive=0, options={"num_ctx": 512})
    assert (prompt.kind, prompt.model, prompt.chunks) == ("embedding", "m", [])
    assert (prompt.engine.keep_alive_s, prompt.engine.options) == (0.0, {"num_ctx": 512})
    assert read("/v1/embeddings", model="m", input="a").kind == "embedding"


def test_a_chunk_keeps_the_received_json_it_was_cut_from():
    """Odd spaces, odd numbers and unknown members included."""
    body = b'{ "messages" : [ {"role":"user", "x": 1.0 ,"content":"a"} ] }'
    assert dialect_of(CHAT).read(body, "b").chunks[0].raw == b'{"role":"user", "x": 1.0 ,"content":"a"}'
    assert dump(USER) == read(CHAT, messages=[USER]).chunks[0].raw
