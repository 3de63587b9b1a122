"""Learned aliases, with a scripted model as the judge."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.semantic.base import Question
from services.semantic.learning import ROUNDS, Learner
from services.semantic.matcher import SemanticMatcher
from tests.semantic.test_matcher import Letters, until
from tests.support.jsonserver import JsonServer
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

STORED, ASKED = "What are the symptoms of the flu?", "Which signs show the flu in people?"
YES, NO = '{"same": true}', '{"same": false}'


def question(text: str, group: str = "g") -> Question:
    return Question(text=text, group=group)


def says(*texts: Any) -> Any:
    """A model that says these in turn, then the last for ever."""
    left = list(texts)
    return lambda path, body: {
        "choices": [{"message": {"content": left.pop(0) if len(left) > 1 else left[0]}}]
    }


async def answer_of(key: str) -> str | None:
    return {"k": "Fever, cough, aching limbs."}.get(key)


class Loose(Letters):
    """Finds everything near."""

    threshold = 0.0


@pytest.fixture
async def matcher(valkey: Valkey, json_server: JsonServer) -> AsyncIterator[SemanticMatcher]:
    made = SemanticMatcher(valkey.url, Loose(), voters=(json_server.url, "judge"))
    await made.start()
    try:
        await until(lambda: made.status()["up"])
        await made.add(question(STORED), "k", 60)
        await made.settled()
        yield made
    finally:
        await made.close()


async def learned(matcher: SemanticMatcher, json_server: JsonServer, idle: Any = lambda: True) -> None:
    assert matcher.aliases is not None
    learner = Learner(json_server.url, "judge", matcher.aliases, answer_of, idle)
    while await learner.learn():
        pass
    await learner.close()


async def test_a_near_miss_becomes_an_alias_when_every_vote_is_yes(
    matcher: SemanticMatcher, json_server: JsonServer
):
    """The first time it is a miss; from then on a match that lists its evidence."""
    json_server.answer = says(YES)
    assert await matcher.find(question(ASKED)) is None
    await learned(matcher, json_server)
    match = await matcher.find(question(ASKED))
    assert match is not None
    assert (match.key, match.rule, match.similarity) == ("k", "alias", None)
    assert matcher.aliases is not None
    (alias,) = await matcher.aliases.list()
    assert (alias.id, alias.asked, alias.stored) == (match.alias, ASKED, STORED)
    evidence = alias.evidence
    assert (evidence.model, evidence.votes, evidence.refused_by) == ("judge", 2 * ROUNDS, "words")
    assert len(json_server.seen) == 2 * ROUNDS


async def test_both_ways_round_are_asked_with_the_stored_answer(
    matcher: SemanticMatcher, json_server: JsonServer
):
    """Each vote sees both questions and the answer, as JSON strings."""
    json_server.answer = says(YES)
    await matcher.find(question(ASKED))
    await learned(matcher, json_server)
    shown = [body["messages"][1]["content"] for _, body in json_server.seen]
    assert all(json.dumps("Fever, cough, aching limbs.") in text for text in shown)
    firsts = {f"STORED QUESTION: {json.dumps(text)}" for text in (STORED, ASKED)}
    assert {text.split("\n")[0] for text in shown} == firsts
    assert {path for path, _ in json_server.seen} == {"/v1/chat/completions"}


@pytest.mark.parametrize(
    "votes",
    [(NO,), (YES,) * 5 + (NO,), ("yes",), ("same: true",), ("",), (None,), ('{"same": 1}',),
     (YES + " because",), ('{"same": true, "sure": false}',)],
)  # fmt: skip
async def test_one_vote_that_is_not_yes_is_enough_to_refuse(
    matcher: SemanticMatcher, json_server: JsonServer, votes: Any
):
    """And the pair is not put to the vote again."""
    json_server.answer = says(*votes)
    await matcher.find(question(ASKED))
    await learned(matcher, json_server)
    assert await matcher.find(question(ASKED)) is None
    json_server.answer = says(YES)
    await learned(matcher, json_server)
    assert await matcher.find(question(ASKED)) is None


@pytest.mark.parametrize(
    "asked",
    [
        "What are the symptoms of the flu 2?",
        "What are not the symptoms of the flu?",
        'What are "the" symptoms?',
    ],
)
async def test_what_the_gate_refuses_for_a_reason_is_never_put_to_the_vote(
    matcher: SemanticMatcher, json_server: JsonServer, asked: str
):
    """A model that says yes to everything cannot overrule a number, a negation or a quotation."""
    json_server.answer = says(YES)
    await matcher.find(question(asked))
    await learned(matcher, json_server)
    assert json_server.seen == []
    assert await matcher.find(question(asked)) is None


async def test_an_alias_stays_in_its_group(matcher: SemanticMatcher, json_server: JsonServer):
    """Another scope or model learns nothing from it."""
    json_server.answer = says(YES)
    await matcher.find(question(ASKED))
    await learned(matcher, json_server)
    assert await matcher.find(question(ASKED, "other")) is None


async def test_an_alias_can_be_revoked(matcher: SemanticMatcher, json_server: JsonServer):
    """From then on the question goes to the backend again."""
    json_server.answer = says(YES)
    await matcher.find(question(ASKED))
    await learned(matcher, json_server)
    match = await matcher.find(question(ASKED))
    assert match is not None
    assert match.alias is not None
    assert matcher.aliases is not None
    assert await matcher.aliases.revoke([match.alias]) == 1
    assert await matcher.find(question(ASKED)) is None
    assert await matcher.aliases.list() == []


async def test_an_alias_goes_with_its_answer(matcher: SemanticMatcher, json_server: JsonServer):
    """What was invalidated is not found by another name."""
    json_server.answer = says(YES)
    await matcher.find(question(ASKED))
    await learned(matcher, json_server)
    await matcher.remove(["k"])
    assert await matcher.find(question(ASKED)) is None
    assert matcher.aliases is not None
    assert await matcher.aliases.list() == []


async def test_nothing_is_learned_while_the_machine_is_busy(
    matcher: SemanticMatcher, json_server: JsonServer
):
    """A vote that was begun is given up as soon as there is work."""
    json_server.answer = says(YES)
    await matcher.find(question(ASKED))
    times = iter([True, True, False])
    await learned(matcher, json_server, idle=lambda: next(times, False))
    assert len(json_server.seen) == 2
    assert await matcher.find(question(ASKED)) is None


async def test_learning_runs_beside_the_requests(matcher: SemanticMatcher, json_server: JsonServer):
    """Once started it learns by itself, and survives a judge that fails."""
    json_server.answer = lambda path, body: 500
    await matcher.find(question(ASKED))
    matcher.learn(answer_of, idle=lambda: True)
    await until(lambda: len(json_server.seen) == 1)


async def test_off_means_that_nothing_is_noted(valkey: Valkey):
    """Without a model set, near misses leave no trace."""
    plain = SemanticMatcher(valkey.url, Loose())
    await plain.start()
    await until(lambda: plain.status()["up"])
    await plain.add(question(STORED), "k", 60)
    await plain.settled()
    assert await plain.find(question(ASKED)) is None
    with valkey.client() as client:
        assert client.exists("metalanchor:{semantic}:misses") == 0
    await plain.close()
