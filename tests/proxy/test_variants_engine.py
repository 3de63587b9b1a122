"""Variants of every kind of loss that is the engine's doing or another request's, text being equal.

Written from the contract alone, by others than the recognisers' authors: cases R14, R15, R18, R21, R23, R27
to R32, R39, R40, R42.
"""

import threading
import time
from typing import Any

import pytest

from tests.support.backend.script import as_json, body
from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, Story, answered, streamed
from tests.support.talk import (
    ASK,
    MORE,
    READY,
    RULES,
    RULES_ZH,
    SECOND,
    SYSTEM,
    TALK,
    call,
    chat,
    function,
    item,
    result,
    said,
    turn,
    user,
)

pytestmark = pytest.mark.process


TITLES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "opencode",
        CHAT,
        {
            "messages": [
                turn("system", "You are a title generator."),
                user("Generate a title for this conversation: x"),
            ]
        },
    ),
    (
        "Open WebUI tags",
        CHAT,
        {
            "messages": [
                user("### Task:\nGenerate 1-3 broad tags for the chat.\n<chat_history>x</chat_history>")
            ],
            "max_tokens": 1000,
        },
    ),
    (
        "Hermes",
        CHAT,
        {
            "messages": [turn("system", "Generate a short, descriptive title (3-7 words)."), user("User: x")],
            "max_tokens": 500,
            "temperature": 0.3,
        },
    ),
    ("Chinese", CHAT, {"messages": [user("请为以下对话生成一个简短的标题：你好")], "max_tokens": 300}),
    (
        "Claude Code",
        MESSAGES,
        {
            "system": "Generate a concise title.",
            "messages": [user("x")],
            "output_config": {"format": {"type": "json_schema", "schema": {}}},
            "max_tokens": 99,
        },
    ),
    (
        "follow-ups",
        OLLAMA,
        {
            "messages": [user("Suggest 3-5 relevant follow-up questions for: x")],
            "stream": False,
            "format": "json",
        },
    ),
    (
        "aider's commit",
        CHAT,
        {"messages": [turn("system", "You generate one-line Git commit messages."), user("diff --git a b")]},
    ),
]


@pytest.mark.parametrize(("name", "path", "side"), TITLES, ids=[t[0] for t in TITLES])
def test_a_small_request_between_two_turns_is_blamed(
    stories: NewStory, name: str, path: str, side: dict[str, Any]
) -> None:
    story = stories("ollama" if path == OLLAMA else "llama-server")
    main = OLLAMA if path == OLLAMA else CHAT
    tools = [function("read")]
    story.say(chat(1, tools=tools), path=main, tokens=(600, 0))
    other = story.say(side, path=path, tokens=(30, 0))
    told = story.say(chat(2, tools=tools), path=main, tokens=(640, 0))
    found = told.detail("evicted_by")
    assert (told.codes, told.cause) == (["evicted_by"], "evicted_by"), name
    assert (found["kind"], found["request"]) == ("side_request", other.id)
    assert (told.hit, told.explain["relation"], told.explain["diverged_at"]) == ("prefix", "append", None)
    assert (told.explain["evicted_by"], told.explain["lost_tokens"]) == (found, 600)
    assert told.explain["causes"][0]["severity"] == "loss"
    assert told.explain["advice"]


def test_a_title_asked_at_the_same_time_is_blamed_too(stories: NewStory) -> None:
    """Claude Code: the title request starts just before the turn and ends after it began."""
    story = stories()
    story.say(chat(1), tokens=(600, 0))

    def choose(received: Any) -> Any:
        is_title = b"title" in received.body
        made = answered(CHAT, (30, 0) if is_title else (640, 0))
        made.head_delay = 0.4 if is_title else 0.5
        return made

    story.backend.queue(choose, choose)
    title = {"model": story.model, "messages": [user("Write a title for: x")], "max_tokens": 20}
    side = threading.Thread(target=lambda: story.proxy.chat(title))
    side.start()
    time.sleep(0.1)
    told = story.explained(story.proxy.chat({"model": story.model, **chat(2)}))
    side.join()
    assert (told.cause, told.detail("evicted_by")["kind"]) == ("evicted_by", "side_request")


