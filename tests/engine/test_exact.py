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


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
def test_requests_that_the_engine_converts_break_at_the_token_it_shows(stack: Stack, path: str):
    """Its count confirms the conversion; its cache holds no more than the tokens before the break."""
    rules = system_prompt(f"Enif{path[-3:]}", rules=12)
    answers = []
    for k in (7, 9):
        head, ask = f"{rules}\nIt is 10:15:0{k} now.\n{rules}", {"role": "user", "content": "Name part 7."}
        messages = {"system": [{"type": "text", "text": head}], "messages": [ask], "max_tokens": 8}
        body = messages if path == "/v1/messages" else {"instructions": head, "input": [ask]}
        limit = {} if path == "/v1/messages" else {"max_output_tokens": 8}
        answers.append(stack.post(path, {"model": "m", **body, **limit}))
    told = answers[1].ours["request-id"]
    answer = stack.proxy.request("POST", f"/metalanchor/api/requests/{told}/exact", timeout=60.0)
    found = json.loads(answer.body)
    assert answer.status == 200, found
    row = stack.proxy.row(answers[1])
    assert row["prompt_tokens"] == found["tokens"]
    assert row["cached_tokens"] <= found["token"] < found["tokens"] / 2 + 20
    assert ("10:15:07" in found["before"], "10:15:09" in found["after"]) == (True, True)
