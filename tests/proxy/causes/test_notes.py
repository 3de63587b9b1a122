"""Notes tell what happened around a request without claiming that it cost anything."""

from typing import Any

import pytest

from services.proxy.causes.notes import patience
from tests.support.pipeline import Pipeline, codes

RULES = {"role": "system", "content": "RULES " * 100}
U1, A1, U2 = (
    {"role": role, "content": text}
    for role, text in (("user", "hello there"), ("assistant", "ok"), ("user", "go on"))
)


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [RULES, *messages], **more}


@pytest.mark.parametrize(
    "status", ["upstream_error", "upstream_reset", "upstream_unreachable", "client_cancelled"]
)
async def test_equal_bytes_after_a_failure_are_a_retry(status: str) -> None:
    pipeline = Pipeline()
    first = await pipeline.send(chat(U1), status=status)
    flow = await pipeline.send(chat(U1), tokens=(100, 0))
    assert codes(flow)[0] == "retry_of"
    assert flow.causes[0].detail == {"request": first.id, "status": status}


async def test_a_repeat_after_success_is_no_retry() -> None:
    pipeline = Pipeline()
    await pipeline.send(chat(U1))
    assert "retry_of" not in codes(await pipeline.send(chat(U1)))


async def test_the_turn_after_a_cancelled_one() -> None:
    pipeline = Pipeline()
    await pipeline.send(chat(U1), status="client_cancelled", tokens=(100, 0))
    flow = await pipeline.send(chat(U1, A1, U2), tokens=(120, 0))
    assert codes(flow) == ["after_cancel"]


@pytest.mark.parametrize(
    ("headers", "took_s", "expected"),
    [
        ({"x-stainless-read-timeout": "30.0"}, 30.4, True),
        ({"X-Stainless-Timeout": "600"}, 600.2, True),
        ({"x-stainless-read-timeout": "600"}, 30.2, False),
        ({}, 60.3, True),
        ({}, 47.0, False),
        ({"x-stainless-read-timeout": "soon"}, 47.0, False),
    ],
)
async def test_leaving_when_ones_patience_ends(
    headers: dict[str, str], took_s: float, expected: bool
) -> None:
    flow = await Pipeline().send(chat(U1), headers=headers, status="client_cancelled", took_s=took_s)
    assert ("client_timeout_suspected" in codes(flow)) is expected


async def test_leaving_after_the_first_token_is_no_timeout() -> None:
    flow = await Pipeline().send(chat(U1), status="client_cancelled", took_s=60.3, ttft_s=1.0)
    assert codes(flow) == []


def test_a_stated_patience_must_be_a_sane_number() -> None:
    assert patience([(b"X-Stainless-Timeout", b"12.5")]) == 12.5
    assert patience([(b"x-stainless-timeout", b"-1")]) is None
    assert patience([(b"x-stainless-timeout", b"inf")]) is None


@pytest.mark.parametrize(
    ("temperature", "expected"), [(0, ["nondeterministic_repeat"]), (0.7, []), (None, [])]
)
async def test_other_words_at_temperature_0(temperature: float | None, expected: list[str]) -> None:
    pipeline = Pipeline()
    body = chat(U1) if temperature is None else chat(U1, temperature=temperature)
    await pipeline.send(body, reply={"content": "A"})
    flow = await pipeline.send(body, reply={"content": "B"})
    assert codes(flow) == expected
    again = await pipeline.send(body, reply={"content": "B"})
    assert len(codes(again)) == len(expected)


def called(number: str) -> list[dict[str, Any]]:
    call = {"id": number, "type": "function", "function": {"name": "w", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "sunny", "tool_call_id": number},
    ]


async def test_renamed_tool_ids_are_noted_and_break_nothing() -> None:
    pipeline = Pipeline()
    await pipeline.send(chat(U1, *called("call_1")))
    flow = await pipeline.send(chat(U1, *called("call1"), A1, U2))
    assert codes(flow) == ["tool_id_changed"]
    assert flow.verdict is not None
    assert flow.verdict.relation == "append"


async def test_ids_of_other_conversations_do_not_matter() -> None:
    pipeline = Pipeline()
    await pipeline.send(chat(U1, *called("call_1")))
    other = {"role": "user", "content": "a different question altogether"}
    await pipeline.send(chat(other, *called("call_2")))
    assert codes(await pipeline.send(chat(other, *called("call_2"), A1, U2))) == []


async def test_the_same_image_in_another_envelope() -> None:
    def seen(url: str) -> dict[str, Any]:
        parts = [{"type": "text", "text": "look at this"}, {"type": "image_url", "image_url": {"url": url}}]
        return {"role": "user", "content": parts}

    data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
    pipeline = Pipeline()
    await pipeline.send(chat(seen(f"data:image/png;base64,{data}")))
    flow = await pipeline.send(chat(seen(f"data:image/jpeg;base64,{data}"), A1, U2))
    assert codes(flow) == ["image_encoding_changed"]