def test_a_talk_that_shares_system_and_tools_is_a_fork(stories: NewStory) -> None:
    story, tools = stories(), [function("read")]
    story.say(chat(1, tools=tools), tokens=(600, 0))
    other = story.say(
        {"messages": [SYSTEM, user("Another matter: write a poem. " * 9)], "tools": tools}, tokens=(500, 400)
    )
    told = story.say(chat(2, tools=tools), tokens=(640, 400))
    assert told.cause == "evicted_by"
    assert (told.detail("evicted_by")["kind"], told.detail("evicted_by")["request"]) == ("fork", other.id)
    assert told.explain["lost_tokens"] == 200


def test_another_agents_long_talk_is_another_lineage(stories: NewStory) -> None:
    story = stories("ollama")
    story.say(chat(1), path=OLLAMA, tokens=(600, 0), **READY)
    agent = [("User-Agent", "opencode/1.18.33 ai-sdk/provider-utils")]
    foreign = {
        "messages": [turn("system", RULES_ZH), *[user("别的事情。" * 40)]],
        "stream": False,
        "tools": [function("x")],
    }
    other = story.say(foreign, path=OLLAMA, tokens=(900, 0), headers=agent)
    told = story.say(chat(2), path=OLLAMA, tokens=(640, 0), **READY)
    found = told.detail("evicted_by")
    assert (found["kind"], found["request"], found["agent"]) == ("other_lineage", other.id, "opencode")


@pytest.mark.parametrize("path", ["/api/embed", "/api/embeddings", "/v1/embeddings"])
def test_every_embedding_route_can_take_the_slot(stories: NewStory, path: str) -> None:
    story = stories("ollama")
    story.say(chat(1), path=OLLAMA, tokens=(600, 0))
    story.backend.queue(as_json({"embeddings": [[0.1]], "data": []}))
    asked = {"prompt": "words"} if path == "/api/embeddings" else {"input": ["words", "more"]}
    story.proxy.chat({"model": story.model, **asked}, path=path)
    told = story.say(chat(2), path=OLLAMA, tokens=(640, 0))
    assert told.detail("evicted_by")["kind"] == "embed"


def test_requests_to_another_model_take_nothing(stories: NewStory) -> None:
    """Another model has slots of its own: who came between is not who did it."""
    story = stories("llama-server")
    other = Story(story.backend, story.proxy, story.model + "-small")
    story.say(chat(1), tokens=(600, 0))
    other.say({"messages": [user("Write a title for: x")], "max_tokens": 20}, tokens=(30, 0))
    told = story.say(chat(2), tokens=(640, 0))
    assert "evicted_by" not in told.codes
    assert told.codes == ["engine_unknown"]


def test_what_came_between_is_acquitted_where_the_cache_held(stories: NewStory) -> None:
    story = stories()
    story.say(chat(1), tokens=(600, 0))
    story.say({"messages": [user("Write a title for: x")], "max_tokens": 20}, tokens=(30, 0))
    told = story.say(chat(2), tokens=(640, 600))
    assert (told.codes, told.cause, told.explain["lost_tokens"]) == ([], None, None)


def test_a_broken_text_outranks_the_request_between(stories: NewStory) -> None:
    """A clock at the head broke it; the title between is not needed to explain it."""
    story = stories()
    clock = [turn("system", f"It is 10:4{k}.\n{RULES}") for k in range(2)]
    story.say({"messages": [clock[0], user(ASK)]}, tokens=(600, 0))
    story.say({"messages": [user("Write a title for: x")], "max_tokens": 20}, tokens=(30, 0))
    told = story.say({"messages": [clock[1], *TALK[:3]]}, tokens=(640, 0))
    assert told.cause == "timestamp"


THOUGHTS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("llama-server", CHAT, {"reasoning_content": "R " * 40}, {}),
    ("vllm", CHAT, {"reasoning": "R " * 40}, {}),
    ("ollama", OLLAMA, {"thinking": "R " * 40}, {"think": True}),
]


