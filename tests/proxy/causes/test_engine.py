"""Engine causes are said when, and only when, the timeline and the measured figures bear them out."""

from typing import Any

import pytest

from services.proxy.flow import Flow
from tests.support.pipeline import Pipeline, codes

RULES = "RULES " * 200
U1 = {"role": "user", "content": "hello, please help me with this task " * 3}
A1, U2 = {"role": "assistant", "content": "ok"}, {"role": "user", "content": "next thing"}
TITLE = {
    "model": "m",
    "messages": [{"role": "user", "content": "Create a 3 word title for: x"}],
    "max_tokens": 20,
}
OTHER_TITLE = {**TITLE, "messages": [{"role": "user", "content": "Create a 3 word title for: y"}]}

Step = tuple[dict[str, Any], dict[str, Any]]


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "messages": [{"role": "system", "content": RULES}, *messages],
        "stream": False,
        **more,
    }


def ollama(
    body: dict[str, Any], total: int, cached: int | None, load_s: float | None = None, **opts: Any
) -> Step:
    told = {"prompt_eval_count": total, "eval_count": 3, "done": True, "done_reason": "stop"}
    if cached is not None:
        told["prompt_eval_cached_count"] = cached
    if load_s is not None:
        told["load_duration"] = int(load_s * 1e9)
    answer = {"model": "m", "message": {"role": "assistant", "content": "ok"}, **told}
    return body, {"path": "/api/chat", "answer": answer, **opts}


async def last(*steps: Step, kind: str | None = "llama-server", **options: Any) -> Flow:
    pipeline = Pipeline(kind, version="0.33.3" if kind == "ollama" else None, **options)
    for body, opts in steps:
        flow = await pipeline.send(body, **opts)
    return flow


def told(body: dict[str, Any], total: int | None, cached: int | None, **opts: Any) -> Step:
    return body, {"tokens": (total, cached), **opts}


FIRST, SECOND = told(chat(U1), 500, 0), told(chat(U1, A1, U2), 540, 0)


async def reload(*steps: Step) -> Flow:
    return await last(*steps, kind="ollama")


async def test_another_clients_load_call_is_blamed_for_the_reload() -> None:
    load = {"model": "m", "messages": [], "options": {"num_ctx": 16_384}}
    flow = await reload(
        ollama(chat(U1, options={"num_ctx": 8192}), 500, 0, 5),
        ollama(load, 0, None),
        ollama(chat(U1, A1, U2, options={"num_ctx": 16_384}), 540, 0, 0.02),
    )
    detail = flow.causes[0].detail
    assert (flow.causes[0].code, detail["old"], detail["new"]) == ("model_reload", 8192, 16_384)
    assert detail["by_request"] != flow.id


@pytest.mark.parametrize(
    "extra", [{"options": {"num_ctx": 9216}}, {"options": {"num_ctx": 8192, "num_gpu": 3}}, {}]
)
async def test_load_options_that_differ_reload(extra: dict[str, Any]) -> None:
    first = ollama(chat(U1, options={"num_ctx": 8192}), 500, 0, 5)
    flow = await reload(first, ollama(chat(U1, A1, U2, **extra), 540, 0, 5))
    assert codes(flow) == ["model_reload"]
    assert flow.causes[0].detail["by_request"] == flow.id


async def test_a_model_that_was_ready_was_not_reloaded() -> None:
    first = ollama(chat(U1, options={"num_ctx": 8192}), 500, 0, 5)
    flow = await reload(first, ollama(chat(U1, A1, U2, options={"num_ctx": 9216}), 540, 500, 0.02))
    assert codes(flow) == []


@pytest.mark.parametrize(
    ("first", "gap_s", "load_s", "expected"),
    [
        ({}, 400, 3, "model_unloaded"),
        ({}, 400, None, "model_unloaded"),
        ({}, 100, 4, "model_unloaded"),
        ({"keep_alive": "10s"}, 20, 0.9, "model_unloaded"),
        ({"keep_alive": -1}, 4000, 0.02, None),
        ({"keep_alive": "30m"}, 1000, 0.02, None),
        ({}, 400, 0.03, None),
        ({}, 200, 0.03, None),
    ],
)
async def test_idle_time_against_keep_alive(
    first: dict[str, Any], gap_s: float, load_s: float | None, expected: str | None
) -> None:
    cached = 0 if expected else 500
    step = ollama(chat(U1, A1, U2), 540, cached, load_s, after_s=gap_s)
    flow = await reload(ollama(chat(U1, **first), 500, 0, 5), step)
    assert codes(flow) == ([expected] if expected else [])


async def test_the_cause_is_foreseen_before_the_answer() -> None:
    """What the timeline alone tells is known when the headers leave."""
    from services.proxy.placing.place import place
    from services.proxy.settling.settle import foresee

    pipeline = Pipeline("ollama", version="0.33.3")
    body, opts = ollama(chat(U1), 500, 0, 5)
    await pipeline.send(body, **opts)
    flow = pipeline.arrive(chat(U1, A1, U2, options={"num_ctx": 9216}), path="/api/chat")
    await place(flow, pipeline)
    foresee(flow, pipeline)
    assert codes(flow) == ["model_reload"]


