"""A scenario on the real engine: what `metalanchor bench` measures is what llama.cpp reports."""

import pytest

from services.evidence.results import summary
from services.evidence.runner import Runner, Target
from services.evidence.scenarios import load
from tests.engine.chat import Stack

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(240)]


def test_an_identical_request_is_reused_whole(stack: Stack) -> None:
    """All but the first time, as predicted to within five points."""
    book = load(0.1, 0.25, "E")
    target = Target(
        stack.proxy.url, stack.engine_url, "m", lambda i: stack.proxy.json(f"/api/requests/{i}"), {}, {}
    )
    found = summary(book, Runner(target, book, 1, "engine", told=lambda _: None).run())["scenarios"]

    first, *again = found["E"]["reuse_by_turn"]
    assert first < 0.1
    assert all(share > 0.95 for share in again)
    assert found["E"]["measured_reuse"] == pytest.approx(found["E"]["predicted_reuse"], abs=0.05)
    assert found["E"]["hits"] == {"exact": 2, "none": 1}
    assert found["E"]["tokens_saved"] > 0
