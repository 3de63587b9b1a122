"""The most repeated requests whose bodies are kept, on both databases."""

from typing import Any

import pytest

from services.history.engine import open_engine
from services.history.repeated import most_repeated
from tests.support.bodies import keep

pytestmark = pytest.mark.process


def found(url: str, most: int = 10) -> Any:
    """What is repeated there."""
    engine = open_engine(url)
    with engine.connect() as connection:
        told = most_repeated(connection, most)
    engine.dispose()
    return told


def test_what_was_sent_most_often_comes_first_to_the_byte(history_url: str) -> None:
    """Apart by caller and route; what was sent once is no repeat, and a probe no generation."""
    often, twice, once = b'{"a": 1}', b'{"b":2}', b'{"c":3}'
    keep(history_url, [(often, {})] * 3 + [(twice, {"endpoint": "/v1/chat/completions"})] * 2)
    keep(history_url, [(once, {}), (often, {"scope": "other"}), (often, {"scope": "other"})])
    keep(history_url, [(b"{}", {"kind": "other"})] * 4)
    told = found(history_url)
    assert [(one.body, one.times) for one in told.requests[:1]] == [(often, 3)]
    assert {(one.body, one.times) for one in told.requests[1:]} == {(twice, 2), (often, 2)}
    assert {one.endpoint for one in told.requests} == {"/api/chat", "/v1/chat/completions"}
    assert told.unusable == 0
    assert [one.times for one in found(history_url, 1).requests] == [3]


def test_what_was_masked_or_cut_is_not_sent_again(history_url: str) -> None:
    """It is no longer the request that was sent; it is counted."""
    keep(history_url, [(b'{"key": "sk-1"}', {})] * 2, kept=b'{"key": "***"}')
    assert found(history_url) == ([], 1)
