"""Each public report of a lost prefix, over real HTTP: the right cause at the right byte (R01 to R42)."""

import time
from typing import Any

import pytest

from tests.support.backend.script import as_json
from tests.support.story import MESSAGES, OLLAMA, NewStory, Story, Told, answered, streamed

pytestmark = pytest.mark.process

RULES = "You are a coding helper. " + "RULES " * 200


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


SYSTEM = message("system", RULES)
U1, A1, U2 = (
    message("user", "Please read the loader. " * 4),
    message("assistant", "ok"),
    message("user", "And now?"),
)
A2, U3 = message("assistant", "ok"), message("user", "One more thing.")


def named(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, "parameters": {}}} for name in names]


def called(arguments: str, **more: Any) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    return message("assistant", None, tool_calls=[call], **more)


RESULT = message("tool", "sunny", tool_call_id="call_1")


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


def where(told: Told, cause: int = 0) -> tuple[str, str, int]:
    found = told.explain["causes"][cause]
    return found["code"], found["at"], found["detail"]["byte_offset"]


def attributed(token: str, version: str = "2.1.90.aaa") -> list[dict[str, Any]]:
    head = f"x-anthropic-billing-header: cc_version={version}; cc_entrypoint=cli; cch={token};"
    return [{"type": "text", "text": head}, {"type": "text", "text": RULES}]


def test_r01_the_billing_block_is_named_with_its_byte(stories: NewStory) -> None:
    """A token that differs on each request breaks the first system block; a stable one does not."""
    story = stories()
    turns = [U1], [U1, A1, U2], [U1, A1, U2, A2, U3]
    a, b, c = (
        story.say(
            {"system": attributed(token), "messages": messages, "max_tokens": 9},
            path=MESSAGES,
            tokens=(400, 0),
        )
        for token, messages in zip(("11111", "22222", "22222"), turns, strict=True)
    )
    assert (a.hit, a.cause) == ("none", None)
    assert (b.cause, b.explain["diverged_at"], b.explain["byte_offset"]) == (
        "client_attribution_token",
        "system[0]",
        74,
    )
    assert b.explain["before"].endswith("cch=11111;")
    assert c.hit == "prefix"
    assert "client_attribution_token" not in c.codes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (attributed("1a2b3"), attributed("9f8e7")),
        (attributed("1a2b3", "2.1.332.a1f"), attributed("1a2b3", "2.1.332.9c0")),
        (attributed("1a2b3", "2.1.90"), attributed("77777", "2.1.181")),
    ],
)
def test_r01_variants_of_the_block(stories: NewStory, old: Any, new: Any) -> None:
    story = stories()
    story.say({"system": old, "messages": [U1]}, path=MESSAGES)
    assert (
        story.say({"system": new, "messages": [U1, A1, U2]}, path=MESSAGES).cause
        == "client_attribution_token"
    )


CLAW = "You are Claw.\n## Current Date & Time\n{}\n## Rules\n" + "r" * 2000


def test_r02_a_clock_in_the_system_prompt(stories: NewStory) -> None:
    story = stories()
    story.say(chat(message("system", CLAW.format("Monday 10:41")), U1))
    told = story.say(chat(message("system", CLAW.format("Monday 10:42")), U1, A1, U2))
    assert where(told) == ("timestamp", "system", 48)
    assert told.explain["equal_after_divergence"] >= 2000
    assert told.cause == "timestamp"
    assert told.explain["advice"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2026-07-09T10:41:05Z", "2026-07-09T10:41:09Z"),
        ("现在是2026年7月9日星期四上午10点41分", "现在是2026年7月9日星期四上午10点42分"),
        ("Thu, 09 Jul 2026 10:41:00 +0000", "Thu, 09 Jul 2026 10:43:00 +0000"),
        ("timestamp 1783593660", "timestamp 1783593725"),
    ],
)
def test_r02_clocks_in_other_shapes(stories: NewStory, old: str, new: str) -> None:
    story = stories()
    story.say(chat(message("system", CLAW.format(old)), U1))
    assert story.say(chat(message("system", CLAW.format(new)), U1, A1, U2)).cause == "timestamp"


def test_r04_all_breakers_are_listed(stories: NewStory) -> None:
    story = stories()
    story.say(chat(message("system", "now 2026-01-01 10:00:01"), U1, tools=named("a", "b")))
    told = story.say(chat(message("system", "now 2026-01-01 10:00:09"), U1, A1, U2, tools=named("b", "a")))
    assert where(told, 0)[:2] == ("tool_reorder", "tools[0]")
    assert where(told, 1) == ("timestamp", "system", 22)


