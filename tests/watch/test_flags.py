"""The doctor names the flags that hide or lose hits, on evidence alone."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services.cli import run
from services.history.engine import open_engine
from services.history.migrate import upgrade
from services.history.tables import time_of
from services.watch.evidence import Used, used_since
from tests.support.admin import fill
from tests.support.modelserver import KINDS, Answers, ModelServer
from tests.support.proxy import free_port
from tests.support.records import make_record

pytestmark = pytest.mark.process
FOLDER = Path(__file__).with_name("metrics")
METRICS = (FOLDER / "vllm.txt").read_text("utf-8")
Diagnose = Callable[..., dict[str, str]]


@pytest.fixture
def diagnose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Diagnose]:
    """What `doctor` says of flags, for a server with these answers and a history of such requests."""
    started: list[ModelServer] = []
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    monkeypatch.setenv("METALANCHOR_DATABASE_URL", url)
    monkeypatch.setenv("METALANCHOR_PORT", str(free_port()))

    def ask(answers: Answers, count: int = 0, **columns: Any) -> dict[str, str]:
        server = ModelServer(answers)
        started.append(server)
        monkeypatch.setenv("METALANCHOR_BACKEND_URL", server.url)
        name = server.url.removeprefix("http://")
        lineages = columns.pop("lineages", 1)
        known = {"backend": name, "received_at": time.time_ns() // 1_000_000, **columns}
        fill(url, [make_record(lineage=f"l{n % lineages}", **known) for n in range(count)])
        capsys.readouterr()
        run(["doctor", "--json"])
        rows = {row["check"]: row for row in json.loads(capsys.readouterr().out)["items"]}
        return dict(rows["flags"])

    yield ask
    for server in started:
        server.stop()


def vllm(metrics: str = METRICS) -> Answers:
    return {**KINDS["vllm"], "/metrics": (200, metrics)}


def llama(slots: int = 1, **more: Any) -> Answers:
    props = {"default_generation_settings": {"n_ctx": 8192}, "total_slots": slots}
    metrics = (FOLDER / "llama-server.txt").read_text("utf-8")
    return {"/": (200, ""), "/props": (200, props), "/metrics": (200, metrics), "/slots": (200, []), **more}


UNTOLD = {"cached_tokens": None, "cached_source": None, "cached_field": None, "prompt_tokens": 4_000}
TOLD = {"cached_tokens": 3_000, "cached_source": "usage", "prompt_tokens": 4_000}


def test_a_vllm_that_shows_and_keeps_its_hits_has_no_fault(diagnose: Diagnose):
    """Nor has one of which nothing is known yet."""
    assert diagnose(vllm(), 8, **TOLD)["result"] == "ok"
    found = diagnose(vllm())
    assert (found["result"], "nothing seen" in found["about"]) == ("ok", True)


def test_hits_that_answers_do_not_tell(diagnose: Diagnose):
    """The server counts hits, its answers never held any."""
    found = diagnose(vllm(), 8, **UNTOLD)
    assert (found["result"], found["advice"]) == ("warn", "Start vLLM with --enable-prompt-tokens-details.")
    assert "8 answers" in found["about"]


def test_an_inferred_hit_is_not_a_told_one(diagnose: Diagnose):
    """What the proxy made of times does not show that the flag is on."""
    inferred = {**UNTOLD, "cached_tokens": 100, "cached_source": "inferred_ttft"}
    assert "--enable-prompt-tokens-details" in diagnose(vllm(), 8, **inferred)["advice"]


@pytest.mark.parametrize("count", [0, 4])
def test_few_requests_are_no_evidence(diagnose: Diagnose, count: int):
    """Somebody's first tries."""
    assert diagnose(vllm(), count, **UNTOLD)["result"] == "ok"


def test_prefix_caching_that_is_off(diagnose: Diagnose):
    """The server shows its own setting; that it tells of no hits then is no second fault."""
    off = METRICS.replace('enable_prefix_caching="True"', 'enable_prefix_caching="False"')
    found = diagnose(vllm(off), 8, **UNTOLD)
    assert found["advice"] == "Start vLLM with --enable-prefix-caching."


@pytest.mark.parametrize(
    ("block", "prompt", "words"),
    [
        (16, 4_000, None),
        (1_024, 4_000, "13% of such a prompt is lost"),
        (1_024, 600, "nothing of those"),
        (1_024, 90_000, None),
    ],
)
def test_blocks_against_the_prompts_that_came(diagnose: Diagnose, block: int, prompt: int, words: str | None):
    """Only whole blocks are reused: half a block is lost on average."""
    metrics = METRICS.replace('block_size="16"', f'block_size="{block}"')
    found = diagnose(vllm(metrics), 8, **{**TOLD, "cached_tokens": 0, "prompt_tokens": prompt})
    assert found["result"] == ("warn" if words else "ok")
    if words:
        assert words in found["about"]
        assert "--block-size" in found["advice"]


def test_a_vllm_without_counters(diagnose: Diagnose):
    """It was started with --disable-log-stats: Python's own metrics are all there is."""
    found = diagnose(vllm("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1\n"))
    assert "--disable-log-stats" in found["advice"]


def test_a_llama_server_that_counts_nothing_and_hides_its_slots(diagnose: Diagnose):
    """Both answer 501 when they are off."""
    found = diagnose(llama(**{"/metrics": (501, {}), "/slots": (501, {})}))
    assert "--metrics" in found["advice"]
    assert "--no-slots" in found["advice"]
    assert diagnose(llama())["result"] == "ok"


def test_too_few_slots_for_the_conversations_that_came(diagnose: Diagnose):
    """When requests lost their cache to others, and there are more conversations than slots."""
    crowded = {**TOLD, "cause": "evicted_by"}
    found = diagnose(llama(), 9, lineages=3, **crowded)
    assert "9 requests lost their cache to others: 3 conversations in 7 days on 1 slot" in found["about"]
    assert "-np" in found["advice"]
    assert diagnose(llama(slots=4), 9, lineages=3, **crowded)["result"] == "ok"


def test_other_servers_are_left_alone(diagnose: Diagnose):
    """Ollama has neither such flags nor counters."""
    assert diagnose(KINDS["ollama"], 8, **UNTOLD)["about"] == "no vLLM or llama-server to look at"


def test_evidence_is_of_one_backend_and_of_completed_generations(history_url: str):
    """On both databases."""
    upgrade(history_url)
    fill(
        history_url,
        [
            *(make_record(backend="b", prompt_tokens=size, cached_tokens=None) for size in (10, 30, 20)),
            make_record(
                backend="b", prompt_tokens=40, cached_tokens=0, cached_source="timings", cause="evicted_by"
            ),
            make_record(backend="b", prompt_tokens=99, status="client_cancelled"),
            make_record(backend="b", prompt_tokens=99, kind="embedding"),
            make_record(backend="other", prompt_tokens=99),
        ],
    )
    engine = open_engine(history_url)
    with engine.connect() as connection:
        found = used_since(connection, "b", time_of(0))
        assert used_since(connection, "nobody", time_of(0)) == Used()
    engine.dispose()
    assert (found.prompts, found.reported, found.median_prompt, found.crowded_out) == (4, 1, 30, 1)
