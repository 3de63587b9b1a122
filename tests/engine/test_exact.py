"""The exact token on the real engine: what its own tokeniser says is what its cache then shows."""

import json

import pytest

from tests.engine.chat import Stack, system_prompt

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(240)]


def test_a_clock_in_the_middle_breaks_at_its_own_token(stack: Stack):
    """The engine cannot have reused more than the tokens before the clock; and they are there, exactly."""
    rules = system_prompt("Elnath", rules=12)
    heads = [f"{rules}\nIt is 10:15:0{k} now.\n{rules}" for k in (7, 9)]
    turns = [{"role": "user", "content": "Name part 7."}]
    stack.openai([{"role": "system", "content": heads[0]}, *turns])
    changed = stack.openai([{"role": "system", "content": heads[1]}, *turns])
    answer = stack.proxy.request(
        "POST", f"/metalanchor/api/requests/{changed.ours['request-id']}/exact", timeout=60.0
    )
    found = json.loads(answer.body)
    assert answer.status == 200, found
    assert found["broken"] is True
    assert found["tokens"] == changed.prompt
    assert 0 < found["token"] < found["tokens"] / 2 + 20
    assert changed.cached <= found["token"]
    assert "10:15:07" in found["before"]
    assert "10:15:09" in found["after"]
