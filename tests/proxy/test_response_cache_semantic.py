"""Equal questions in other words, through the wire: who may be matched, what is answered and recorded."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.caching import CHAT, Caching, chat, next_test, running
from tests.support.rows import wait_for

pytestmark = pytest.mark.process

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caching]:
    """A proxy that matches by meaning."""
    with running(tmp_path_factory.mktemp("semantic"), response_cache="semantic") as made:
        yield made


@pytest.fixture
def semantic(parts: Caching) -> Caching:
    """The shared one, with a model of the test's own."""
    return next_test(parts)


def test_the_same_question_in_other_words_is_answered(semantic: Caching) -> None:
    """Its row names the original; the backend was called once."""
    first = semantic.ask(chat("What is the capital of France?"))
    assert first.ours["cache"] == "miss"
    # Questions are embedded beside the request, so it takes a moment until one is found.
    wait_for(
        lambda: (
            semantic.ask(chat("what is the capital of France"), control="no-store").ours["cache"]
            == "semantic"
        )
    )
    answer = semantic.ask(chat("what is  the capital of France ?"))
    assert (answer.ours["cache"], answer.body) == ("semantic", first.body)
    row = semantic.row(answer)
    assert (row["status"], row["response_cache"]) == ("response_cache", "semantic")
    assert row["answered_by"] == first.ours["request-id"]
    other = semantic.ask(chat("What is the capital of Spain?"))
    assert other.ours["cache"] == "miss"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (chat("hi there", tools=[TOOL]), "agentic"),
        ({"messages": [{"role": "user", "content": "hi"}, {"role": "tool", "content": "5"}]},
         "agentic"),
        (chat("What is the weather in Bonn today?"), "volatile"),
        (chat("今天股价多少"), "volatile"),
    ],
)  # fmt: skip
def test_r76_what_does_not_stand_for_itself_is_matched_exactly_or_not_at_all(
    semantic: Caching, body: dict[str, Any], reason: str
) -> None:
    """Agents' requests may still be equal; live data has no second answer."""
    again = "hit" if reason == "agentic" else "bypass:volatile"
    assert semantic.verdicts(body, body) == [f"bypass:{reason}", again]


def test_r76_two_turns_of_a_loop_are_asked_twice(semantic: Caching) -> None:
    """Twenty equal messages, and a result that differs by one number."""
    history = [{"role": ("user", "assistant")[n % 2], "content": f"step {n}"} for n in range(20)]
    loops = [
        {
            "messages": [*history, {"role": "tool", "tool_call_id": "c", "content": f"{n} files"}],
            "tools": [TOOL],
        }
        for n in (5, 6)
    ]
    assert semantic.verdicts(*loops, path=CHAT) == ["bypass:agentic", "bypass:agentic"]
    assert len(semantic.calls) == 2
    assert semantic.row(semantic.ask(loops[0], control="no-cache"))["response_cache"] == "bypass:no-cache"


def test_live_data_is_kept_where_the_client_says_for_how_long(semantic: Caching) -> None:
    """It knows its question better than a list of words."""
    body = chat("What is the weather in Rome today?")
    assert semantic.verdicts(body, body, control="ttl=30")[1] == "hit"


def test_scope_and_system_prompt_keep_equal_questions_apart(semantic: Caching) -> None:
    """A variant never sees another's answers."""
    words = "What is the capital of Italy?"
    semantic.ask(chat(words))
    wait_for(lambda: semantic.ask(chat(words.lower()), control="no-store").ours["cache"] == "semantic")
    other = {"messages": [{"role": "system", "content": "Lie."}, {"role": "user", "content": words.lower()}]}
    assert semantic.ask(other, control="no-store").ours["cache"] == "miss"
    for header in (("Authorization", "Bearer b"), ("X-MetalAnchor-Namespace", "variant-b")):
        answer = semantic.ask(chat(words.lower()), control="no-store", headers=[header])
        assert answer.ours["cache"] == "miss"
    assert semantic.ask(chat(words.lower(), temperature=0.5), control="no-store").ours["cache"] == "miss"
