"""An explanation has the agreed shape, excerpts in memory only, and a rebuild from its row without them."""

import json
from typing import Any

import msgspec

from services.proxy.settling.explain import EXCERPT, Explanations, excerpt, explain_of, explain_row
from services.proxy.settling.row import record_of
from tests.support.pipeline import Engine, Pipeline

KEYS = {
    "id", "parent_id", "relation", "hit", "predicted", "observed", "diverged_at", "byte_offset",
    "offset_precision", "before", "after", "equal_after_divergence", "causes", "evicted_by", "lost_tokens",
    "lost_ms", "advice", "fixes",
}  # fmt: skip
SECRET = "the launch code is swordfish"


def chat(clock: str, *more: str) -> dict[str, Any]:
    system = f"You are Claw.\nMonday {clock}\n{SECRET}\n" + "Rules. " * 300
    roles = ("user", "assistant")
    turns = [{"role": roles[k % 2], "content": text} for k, text in enumerate(more)]
    return {"model": "m", "messages": [{"role": "system", "content": system}, *turns]}


async def broken(**options: Any) -> tuple[Pipeline, Any]:
    pipeline = Pipeline(engine=Engine(), **options)
    await pipeline.send(chat("10:41", "hello"))
    return pipeline, await pipeline.send(chat("10:42", "hello", "ok", "and now"))


async def test_the_shape_is_the_contracts() -> None:
    pipeline, flow = await broken()
    found = pipeline.explanations.get(flow.id)
    assert found is not None
    assert set(found) == KEYS
    assert set(found["predicted"]) == {"reuse", "tokens", "chunks"}
    assert set(found["observed"]) == {"prompt_tokens", "cached_tokens", "source", "confidence", "reuse"}
    assert set(found["causes"][0]) == {"code", "at", "detail", "severity"}
    json.dumps(found)


async def test_excerpts_surround_the_divergence() -> None:
    _, flow = await broken()
    found = explain_of(flow)
    assert "Monday 10:41" in found["before"]
    assert "Monday 10:42" in found["after"]
    assert len(found["after"].encode()) <= 2 * EXCERPT
    assert (found["diverged_at"], found["byte_offset"]) == ("system", 25)
    assert found["lost_tokens"] > 300


async def test_without_text_there_are_no_excerpts() -> None:
    pipeline, flow = await broken(keep_text=False)
    found = pipeline.explanations.get(flow.id)
    assert found is not None
    assert (found["before"], found["after"]) == (None, None)
    assert found["offset_precision"] > 1


async def test_excerpts_go_after_their_time() -> None:
    _, flow = await broken()
    kept = Explanations(ttl_s=-1.0, enabled=True)
    kept.put(flow)
    found = kept.get(flow.id)
    assert found is not None
    assert (found["before"], found["after"]) == (None, None)


async def test_only_so_many_are_kept() -> None:
    _, flow = await broken()
    kept = Explanations(60, enabled=True)
    for number in range(5_000):
        flow.id = str(number)
        kept.put(flow)
    assert kept.get("0") is None
    assert kept.get("4999") is not None


async def test_a_row_explains_itself_without_text() -> None:
    _, flow = await broken()
    record = record_of(flow)
    line = msgspec.json.encode(record)
    assert SECRET.encode() not in line
    assert b"10:41" not in line
    row = {name: getattr(record, name) for name in record.__struct_fields__}
    told, rebuilt = explain_of(flow), explain_row(row)
    assert set(rebuilt) == KEYS
    assert rebuilt["before"] is None
    without = KEYS - {"before", "after"}
    assert {name: rebuilt[name] for name in without} == {name: told[name] for name in without}


async def test_the_row_names_cause_place_and_cost() -> None:
    _, flow = await broken()
    record = record_of(flow)
    assert (record.cause, record.diverged_at, record.byte_offset) == ("timestamp", "system", 25)
    assert record.causes
    assert record.lost_tokens
    assert record.parent_id == flow.verdict.parent.node.id
    assert record.cached_source == "usage"
    assert len(record.chunk_hashes or "") == 16 * (record.chunk_count or 0)


def test_an_excerpt_keeps_to_whole_characters() -> None:
    text = "日本語のテキスト".encode() * 20
    for offset in range(len(text)):
        found = excerpt(text, offset)
        assert found is not None
        assert "\ufffd" not in found
    assert excerpt(None, 3) is None