def test_r06_midnight_breaks_once(stories: NewStory) -> None:
    story = stories()
    old, new = (message("system", f"Today: {day}\n{RULES}") for day in ("Thu Jul 9 2026", "Fri Jul 10 2026"))
    story.say(chat(old, U1))
    story.say(chat(old, U1, A1, U2))
    broken = story.say(chat(new, U1, A1, U2, A2, U3))
    after = story.say(chat(new, U1, A1, U2, A2, U3, A2, U1))
    assert broken.cause == "date_rollover"
    assert (after.hit, after.codes) == ("prefix", [])


def test_r09_the_same_tools_in_another_order(stories: NewStory) -> None:
    story = stories()
    story.say(chat(SYSTEM, U1, tools=named("read", "write")))
    second = story.say(chat(SYSTEM, U1, A1, U2, tools=named("write", "read")))
    third = story.say(chat(SYSTEM, U1, A1, U2, A2, U3, tools=named("write", "read")))
    assert where(second) == ("tool_reorder", "tools[0]", 0)
    assert second.detail("tool_reorder")["names"] == ["write"]
    assert (third.hit, third.cause) == ("prefix", None)


def test_r10_a_tool_that_vanishes_and_returns(stories: NewStory) -> None:
    """The odd request in between is not what the next one is compared with."""
    story = stories()
    start = [SYSTEM, U1, message("assistant", "mcp_x says 42"), U2]
    first = story.say(chat(*start, tools=named("read", "mcp_x")))
    scrubbed = [SYSTEM, U1, message("assistant", "[tool gone]"), U2]
    second = story.say(chat(*scrubbed, tools=named("read")))
    third = story.say(chat(*start, A2, U3, tools=named("read", "mcp_x")))
    assert [where(second, 0)[:2], where(second, 1)[:2]] == [
        ("tools_removed", "tools[1]"),
        ("history_rewrite", "messages[2]"),
    ]
    assert second.detail("tools_removed")["names"] == ["mcp_x"]
    assert (third.hit, third.explain["parent_id"], third.cause) == ("prefix", first.id, None)


@pytest.mark.parametrize(
    ("new", "offset"),
    [('{"unit":"c","city":"T"}', 2), ('{"city": "T","unit":"c"}', 8), ('{"city":"T", "unit":"c"}', 12)],
)
def test_r12_arguments_spelt_anew(stories: NewStory, new: str, offset: int) -> None:
    story = stories()
    story.say(chat(SYSTEM, U1, called('{"city":"T","unit":"c"}'), RESULT))
    told = story.say(chat(SYSTEM, U1, called(new), RESULT, A2, U3))
    assert where(told) == ("tool_args_reserialised", "messages[2].tool_calls[0].arguments", offset)
    assert told.detail("tool_args_reserialised")["semantic_equal"] is True


def test_r14_a_template_that_forgets_thinking(stories: NewStory) -> None:
    story = stories()
    thought = called("{}", reasoning_content="Let me see.")
    story.say(chat(SYSTEM, U1), tokens=(500, 0), reply={"content": "", **thought})
    second = story.say(chat(SYSTEM, U1, thought, RESULT), tokens=(560, 498))
    third = story.say(chat(SYSTEM, U1, thought, RESULT, A2, U2), tokens=(600, 210))
    assert second.cause is None
    assert third.cause == "template_history_rewrite_suspected"
    assert third.detail("template_history_rewrite_suspected")["evidence"] == "new_user_turn"
    assert third.hit == "prefix"
    assert third.explain["observed"]["reuse"] < 0.5


def test_r15_an_empty_think_block_on_the_last_turn_only(stories: NewStory) -> None:
    story = stories()
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    story.say(chat(SYSTEM, U1, **off), tokens=(500, 0))
    told = story.say(chat(SYSTEM, U1, A1, U2, **off), tokens=(540, 490))
    assert told.cause == "template_generation_prompt_mismatch_suspected"


def test_r16_reasoning_that_the_client_drops(stories: NewStory) -> None:
    story = stories()
    story.say(chat(SYSTEM, U1), tokens=(500, 0), reply={"content": "A", "reasoning_content": "R"})
    told = story.say(chat(SYSTEM, U1, message("assistant", "A"), U2), tokens=(540, 500))
    assert (told.hit, told.explain["diverged_at"]) == ("prefix", "messages[2]")
    assert told.codes[0] == "reasoning_dropped_by_client"
    kept = message("assistant", "ok", reasoning_content="R2")
    story = stories()
    story.say(chat(SYSTEM, U1), reply={"content": "ok", "reasoning_content": "R2"})
    assert story.say(chat(SYSTEM, U1, kept, U2)).codes == []


