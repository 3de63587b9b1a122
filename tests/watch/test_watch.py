"""`metalanchor watch`: rates of a moving server, its restart, a clear word where nothing can be watched."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.cli import run, watch_view
from services.cli.watch_view import Board, cells_of, draw, head_line, plot, row_of
from services.watch.exporters import read
from services.watch.reading import Reading, between, total_of
from tests.support.engine_counters import MovingVllm
from tests.support.modelserver import ModelServer
from tests.support.proxy import free_port

FOLDER = Path(__file__).with_name("metrics")


def rows_of(*readings: Reading) -> list[dict[str, Any]]:
    """The rows that these looks make."""
    first, *rest = readings
    rows = [row_of((first, total_of(first)), since_start=True)]
    for before, now in zip(readings, rest, strict=False):
        rows.append(row_of((now, between(before, now))))
    return rows


def test_a_row_shows_rates_of_its_interval():
    """The first one that of the server's whole life."""
    rows = rows_of(
        Reading(
            exporter="vllm", at=0, unit="tokens", lookups=1_000, hits=900, prompt_tokens=1_000, kv_usage=0.5
        ),
        Reading(
            exporter="vllm", at=10, unit="tokens", lookups=3_000, hits=1_400, prompt_tokens=3_000, running=2
        ),
    )
    assert cells_of(rows[0])[1:] == [
        "90.0%",
        "1,000",
        "900",
        "50.0%",
        "",
        "",
        "",
        "",
        "since the server's start",
    ]
    assert cells_of(rows[1])[1:] == ["25.0%", "2,000", "500", "", "2", "", "200", "", ""]
    assert (rows[0]["since_start"], rows[1]["interval_s"], rows[1]["waiting"]) == (True, 10, None)


def test_a_mean_since_the_start_is_marked():
    """V0 knows no other rate."""
    reading = read((FOLDER / "vllm-v0.txt").read_text("utf-8"), 0)
    (row,) = rows_of(reading)
    assert cells_of(row)[1] == "≈62.0%"
    assert "mean hit rate" in head_line("http://x", reading)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_every_generation_has_a_head_line(name: str):
    """It says which server that is and in which unit hits count."""
    text = head_line("http://x:1", read((FOLDER / f"{name}.txt").read_text("utf-8"), 0))
    assert " at http://x:1" in text
    assert ("tokens" in text) or ("lookups" in text) or ("no hit counter" in text) or ("mean" in text)


def test_a_plot_rises_with_its_values_and_leaves_gaps():
    """Zero is a line at the foot, unknown is nothing, a narrow screen keeps the latest."""
    assert plot([0.0, 0.5, 1.0, None], 1.0, 4, height=2) == ["  █ ", "▁██ "]
    assert plot([1.0, 0.0], 1.0, 1, height=1) == ["▁"]
    assert plot([9.0], 1.0, 4, height=1) == ["█"]
    assert plot([], 1.0, 4, height=1) == [""]


def test_the_screen_holds_plots_and_rows_and_fits(capsys: pytest.CaptureFixture[str]):
    """Whatever the size of the terminal; a name from a stranger is text, not markup."""
    from rich.console import Console

    first = Reading(exporter="vllm", at=0, unit="tokens", model="[red]\x1b[2Jm", lookups=0, hits=0)
    board = Board("http://x", first)
    busy = {"exporter": "vllm", "unit": "tokens", "kv_usage": 0.3, "running": 1.0}
    readings = [first, *(Reading(at=n, lookups=100 * n, hits=50 * n, **busy) for n in range(1, 60))]
    for row in rows_of(*readings):
        board.take(row)
    for width, height in ((120, 40), (60, 20), (20, 5)):
        Console(width=width, height=height, force_terminal=False).print(draw(board, width, height))
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "[red]" in shown.replace("\n", "")
        if height > 30:
            assert len(shown.splitlines()) <= height
            assert "hit rate, 100 % at the top" in shown


def test_a_trouble_is_told_and_the_next_look_goes_on():
    """A server that restarts is away for a while."""
    board = Board("http://x", Reading(exporter="vllm", at=0))
    board.take(row_of("http://x did not answer"))
    assert board.trouble == "http://x did not answer"
    assert cells_of(board.rows()[0])[-1] == "http://x did not answer"
    board.take(row_of((Reading(exporter="vllm", at=1), total_of(Reading(exporter="vllm", at=1)))))
    assert board.trouble is None


