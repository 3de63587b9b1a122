"""Which requests may be matched by meaning: case R76 and its kinds."""

from typing import Any

import pytest

from services.semantic.eligible import Asked, Bypass, asked
from services.settings import CacheRule

ASK = "How do I boil an egg?"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **more}


def user(content: Any = ASK) -> dict[str, Any]:
    return {"role": "user", "content": content}


SYSTEM = {"role": "system", "content": "Be kind."}


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai_chat", chat(user())),
        ("openai_chat", chat(SYSTEM, user(), temperature=0.2, stream=True, tools=[])),
        ("openai_chat", chat(user([{"type": "text", "text": ASK}]), n=1, tool_choice="none")),
        ("ollama_chat", chat(SYSTEM, user(), options={"num_ctx": 4096})),
        ("ollama_generate", {"model": "m", "prompt": ASK, "system": "Be kind."}),
        (
            "anthropic",
            chat(user([{"type": "text", "text": ASK, "cache_control": {}}]), system="x", max_tokens=9),
        ),
        ("openai_responses", {"model": "m", "input": ASK, "text": {"format": {"type": "text"}}}),
        ("openai_responses", {"model": "m", "input": [user([{"type": "input_text", "text": ASK}])]}),
    ],
)
def test_a_question_that_stands_for_itself_may_be_matched(dialect: str, body: dict[str, Any]):
    """One user turn of one text; all else is handed back, to be equal, without the question's words."""
    found = asked(dialect, body)
    assert isinstance(found, Asked)
    assert found.text == ASK
    assert ASK not in str(found.rest)


def test_all_but_the_question_has_to_be_equal():
    """System prompt and params are in `rest`; the question is not."""
    first, second, other = (
        asked("openai_chat", chat({"role": "system", "content": system}, user(text), seed=1))
        for system, text in (("a", ASK), ("a", "What is it?"), ("b", ASK))
    )
    assert isinstance(first, Asked)
    assert isinstance(second, Asked)
    assert isinstance(other, Asked)
    assert first.rest == second.rest != other.rest


@pytest.mark.parametrize(
    ("dialect", "body", "reason"),
    [
        ("openai_chat", chat(user(), tools=[TOOL]), "agentic"),
        ("openai_chat", chat(user(), {"role": "assistant", "tool_calls": [{}]}, {"role": "tool"}), "agentic"),
        ("anthropic", chat(user([{"type": "tool_result", "tool_use_id": "1", "content": "2"}])), "agentic"),
        ("openai_responses", {"input": [{"type": "function_call_output", "output": "2"}]}, "agentic"),
        ("openai_responses", {"input": ASK, "previous_response_id": "r1"}, "agentic"),
        ("openai_chat", chat(user(), {"role": "assistant", "content": "5 min"}, user()), "multi_turn"),
        ("openai_chat", chat(user(), user()), "multi_turn"),
        ("openai_chat", chat(user(), SYSTEM), "multi_turn"),
        ("anthropic", chat(user(), {"role": "assistant", "content": "{"}), "multi_turn"),
        ("openai_chat", chat(user([{"type": "image_url", "image_url": {}}])), "media"),
        ("ollama_chat", chat({**user(), "images": ["aGk="]}), "media"),
        ("openai_chat", chat(user(), modalities=["text", "audio"]), "media"),
        ("openai_chat", chat(user(), response_format={"type": "json_object"}), "structured"),
        ("ollama_chat", chat(user(), format="json"), "structured"),
        ("openai_responses", {"input": ASK, "text": {"format": {"type": "json_schema"}}}, "structured"),
        ("openai_chat", chat(user(), n=2), "several"),
        ("openai_chat", chat(user(), logprobs=True), "several"),
        ("ollama_generate", {"prompt": ASK, "raw": True}, "raw"),
        ("ollama_generate", {"prompt": ASK, "context": [1, 2]}, "raw"),
        ("openai_completions", {"prompt": ASK}, "raw"),
        ("openai_chat", chat(user("word " * 500)), "long"),
        ("openai_chat", chat(user("  ")), "empty"),
        ("openai_chat", chat(user([{"type": "text", "text": "a"}] * 2)), "several_parts"),
        ("openai_chat", chat(user("Continue")), "context"),
        ("openai_chat", chat(user("What did you say in your previous answer?")), "context"),
        ("openai_chat", chat(user("继续")), "context"),
    ],
)
def test_anything_else_is_passed_by_with_its_reason(dialect: str, body: dict[str, Any], reason: str):
    """Agents, media, talks, forms and samples are never answered from a similar request."""
    assert asked(dialect, body) == Bypass(reason)


@pytest.mark.parametrize(
    "text",
    [
        "What's the weather like in Oslo?", "Who is currently the president?", "What is the latest Python?",
        "Bitcoin price?", "What time is it in Tokyo?", "What should I wear today?", "Give me a random number",
        "今天天气怎么样？", "苹果股价是多少？", "现在几点了？", "最新的iPhone是哪款？", "人民币兑美元汇率",
    ],
)  # fmt: skip
def test_questions_about_now_go_to_the_backend(text: str):
    """An answer about now is wrong tomorrow."""
    assert asked("openai_chat", chat(user(text))) == Bypass("volatile")


@pytest.mark.parametrize("text", [ASK, "Who knows the theorem of Pascal?", "Explain snow.", "什么是递归？"])
def test_timeless_questions_are_not_taken_for_questions_about_now(text: str):
    """Words are matched whole."""
    found = asked("openai_chat", chat(user(text)))
    assert isinstance(found, Asked)
    assert found.life_s is None


def test_the_users_rules_come_before_the_words_about_now():
    """A rule gives a short life, none, or calls the question an ordinary one; the first that fits decides."""
    rules = (
        CacheRule(words=("weather", "天气"), ttl=60.0),
        CacheRule(words=("inventory",)),
        CacheRule(words=("price",), ttl=-1),
    )
    lives = []
    for text in ("What's the Weather in Oslo?", "Show the inventory", "What is a price floor?"):
        found = asked("openai_chat", chat(user(text)), rules)
        lives.append(found.life_s if isinstance(found, Asked) else found.reason)
    assert lives == [60.0, "volatile", None]