TITLE = {"messages": [message("user", "Create a 3 word title for: u1/a1")], "max_tokens": 20}


def test_r18_a_title_request_takes_the_only_slot(stories: NewStory) -> None:
    story = stories(slots=1)
    story.say(chat(SYSTEM, U1), tokens=(500, 0))
    title = story.say(TITLE, tokens=(20, 0))
    told = story.say(chat(SYSTEM, U1, A1, U2), tokens=(540, 0))
    assert told.cause == "evicted_by"
    assert (told.detail("evicted_by")["kind"], told.detail("evicted_by")["request"]) == (
        "side_request",
        title.id,
    )
    assert told.explain["evicted_by"]["request"] == title.id
    assert (told.explain["lost_tokens"], told.explain["diverged_at"]) == (500, None)


def test_r18_two_slots_acquit_the_title_request(stories: NewStory) -> None:
    story = stories(slots=2)
    story.say(chat(SYSTEM, U1), tokens=(500, 0))
    story.say(TITLE, tokens=(20, 0))
    assert story.say(chat(SYSTEM, U1, A1, U2), tokens=(540, 500)).codes == []


def test_r18_an_embedding_takes_the_slot_too(stories: NewStory) -> None:
    story = stories("ollama")
    story.say(chat(SYSTEM, U1), path=OLLAMA, tokens=(500, 0))
    answer = as_json({"embeddings": [[0.1]], "prompt_eval_count": 9})
    story.backend.queue(answer)
    story.proxy.chat({"model": story.model, "input": "words"}, path="/api/embed")
    told = story.say(chat(SYSTEM, U1, A1, U2), path=OLLAMA, tokens=(540, 0))
    assert told.detail("evicted_by")["kind"] == "embed"


def line(name: str, turns: int) -> dict[str, Any]:
    said = [message("assistant" if k % 2 else "user", f"{name}{k} " * 40) for k in range(2 * turns + 1)]
    return chat(message("system", f"{name} " + RULES), *said)


def test_r21_two_agents_take_turns_on_one_slot(stories: NewStory) -> None:
    story = stories(slots=1)
    told = [
        story.say(line(name, turn), tokens=(500 + 50 * turn, 0)) for turn in range(3) for name in ("X", "Y")
    ]
    evicted = [t for t in told if t.cause == "evicted_by"]
    assert evicted == told[2:]
    assert [t.detail("evicted_by")["request"] for t in evicted] == [t.id for t in told[1:5]]
    assert {t.detail("evicted_by")["kind"] for t in evicted} == {"other_lineage"}


def test_r21_three_agents_lack_capacity(stories: NewStory) -> None:
    story = stories(slots=1)
    told = [
        story.say(line(n, turn), tokens=(500 + 50 * turn, 0)) for turn in range(3) for n in ("X", "Y", "Z")
    ]
    assert told[-1].cause == "capacity_suspected"
    assert told[-1].detail("capacity_suspected")["lineages"] == 3


def test_r23_a_late_edit_that_costs_everything(stories: NewStory) -> None:
    story = stories()
    ten = [message("assistant" if k % 2 else "user", f"message {k} " * 20) for k in range(10)]
    story.say(chat(*ten), tokens=(1000, 0))
    told = story.say(chat(*ten[:-1], message("assistant", "edited")), tokens=(1000, 0))
    assert where(told)[:2] == ("history_rewrite", "messages[9]")
    assert told.codes[1] == "checkpoint_or_window"
    assert told.explain["predicted"]["reuse"] >= 0.9
    assert told.explain["observed"]["cached_tokens"] == 0


def test_r25_a_tool_result_pruned_in_place(stories: NewStory) -> None:
    story = stories()
    old = [U1, called("{}"), RESULT, message("tool", "x" * 4000, tool_call_id="c2")]
    rest = [message("assistant" if k % 2 else "user", f"message {k} " * 20) for k in range(8)]
    story.say(chat(*old, *rest))
    pruned = message("tool", "[tool output removed]", tool_call_id="c2")
    told = story.say(chat(*old[:3], pruned, *rest, U2))
    assert where(told) == ("tool_result_pruned", "messages[3]", 0)
    assert told.detail("tool_result_pruned")["delta_bytes"] == -3979


