"""The scenarios as data, and the requests that are made of them."""

import json

import pytest

from services.evidence.conversation import Conversation, encoded
from services.evidence.exchange import Reply
from services.evidence.scenarios import load

BOOK = load()
NAMES = [scenario.name for scenario in BOOK.scenario]


def scenario(name: str):
    return next(found for found in BOOK.scenario if found.name == name)


def talk(name: str, turns: int, *, seed: int = 1, salt: str = "s", number: int = 0) -> list[bytes]:
    """The bodies of a session whose every answer is the same."""
    held = Conversation(scenario(name), seed, salt, number)
    bodies = []
    for _ in range(turns):
        bodies.append(encoded(held.body("m", 8)))
        held.hear(Reply(text="Seen."))
    return bodies


def test_five_scenarios_of_107_requests():
    """In the proportions of the source."""
    assert NAMES == ["A", "B", "C", "D", "E"]
    assert sum(found.requests for found in BOOK.scenario) == 107
    assert (scenario("C").sessions, scenario("C").turns) == (1, 10)
    assert (len(scenario("D").tools), scenario("D").sessions) == (5, 10)
    assert scenario("E").requests == 5


def test_scale_and_length():
    """Scale changes how many requests there are, length how long they are; no scenario goes away."""
    small = load(0.1, 0.5)
    assert [found.requests for found in small.scenario] == [3, 6, 5, 15, 3]
    assert [found.system for found in small.scenario] == [found.system // 2 for found in BOOK.scenario]
    assert [found.name for found in load(names="ce").scenario] == ["C", "E"]


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_deterministic(name):
    """The same seed and salt give the same bytes; another of either gives another prefix from the start."""
    assert talk(name, 2) == talk(name, 2)
    for other in (talk(name, 1, seed=2), talk(name, 1, salt="t")):
        ours, theirs = json.loads(talk(name, 1)[0])["messages"][0], json.loads(other[0])["messages"][0]
        assert ours["content"].split()[0] != theirs["content"].split()[0]


@pytest.mark.parametrize("name", ["B", "C", "D"])
def test_each_turn_repeats_all_before_it(name):
    """As agents do: the messages before are the same bytes."""
    first, second = talk(name, 2)
    end = first.index(b'],"stream"')
    assert second.startswith(first[:end])


def test_sessions_share_what_they_should():
    """System and tools, and in E everything; the questions differ else."""
    one, two = (json.loads(talk("B", 1, number=n)[0]) for n in (0, 1))
    assert one["messages"][0] == two["messages"][0]
    assert one["tools"] == two["tools"]
    assert one["messages"][1] != two["messages"][1]
    assert talk("E", 1, number=0) == talk("E", 1, number=1)


def test_results_of_tools_grow_in_scenario_c():
    """Turn by turn; an answer in words gets the result as the user's next message."""
    messages = json.loads(talk("C", 10)[-1])["messages"]
    sizes = [len(message["content"]) for message in messages if message["role"] == "user"][1:]
    assert len(sizes) == 9
    assert sizes[-1] > 1.8 * sizes[0]


def test_a_called_tool_gets_its_result():
    """The call goes back as it came, and an answer a call follows."""
    held = Conversation(scenario("D"), 1, "s", 0)
    call = {"id": "c1", "type": "function", "function": {"name": "list_files", "arguments": "{}"}}
    held.hear(Reply(calls=[call]))
    *_, spoken, result = held.messages
    assert spoken == {"role": "assistant", "content": None, "tool_calls": [call]}
    assert (result["role"], result["tool_call_id"]) == ("tool", "c1")


def test_both_languages_are_spoken():
    """Chinese in B and D, English else."""
    chinese = {name for name in NAMES if any("一" <= char <= "鿿" for char in talk(name, 1)[0].decode())}
    assert chinese == {"B", "D"}


def test_a_cold_twin_differs_in_its_prefix_alone():
    """The same turns behind other instructions of about the same length."""
    held = Conversation(scenario("A"), 1, "s", 0)
    twin = held.cold_twin("cold0")
    assert twin.messages[1:] == held.messages[1:]
    ours, theirs = held.messages[0]["content"], twin.messages[0]["content"]
    assert ours[:3] != theirs[:3] or ours.split()[0] != theirs.split()[0]
    assert abs(len(ours) - len(theirs)) < 0.1 * len(ours)
