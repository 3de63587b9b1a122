"""Phases, places in the queue and progress of requests that are under way; pure."""

import time

import pytest

from services.proxy.admin.underway import ahead_of, describe, phase_of, progress_of
from services.proxy.backends.backend import Backend
from services.proxy.dialects.base import Outcome
from services.proxy.flow import Cause, Flow, Verdict
from services.proxy.prompt import Prompt
from services.proxy.settling.speed import Speeds


def server(slots=1, kind="llama-server"):
    """A model server that works on so many requests at a time."""
    return Backend(name="b", url="http://b:1", kind=kind, facts={"total_slots": slots}, status="up")


def flow(backend, *, model="m", sent=True, answered=False, token=False, kind="generation", **changes):
    """A request that came as far as that."""
    now = time.perf_counter()
    return Flow(
        backend=backend, method="POST", path="/v1/chat/completions",
        prompt=Prompt(dialect="openai_chat", kind=kind, model=model, stream=True),
        sent_at=now if sent else None, answered_at=now if answered else None,
        outcome=Outcome(first_token_at=now if token else None), **changes,
    )  # fmt: skip


def test_phases_of_a_request_alone():
    """Before it is sent, while the engine reads, and once it answers."""
    one = server()

    assert phase_of(flow(one, sent=False), 0) == "queued"
    assert phase_of(flow(one), 0) == "prefill"
    assert phase_of(flow(one, answered=True), 0) == "prefill"
    assert phase_of(flow(one, answered=True, token=True), 0) == "streaming"


@pytest.mark.parametrize("code", ["model_reload", "model_unloaded"])
def test_a_foreseen_load_is_a_phase(code):
    """Until the server answers; a loss of another kind is none."""
    causes = [Cause(code=code, severity="loss")]

    assert phase_of(flow(server(), causes=causes), 0) == "loading"
    assert phase_of(flow(server(), causes=causes, answered=True), 0) == "prefill"
    assert phase_of(flow(server(), causes=[Cause(code="timestamp", severity="break")]), 0) == "prefill"


def test_the_engine_queues_what_exceeds_its_slots():
    """Two slots, four requests: the third waits for one, the fourth for two."""
    two = server(slots=2)
    live = [flow(two) for _ in range(4)]

    assert [ahead_of(one, live) for one in live] == [0, 0, 1, 2]
    assert [item.phase for item in describe(live, Speeds())] == ["prefill", "prefill", "queued", "queued"]
    assert [item.ahead for item in describe(live, Speeds())] == [0, 0, 1, 2]


def test_another_model_or_server_is_another_queue():
    """And a server without slots has none."""
    one, slotless = server(), server(kind="vllm")
    slotless.facts = {}

    assert ahead_of(flow(one, model="b"), [flow(one, model="a")]) == 0
    live = [flow(one), flow(slotless), flow(slotless)]
    assert [ahead_of(item, live) for item in live] == [0, 0, 0]


def test_an_answer_that_has_begun_is_not_queued():
    """Whatever the guess about slots was."""
    one = server()
    live = [flow(one), flow(one, answered=True)]

    assert ahead_of(live[1], live) == 0


def test_progress_comes_from_the_engine_where_it_tells():
    """Tokens done and to do, as it counts them."""
    asked = flow(server(), answered=True)
    asked.outcome.progress = (300, 900)
    found = progress_of(asked, "prefill", Speeds(), time.perf_counter())

    assert (found.done, found.total, found.source) == (300, 900, "engine")


def test_progress_is_judged_by_a_learnt_rate_else():
    """Half the expected time is half the prompt; never more than all; nothing where no rate is known."""
    speeds, waiting = Speeds(), flow(server())
    waiting.verdict = Verdict(prompt_estimate=5_000, predicted_tokens=1_000)

    assert progress_of(waiting, "prefill", speeds, waiting.sent_at + 1) is None
    speeds.learn(("b", "m"), 2_000, 1_000.0)  # two tokens a millisecond
    half = progress_of(waiting, "prefill", speeds, waiting.sent_at + 1)
    assert (half.done, half.total, half.source) == (2_000, 4_000, "rate")
    assert progress_of(waiting, "prefill", speeds, waiting.sent_at + 60).done == 4_000
    assert progress_of(waiting, "streaming", speeds, waiting.sent_at + 1) is None


def test_probes_are_left_out_unless_asked_for():
    """Generations are what people wait for."""
    one = server()
    live = [flow(one), flow(one, kind="embedding"), Flow(backend=one, method="GET", path="/api/tags")]

    assert [item.kind for item in describe(live, Speeds())] == ["generation"]
    assert [item.kind for item in describe(live, Speeds(), everything=True)] == [
        "generation",
        "embedding",
        "other",
    ]


def test_what_is_not_known_yet_is_null():
    """A request whose body is still arriving has no model."""
    (item,) = describe([Flow(backend=server(), method="POST", path="/x")], Speeds(), everything=True)

    assert (item.phase, item.model, item.agent, item.hit, item.estimated_tokens) == (
        "queued", None, None, None, None,
    )  # fmt: skip