def sized(num_ctx: int | None, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    options = {} if num_ctx is None else {"options": {"num_ctx": num_ctx}}
    return chat(SYSTEM, *messages, stream=False, **options, **more)


SECOND_NS = 1_000_000_000


def test_r27_num_ctx_reloads_the_model(stories: NewStory) -> None:
    story = stories("ollama")
    loaded = {"load_duration": 5 * SECOND_NS}
    story.say(sized(8192, U1), path=OLLAMA, tokens=(500, 0), **loaded)
    second = story.say(sized(9216, U1, A1, U2), path=OLLAMA, tokens=(540, 0), **loaded)
    third = story.say(sized(None, U1, A1, U2, A2, U3), path=OLLAMA, tokens=(580, 0), **loaded)
    found = second.detail("model_reload")
    assert (second.cause, found["option"], found["old"], found["new"]) == (
        "model_reload",
        "num_ctx",
        8192,
        9216,
    )
    assert found["by_request"] == second.id
    found = third.detail("model_reload")
    assert (third.cause, found["old"], found["new"]) == ("model_reload", 9216, None)


def test_r27_sampling_options_do_not_reload(stories: NewStory) -> None:
    story = stories("ollama")
    story.say(sized(8192, U1), path=OLLAMA, tokens=(500, 0), load_duration=5 * SECOND_NS)
    body = sized(None, U1, A1, U2) | {"options": {"num_ctx": 8192, "temperature": 0.9, "seed": 4}}
    told = story.say(body, path=OLLAMA, tokens=(540, 500), load_duration=20_000_000)
    assert told.codes == []


def test_r27_another_client_is_named(stories: NewStory) -> None:
    story = stories("ollama")
    loaded = {"load_duration": 5 * SECOND_NS}
    story.say(sized(8192, U1), path=OLLAMA, tokens=(500, 0), **loaded)
    other = {
        "messages": [message("user", "Quite another talk.")],
        "stream": False,
        "options": {"num_ctx": 20_000},
    }
    agent = [("User-Agent", "aider/0.86.2")]
    intruder = story.say(other, path=OLLAMA, tokens=(20, 0), headers=agent, **loaded)
    told = story.say(sized(20_000, U1, A1, U2), path=OLLAMA, tokens=(540, 0), load_duration=20_000_000)
    assert intruder.cause == "model_reload"
    assert told.cause in ("evicted_by", "model_reload")
    back = story.say(sized(8192, U1, A1, U2, A2, U3), path=OLLAMA, tokens=(560, 0), **loaded)
    assert back.detail("model_reload")["by_request"] == back.id


def test_r29_idle_for_longer_than_keep_alive(stories: NewStory) -> None:
    story = stories("ollama")
    story.say(sized(None, U1, keep_alive="1s"), path=OLLAMA, tokens=(500, 0), load_duration=5 * SECOND_NS)
    time.sleep(1.3)
    told = story.say(sized(None, U1, A1, U2), path=OLLAMA, tokens=(540, 0), load_duration=4 * SECOND_NS)
    found = told.detail("model_unloaded")
    assert (told.cause, found["reason"], found["keep_alive_s"]) == ("model_unloaded", "idle_timeout", 1.0)
    assert found["gap_s"] >= 1.0


def test_r29_another_client_lets_the_model_go(stories: NewStory) -> None:
    story = stories("ollama")
    story.say(sized(None, U1, keep_alive="5m"), path=OLLAMA, tokens=(500, 0), load_duration=5 * SECOND_NS)
    bye = story.say(
        {"messages": [message("user", "bye")], "stream": False, "keep_alive": 0}, path=OLLAMA, tokens=(9, 0)
    )
    told = story.say(sized(None, U1, A1, U2), path=OLLAMA, tokens=(540, 0), load_duration=4 * SECOND_NS)
    found = told.detail("model_unloaded")
    assert (told.cause, found["reason"], found["by_request"]) == ("model_unloaded", "keep_alive_0", bye.id)


def test_r29_an_unload_call_counts_as_well(stories: NewStory) -> None:
    story = stories("ollama")
    story.say(sized(None, U1), path=OLLAMA, tokens=(500, 0), load_duration=5 * SECOND_NS)
    story.backend.queue(as_json({"done": True, "done_reason": "unload"}))
    story.proxy.chat({"model": story.model, "messages": [], "keep_alive": 0}, path=OLLAMA)
    told = story.say(sized(None, U1, A1, U2), path=OLLAMA, tokens=(540, 0), load_duration=4 * SECOND_NS)
    assert told.detail("model_unloaded")["reason"] == "keep_alive_0"


def test_r32_what_goes_with_a_miss_is_said_as_correlation(stories: NewStory) -> None:
    story = stories("mlx_lm")
    body = chat(SYSTEM, U1, stream=True, chat_template_kwargs={"enable_thinking": False})
    told = [story.say(body, answer=streamed("ok", (500, 0))) for _ in range(3)]
    for again in told[1:]:
        assert again.codes[0] == "engine_unknown"
        assert again.detail("engine_unknown")["correlates"] == ["stream", "chat_template_kwargs"]


def test_r35_markers_and_block_arrays_are_no_content(stories: NewStory) -> None:
    story = stories()
    marked = message("user", [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}])
    later = message("user", [{"type": "text", "text": "next", "cache_control": {"type": "ephemeral"}}])
    said = message("assistant", "ok")
    story.say({"system": RULES, "messages": [marked]}, path=MESSAGES)
    told = story.say({"system": RULES, "messages": [message("user", "hi"), said, later]}, path=MESSAGES)
    assert (told.hit, told.codes) == ("prefix", [])