@pytest.mark.process
def test_lines_of_a_moving_server_that_is_restarted(vllm: MovingVllm):
    """As JSON lines, each at once; away is a line too, and afterwards the counters begin anew."""
    vllm.serve(1_000, 900)
    command = [sys.executable, "-m", "services.cli", "watch", vllm.url, "--json", "--interval", "0.3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            assert (first["since_start"], first["hit_rate"], first["interval_s"]) == (True, 0.9, None)
            vllm.serve(2_000, 500, 30, running=2, usage=0.25)
            row = _next(process, lambda row: row.get("lookups"))
            assert (row["lookups"], row["hits"], row["hit_rate"], row["restarted"]) == (
                2_000,
                500,
                0.25,
                False,
            )
            assert (row["running"], row["kv_usage"], row["generation_tokens"]) == (2, 0.25, 30)
            vllm.stop()
            assert vllm.url in _next(process, lambda row: "error" in row)["error"]
            vllm.start()
            vllm.started += 60  # restarts take longer than this one did
            vllm.serve(40, 10)
            row = _next(process, lambda row: row.get("restarted"))
            assert row["lookups"] in {0, 40}
        finally:
            process.terminate()


def _next(process: "subprocess.Popen[str]", wanted: Any) -> dict[str, Any]:
    assert process.stdout is not None
    for _ in range(100):
        row = json.loads(process.stdout.readline())
        if wanted(row):
            return dict(row)
    raise AssertionError("no such line came")


@pytest.mark.process
def test_a_pipe_gets_tabs_without_colours_and_ends_after_count(
    vllm: MovingVllm, capsys: pytest.CaptureFixture[str]
):
    """For cut and awk."""
    vllm.serve(1_000, 900)
    assert run(["watch", vllm.url + "/v1", "--count", "2", "--interval", "0.1"]) == 0
    out, err = capsys.readouterr()
    head, *rows = out.splitlines()
    assert head.split("\t") == list(watch_view.COLUMNS)
    assert [len(row.split("\t")) for row in rows] == [len(watch_view.COLUMNS)] * 2
    assert "\x1b" not in out
    assert "vLLM" in err


@pytest.mark.process
def test_without_an_address_the_configured_backend_is_watched(
    vllm: MovingVllm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The one that the proxy forwards to."""
    monkeypatch.setenv("METALANCHOR_BACKEND_URL", vllm.url)
    assert run(["watch", "--json", "--count", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["exporter"] == "vllm"


@pytest.mark.process
def test_a_server_without_counters_is_a_failure_that_names_the_flag(capsys: pytest.CaptureFixture[str]):
    """llama-server without --metrics answers 501."""
    props = {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 4}
    server = ModelServer({"/metrics": (501, {}), "/": (200, ""), "/props": (200, props)})
    try:
        assert run(["watch", server.url, "--count", "1"]) == 1
    finally:
        server.stop()
    assert "--metrics" in capsys.readouterr().err


def test_nobody_there_is_3_and_no_address_is_2(capsys: pytest.CaptureFixture[str]):
    """Exit codes that a script can use."""
    assert run(["watch", f"http://127.0.0.1:{free_port()}", "--count", "1"]) == 3
    assert run(["watch", "localhost:8000", "--count", "1"]) == 2
    assert "http://" in capsys.readouterr().err


@pytest.mark.process
def test_on_a_terminal_it_is_live_and_ends_with_ctrl_c(vllm: MovingVllm):
    """Plots and rows on a screen of its own; colours there and nowhere else."""
    import os
    import pty
    import signal

    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "services.cli", "watch", vllm.url, "--interval", "0.1"]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=env)
    os.close(terminal)
    shown = ""
    try:
        vllm.serve(1_000, 500, running=1, usage=0.5)
        while "█" not in shown or "hit rate, 100 % at the top" not in shown:
            vllm.serve(1_000, 1_000)
            shown += os.read(controller, 65_536).decode("utf-8", "replace")
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            try:
                os.read(controller, 65_536)
            except OSError:  # the other end is closed
                process.wait(20)
    finally:
        process.kill()
        process.wait()
        os.close(controller)
    assert process.returncode == 130
    assert "\x1b[" in shown
