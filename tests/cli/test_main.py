"""The command line as a whole: help, exit codes, errors without tracebacks."""

import os
import subprocess
import sys

import click
import pytest

from services import cli
from services.cli import COMMANDS, run
from services.cli.status import parts

HEAVY = ("litestar", "sqlalchemy", "rich", "granian", "redis", "rq", "alembic")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]):
    """`--help` of each command works and ends with 0; the list's line is how its help begins."""
    assert run([name, "--help"]) == 0
    assert COMMANDS[name][1].split(",")[0].split(":")[0][:40] in " ".join(capsys.readouterr().out.split())


@pytest.mark.process
def test_help_imports_nothing_heavy():
    """`--help` answers at once: no database, server or table library is imported for it."""
    code = (
        "import sys; from services.cli import run; assert run(['--help']) == 0;"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_wrong_usage_is_2(capsys: pytest.CaptureFixture[str]):
    """An unknown command or option is wrong usage, said on standard error."""
    assert run(["nonsense"]) == 2
    assert run(["status", "--nonsense"]) == 2
    assert "No such" in capsys.readouterr().err


def test_a_bad_setting_is_2_and_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Every command that reads settings says which one is wrong, and nothing else."""
    monkeypatch.setenv("METALANCHOR_PORT", "many")
    for name in (
        "up",
        "proxy",
        "worker",
        "migrate",
        "status",
        "doctor",
        "env",
        "requests",
        "lineages",
        "prune",
    ):
        assert run([name]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("Error: METALANCHOR_PORT: 'many' is not accepted")


@pytest.mark.parametrize(("name", "first"), [("watch-vllm", "Watch the counters"), ("warm", "Have requests")])
def test_a_command_is_found_under_its_second_name_too(name: str, first: str, capsys):
    assert run([name, "--help"]) == 0
    assert first in capsys.readouterr().out


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch):
    """On a terminal too, whatever the command styles."""
    colours = []
    monkeypatch.setattr(cli.cli, "get_command", lambda *_: click.Command("x", callback=ask))

    def ask() -> None:
        colours.append(click.get_current_context().color)

    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        assert run(["x"]) == 0
    assert colours == [None, False]


def test_no_proxy_is_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], unused_port: int):
    """A proxy that does not run is said with what to do next."""
    monkeypatch.setenv("METALANCHOR_PORT", str(unused_port))
    assert run(["status"]) == 3
    assert f"http://127.0.0.1:{unused_port}. Start it with `metalanchor up`" in capsys.readouterr().err


def test_no_history_is_3(capsys: pytest.CaptureFixture[str]):
    """A history that does not exist yet is said, and not created by looking."""
    for arguments in (["requests"], ["lineages"], ["explain", "--last"], ["query", "SELECT 1"]):
        assert run(arguments) == 3
        assert "history" in capsys.readouterr().err


def test_a_stranger_on_the_port_is_told(model_server, monkeypatch, capsys):
    """Another program on the proxy's port is no proxy that is down."""
    monkeypatch.setenv("METALANCHOR_PORT", model_server("website").url.rpartition(":")[2])
    assert run(["status"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "is no MetalAnchor proxy" in captured.err


def test_a_data_folder_that_takes_nothing_is_no_spool_that_is_up():
    """What `/status` says of a full or unusable disk is in the table too, for spool and journal alike."""
    healthy = {"spool": {"records": 0, "error": None}, "journal": {"error": None}}
    assert parts(healthy)[-1] == {"part": "spool", "status": "up", "about": "0 rows on disk, 0 dropped"}
    for broken in ({"spool": {"error": "full"}}, {"journal": {"error": "full"}, "dropped": {"records": 2}}):
        row = parts(broken)[-1]
        assert row["status"] == "degraded"
        assert row["about"].endswith("dropped; the data folder cannot be written (full)")


def test_an_unexpected_error_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys):
    """Whatever goes wrong, the user gets a sentence, and a developer the way to the trace."""

    def broken(**_: object) -> None:
        raise RuntimeError("wires crossed")

    monkeypatch.setattr(cli.cli, "main", broken)
    assert run(["status"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: RuntimeError: wires crossed")
    assert "Traceback" not in error


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch):
    """An interrupted command ends as shells expect."""

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.cli, "main", interrupted)
    assert run(["status"]) == 130


def test_the_worker_needs_a_redis(capsys: pytest.CaptureFixture[str]):
    """Alone, the worker cannot guess which queue is meant."""
    assert run(["worker"]) == 2
    assert "METALANCHOR_REDIS_URL" in capsys.readouterr().err


def test_settings_are_shown_with_their_source(monkeypatch, capsys):
    """`status --config` lists all settings without a proxy."""
    monkeypatch.setenv("METALANCHOR_TOKEN", "topsecret")
    assert run(["status", "--config"]) == 0
    text = capsys.readouterr().out
    assert "METALANCHOR_TOKEN\t***\tenvironment" in text
    assert "METALANCHOR_PORT\t8084\tdefault" in text


@pytest.mark.process
def test_a_locale_that_lacks_a_character_ends_no_command():
    """What it cannot show is shown by its number."""
    command = [sys.executable, "-m", "services.cli", "requests", "--help"]
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"system+tools, \u2026" in done.stdout