def test_r37_a_model_switch_and_back(stories: NewStory) -> None:
    story = stories()
    other = Story(story.backend, story.proxy, story.model + "-other")
    first = story.say(chat(message("system", RULES + "one word"), U1))
    second = other.say(chat(message("system", RULES + "one word"), U1))
    third = story.say(chat(message("system", RULES + "two word"), U1, A1, U2))
    found = second.detail("model_switch")
    assert (second.cause, found["from"], found["to"]) == ("model_switch", story.model, other.model)
    assert (found["previous"], second.explain["parent_id"], second.explain["relation"]) == (
        first.id,
        None,
        "first",
    )
    assert (third.cause, third.explain["parent_id"]) == ("system_edit", first.id)


def test_r39_the_client_switched_the_cache_off(stories: NewStory) -> None:
    story = stories()
    story.say(chat(SYSTEM, U1, cache_prompt=False), tokens=(500, 0))
    told = story.say(chat(SYSTEM, U1, A1, U2, cache_prompt=False), tokens=(540, 0))
    assert told.cause == "client_disabled_cache"
    prompt = "Once upon a time there was a loader. " * 20
    done = as_json(
        {"content": "ok", "stop": True, "timings": {"cache_n": 0, "prompt_n": 190, "predicted_n": 2}}
    )
    story.say({"prompt": prompt, "cache_prompt": False}, path="/completion", answer=done)
    told = story.say({"prompt": prompt + "And then?", "cache_prompt": False}, path="/completion", answer=done)
    assert told.cause == "client_disabled_cache"


def test_r40_a_prompt_longer_than_the_context(stories: NewStory) -> None:
    story = stories("ollama")
    long = message("user", "All the words that do not fit. " * 1900)
    told = story.say(sized(2048, long), path=OLLAMA, tokens=(2048, 0), load_duration=20_000_000)
    found = told.detail("context_truncated")
    assert told.cause == "context_truncated"
    assert (found["evaluated"], found["num_ctx"]) == (2048, 2048)
    assert 9_000 <= found["sent_estimate"] <= 20_000


def test_r42_two_answers_to_one_question_at_temperature_0(stories: NewStory) -> None:
    story = stories()
    body = chat(SYSTEM, U1, temperature=0)
    story.say(body, tokens=(500, 0), reply={"content": "A"})
    told = story.say(body, tokens=(500, 499), reply={"content": "B"})
    found = told.detail("nondeterministic_repeat")
    assert found["output"] != found["previous_output"]
    assert story.say(body, tokens=(500, 499), reply={"content": "B"}).codes != []


def test_without_text_the_offset_and_wordless_causes_remain(stories: NewStory) -> None:
    """With METALANCHOR_KEEP_TEXT=false no excerpt is shown, and offsets are as precise as a block."""
    story = stories(keep_text="false")
    story.say(chat(message("system", CLAW.format("Monday 10:41")), U1, tools=named("read", "write")))
    time.sleep(0.3)  # block digests are left after the answer
    told = story.say(
        chat(message("system", CLAW.format("Monday 10:42")), U1, A1, U2, tools=named("write", "read"))
    )
    explain = told.explain
    assert told.codes[:2] == ["tool_reorder", "system_edit"]
    assert (explain["before"], explain["after"]) == (None, None)
    offset, precision = (
        told.detail("system_edit")["byte_offset"],
        told.detail("system_edit")["offset_precision"],
    )
    assert offset <= 48 < offset + precision


def test_answers_are_only_as_long_as_they_are(stories: NewStory) -> None:
    """The cause of an engine's doing is in the headers of a whole answer, with its cached tokens."""
    story = stories(slots=1)
    story.say(chat(SYSTEM, U1), tokens=(500, 0))
    story.say(TITLE, tokens=(20, 0))
    told = story.say(chat(SYSTEM, U1, A1, U2), answer=answered("/v1/chat/completions", (540, 0)))
    assert told.answer.ours["cached-tokens"] == "0"