@pytest.mark.parametrize(("kind", "path", "thought", "more"), THOUGHTS, ids=[t[0] for t in THOUGHTS])
def test_thinking_dropped_by_the_template_at_a_new_user_turn(
    stories: NewStory, kind: str, path: str, thought: dict[str, Any], more: dict[str, Any]
) -> None:
    story = stories(kind)
    arguments: Any = {} if path == OLLAMA else "{}"
    head, asked = [SYSTEM, user(ASK)], call(arguments, content="", **thought)
    tail = [result("found"), said("Done."), user(MORE)]
    base = {"stream": False, **more}
    story.say({"messages": head, **base}, path=path, tokens=(600, 0), reply=asked)
    second = story.say(
        {"messages": [*head, asked, tail[0]], **base},
        path=path,
        tokens=(700, 640),
        reply={"content": "Done."},
    )
    third = story.say({"messages": [*head, asked, *tail], **base}, path=path, tokens=(760, 240))
    assert second.cause is None
    assert (third.cause, third.hit) == ("template_history_rewrite_suspected", "prefix")
    assert third.explain["observed"]["reuse"] < 0.5 < third.explain["predicted"]["reuse"]


@pytest.mark.parametrize(
    ("kind", "path", "off"),
    [
        ("llama-server", CHAT, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("ollama", OLLAMA, {"think": False}),
        ("mlx_lm", CHAT, {"chat_template_kwargs": {"enable_thinking": False, "x": 1}}),
    ],
)
def test_a_generation_prompt_that_history_does_not_repeat(
    stories: NewStory, kind: str, path: str, off: dict[str, Any]
) -> None:
    """The last tokens of the old prompt are not in the new one: a few tokens short of it."""
    story = stories(kind)
    story.say(chat(1, **off), path=path, tokens=(600, 0))
    told = story.say(chat(2, **off), path=path, tokens=(640, 592))
    assert told.codes == ["template_generation_prompt_mismatch_suspected"]
    assert told.explain["lost_tokens"] == 8


def test_a_late_edit_on_an_engine_that_goes_back_by_checkpoints(stories: NewStory) -> None:
    story = stories()
    story.say(chat(3), tokens=(1000, 0))
    edited = [SYSTEM, *TALK[:4], user("Something else entirely, please.")]
    told = story.say({"messages": edited}, tokens=(1000, 0))
    assert told.codes[:2] == ["history_rewrite", "checkpoint_or_window"]
    assert told.explain["predicted"]["reuse"] > 0.5
    assert told.explain["observed"]["cached_tokens"] == 0


def test_full_blocks_only_is_granularity(stories: NewStory) -> None:
    """VLLM keeps whole blocks: the last part of one is computed again, always less than a block."""
    story = stories("vllm")
    story.say(chat(1), tokens=(605, 0))
    told = story.say(chat(2), tokens=(645, 592))
    assert told.codes in ([], ["engine_granularity"])
    assert told.cause in (None, "engine_granularity")


def test_three_agents_in_turn_on_two_slots_lack_capacity(stories: NewStory) -> None:
    story = stories(slots=2)
    seen = []
    for k in range(1, 4):
        for name in "XYZ":
            turns = [said() if n % 2 else user(f"{name}{n // 2} " * 60) for n in range(2 * k - 1)]
            messages = [turn("system", f"{name} {RULES}"), *turns]
            seen.append(story.say({"messages": messages}, tokens=(600 + 60 * k, 0)))
    assert seen[-1].cause == "capacity_suspected"
    found = seen[-1].detail("capacity_suspected")
    assert (found["lineages"], found["warm_lineages"]) == (3, 2)


def test_two_agents_on_two_slots_are_well(stories: NewStory) -> None:
    story, seen = stories(slots=2), []
    for k in range(1, 4):
        for name in "XY":
            turns = [said() if n % 2 else user(f"{name}{n // 2} " * 60) for n in range(2 * k - 1)]
            messages = [turn("system", f"{story.model} {name} {RULES}"), *turns]
            seen.append(
                story.say({"messages": messages}, tokens=(600 + 60 * k, 600 + 60 * (k - 1) if k > 1 else 0))
            )
    assert [told.codes for told in seen[2:]] == [[]] * 4


@pytest.mark.parametrize("kind", ["mlx_lm", "llama-server"])
def test_a_miss_that_nothing_explains_is_unknown(stories: NewStory, kind: str) -> None:
    story = stories(kind)
    story.say(chat(1), tokens=(600, 0))
    told = story.say(chat(2), tokens=(640, 0))
    assert (told.codes, told.cause, told.explain["lost_tokens"]) == (
        ["engine_unknown"],
        "engine_unknown",
        600,
    )


def test_a_miss_of_a_stream_says_what_it_goes_with(stories: NewStory) -> None:
    story = stories("mlx_lm")
    for k in (1, 2):
        told = story.say({**chat(k), "stream": True}, answer=streamed("ok", (600, 0)))
    assert told.detail("engine_unknown")["correlates"] == ["stream"]


def test_the_reused_part_of_a_responses_answer_is_measured(stories: NewStory) -> None:
    """R18 in the Responses API: items grow, the title between takes the slot."""
    story = stories()

    def counted(total: int, cached: int) -> Any:
        usage = {"input_tokens": total, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": 3}
        output = [item("assistant", "ok", id="msg_1")]
        return as_json({"object": "response", "status": "completed", "output": output, "usage": usage})

    items = [item("developer", RULES), item("user", ASK)]
    story.say({"input": items}, path=RESPONSES, answer=counted(600, 0))
    story.say({"messages": [user("Write a title for: x")], "max_tokens": 20}, tokens=(30, 0))
    longer = [*items, item("assistant", "ok", id="msg_1"), item("user", MORE)]
    told = story.say({"input": longer}, path=RESPONSES, answer=counted(640, 0))
    assert (told.cause, told.explain["observed"]["source"]) == ("evicted_by", "responses")


def test_an_exact_repeat_after_an_error_is_a_retry(stories: NewStory) -> None:
    story = stories()
    failed = story.say(chat(1), answer=body('{"error":{"message":"busy"}}', status=503))
    told = story.say(chat(1), tokens=(600, 0))
    assert told.detail("retry_of")["request"] == failed.id
    assert (told.cause, told.explain["relation"]) == (None, "exact_repeat")


def test_equal_questions_answered_otherwise_at_temperature_0(stories: NewStory) -> None:
    """Noted with temperature 0 only; sampling may differ as it likes."""
    story = stories("ollama")
    cold = chat(1, options={"temperature": 0, "seed": 1})
    story.say(cold, path=OLLAMA, tokens=(600, 0), reply={"content": "A"}, **READY)
    told = story.say(cold, path=OLLAMA, tokens=(600, 599), reply={"content": "B"}, **READY)
    assert (told.codes, told.cause, told.hit) == (["nondeterministic_repeat"], None, "exact")
    warm = Story(story.backend, story.proxy, story.model + "-warm")
    hot = chat(1, options={"temperature": 0.8})
    warm.say(hot, path=OLLAMA, tokens=(600, 0), reply={"content": "A"}, **READY)
    assert warm.say(hot, path=OLLAMA, tokens=(600, 599), reply={"content": "B"}, **READY).codes == []


def test_losses_are_counted_in_tokens_and_time(stories: NewStory) -> None:
    """By the rate learnt from this model's own prefill: 1,000 tokens a second here, 600 lost."""
    story = stories("ollama")
    rate = {"prompt_eval_duration": 600 * SECOND // 1000}
    story.say(chat(1), path=OLLAMA, tokens=(600, 0), **READY, **rate)
    told = story.say(
        chat(2), path=OLLAMA, tokens=(640, 0), **READY, prompt_eval_duration=640 * SECOND // 1000
    )
    assert told.explain["lost_tokens"] == 600
    assert told.explain["lost_ms"] == pytest.approx(600, rel=0.02)