@pytest.mark.parametrize(
    ("content", "options", "evaluated", "expected"),
    [
        ("All the words. " * 4000, {"num_ctx": 2048}, 2048, "context_truncated"),
        ("这是一个很长的问题。" * 2000, {"num_ctx": 4096}, 4096, "context_truncated"),
        ("All the words. " * 4000, {"num_ctx": 4096}, 2600, "context_truncated"),
        ("All the words. " * 4000, {}, 4096, "context_truncated"),
        ("All the words. " * 200, {"num_ctx": 4096}, 820, None),
        ("All the words. " * 4000, {"num_ctx": 32_768}, 16_000, None),
    ],
)
async def test_a_context_that_was_cut(
    content: str, options: dict[str, Any], evaluated: int, expected: str | None
) -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": content}],
        "stream": False,
        "options": options,
    }
    assert codes(await reload(ollama(body, evaluated, None))) == ([expected] if expected else [])


async def test_a_cut_context_teaches_nothing_about_tokens() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "All the words. " * 4000}],
        "stream": False,
    }
    pipeline = Pipeline("ollama", version="0.33.3")
    step, opts = ollama({**body, "options": {"num_ctx": 2048}}, 2048, None)
    await pipeline.send(step, **opts)
    assert pipeline.estimator.error("backend:1 m") is None


@pytest.mark.parametrize(
    ("between", "slots", "cached", "expected"),
    [
        ([TITLE], 1, 0, ["evicted_by"]),
        ([TITLE], 2, 500, []),
        ([TITLE, OTHER_TITLE], 2, 0, ["evicted_by"]),
        ([TITLE], 1, 500, []),
        ([TITLE], 1, None, []),
    ],
)
async def test_a_taken_slot_needs_takers_and_a_measured_loss(
    between: list[dict[str, Any]], slots: int, cached: int | None, expected: list[str]
) -> None:
    steps = [FIRST, *(told(body, 20, 0) for body in between), told(chat(U1, A1, U2), 540, cached)]
    assert codes(await last(*steps, facts={"total_slots": slots})) == expected


async def test_a_request_that_never_ran_took_nothing() -> None:
    failed = told(TITLE, None, None, status="upstream_error")
    assert "evicted_by" not in codes(await last(FIRST, failed, SECOND))


async def test_a_failed_request_left_nothing_to_find() -> None:
    """Its retry is cold by nature: the engine is not blamed."""
    failed = told(chat(U1, A1, U2), None, None, status="upstream_error")
    assert codes(await last(FIRST, failed, SECOND)) == ["retry_of"]


async def test_a_server_that_only_speaks_openai_has_one_slot_like_any_other() -> None:
    assert codes(await last(FIRST, told(TITLE, 20, 0), SECOND, kind="openai")) == ["evicted_by"]


async def test_a_shared_cache_has_no_slot_to_take() -> None:
    assert codes(await last(FIRST, told(TITLE, 20, 0), SECOND, kind="vllm")) == ["engine_unknown"]


async def test_whole_blocks_only() -> None:
    assert codes(await last(FIRST, told(chat(U1, A1, U2), 540, 496), kind="vllm")) == []
    steps = told(chat(U1), 1600, 0), told(chat(U1, A1, U2), 1700, 1024)
    assert codes(await last(*steps, kind="vllm")) == ["engine_granularity"]


async def test_an_edit_is_not_the_neighbours_fault_and_the_amount_is_explained() -> None:
    ten = [{"role": "assistant" if k % 2 else "user", "content": f"message {k} " * 20} for k in range(10)]
    edited = [*ten[:-1], {"role": "assistant", "content": "edited"}]
    whole = await last(told(chat(*ten), 1000, 0), told(chat(*edited), 1000, 0))
    assert codes(whole) == ["history_rewrite", "checkpoint_or_window"]
    plain = await last(told(chat(*ten), 1000, 0), told(chat(*edited), 1000, 900))
    assert codes(plain) == ["history_rewrite"]


async def test_a_repeat_that_found_nothing() -> None:
    steps = FIRST, told(chat(U1, A1, U2), 540, 500), SECOND
    assert codes(await last(*steps)) == ["engine_no_rewind_suspected"]
    assert codes(await last(FIRST, FIRST)) == ["engine_unknown"]


async def test_the_cache_was_switched_off() -> None:
    off = chat(U1, cache_prompt=False), chat(U1, A1, U2, cache_prompt=False)
    assert codes(await last(told(off[0], 500, 0))) == []
    assert codes(await last(told(off[0], 500, 0), told(off[1], 540, 0))) == ["client_disabled_cache"]


FORKED = {"role": "user", "content": "something else entirely, please"}


@pytest.mark.parametrize(
    ("kind", "cached", "expected"),
    [
        ("llama-server", 0, ["checkpoint_or_window"]),
        ("llama-server", 280, []),
        ("mlx_lm", 0, []),
        (None, 0, []),
    ],
)
async def test_a_fork_that_finds_less_than_the_shared_head(
    kind: str, cached: int, expected: list[str]
) -> None:
    """Nobody came between; one that cuts a slot back may not be able to cut there, of others none knows."""
    flow = await last(told(chat(U1), 330, 0), told(chat(FORKED), 310, cached), kind=kind)
    assert flow.verdict is not None
    assert flow.verdict.relation == "fork"
    assert codes(flow) == expected
    assert (flow.lost_tokens or 0) >= (250 if expected else 0)


async def test_a_fork_whose_head_another_request_overwrote() -> None:
    steps = told(chat(U1), 330, 0), (TITLE, {"tokens": (20, 0)}), told(chat(FORKED), 310, 0)
    flow = await last(*steps)
    assert (codes(flow), flow.causes[0].detail["kind"]) == (["evicted_by"], "side_request")
