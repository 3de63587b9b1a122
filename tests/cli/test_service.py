"""The service's files and what launchd and systemd are told, on both platforms wherever the tests run."""

import json
import os
import plistlib
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from services.cli import run, service
from services.cli.managers import Launchd, Service, Systemd

AWKWARD = Service(
    ["/opt/My Tools/py$thon", "-P", "-m", "services.cli", "proxy"],
    {"METALANCHOR_TOKEN": 'a"b\\c%d$e', "PATH": "/usr/bin:/bin", "METALANCHOR_CONFIG": "/home/a b/ma.toml"},
    Path("/var/lib/ma 100%"),
)
Managed = Callable[..., list[list[str]]]


@pytest.fixture(autouse=True)
def nothing_answers(monkeypatch: pytest.MonkeyPatch, unused_port: int) -> None:
    """No proxy of somebody else's is taken for the service."""
    monkeypatch.setenv("METALANCHOR_PORT", str(unused_port))


@pytest.fixture
def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Managed:
    """Pretends a platform whose service manager writes down what it is told, and answers as it is told to."""

    def pretend(platform: str, says: str = "", code: int = 0) -> Callable[[], list[list[str]]]:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for name in ("launchctl", "systemctl"):
            program = folder / name
            program.write_text(
                f"#!{sys.executable}\nimport json, sys\n"
                f"with open({str(tmp_path / 'told')!r}, 'a') as told:\n"
                f"    told.write(json.dumps([{name!r}, *sys.argv[1:]]) + '\\n')\n"
                f"print({says!r})\nsys.exit({code} if sys.argv[1] in ('print', '--user') else 0)\n"
            )
            program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(service, "READY_S", 0)
        return lambda: [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]

    return pretend


def test_the_plist_says_what_launchd_needs(monkeypatch):
    """Read back it has the command, the environment, logs, restart and no slowing down."""
    found = plistlib.loads(Launchd().render(AWKWARD))
    assert found["ProgramArguments"] == AWKWARD.argv
    assert found["EnvironmentVariables"] == AWKWARD.env
    assert found["WorkingDirectory"] == str(AWKWARD.folder)
    assert found["KeepAlive"] is True
    assert found["RunAtLoad"] is True
    assert found["ProcessType"] == "Interactive"
    assert found["StandardErrorPath"] == found["StandardOutPath"] == str(Launchd().log)
    assert found["SoftResourceLimits"] == {"NumberOfFiles": 65536}


def test_the_unit_says_what_systemd_needs():
    """Restart without end, not with settings that are not understood; blanks, quotes, % and $ survive."""
    lines = Systemd().render(AWKWARD).decode().splitlines()
    assert 'ExecStart="/opt/My Tools/py$$thon" "-P" "-m" "services.cli" "proxy"' in lines
    assert r'Environment="METALANCHOR_TOKEN=a\"b\\c%%d$e"' in lines
    assert "WorkingDirectory=/var/lib/ma 100%%" in lines
    assert {
        "Restart=always",
        "RestartPreventExitStatus=2",
        "StartLimitIntervalSec=0",
        "LimitNOFILE=65536",
    } <= {*lines}
    assert lines[-1] == "WantedBy=default.target"


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="only systemd can judge a unit, and systemd-analyze is not here",
)
def test_systemd_accepts_the_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`systemd-analyze verify` has nothing to say about it."""
    unit = tmp_path / "metalanchor.service"
    what = AWKWARD._replace(argv=[sys.executable, *AWKWARD.argv[1:]], folder=tmp_path)
    unit.write_bytes(Systemd().render(what))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", unit], capture_output=True, text=True, check=False
    )
    assert "metalanchor" not in done.stderr + done.stdout
    assert done.returncode == 0, done.stderr


def test_install_on_macos_starts_the_proxy_with_the_settings_of_now(
    managed, monkeypatch, capsys, unused_port: int, tmp_path: Path
):
    """The file holds the METALANCHOR_ variables and the path of the settings, and is closed to others."""
    told = managed("darwin", "\tstate = running\n\tpid = 4711")
    config = tmp_path / "metalanchor.toml"
    config.write_text('redis_url = "redis://127.0.0.1:6384/0"\n')
    monkeypatch.setenv("METALANCHOR_CONFIG", str(config))
    monkeypatch.setenv("METALANCHOR_TOKEN", "sesame")
    assert run(["service", "install"]) == 0
    path = Launchd().path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = plistlib.loads(path.read_bytes())
    assert found["ProgramArguments"] == [sys.executable, "-P", "-m", "services.cli", "proxy"]
    assert found["EnvironmentVariables"] == {
        "METALANCHOR_CONFIG": str(config),
        "METALANCHOR_PORT": str(unused_port),
        "METALANCHOR_TOKEN": "sesame",
        "PATH": os.environ["PATH"],
    }
    domain = f"gui/{os.getuid()}"
    assert told()[:2] == [
        ["launchctl", "bootout", f"{domain}/org.metalanchor"],
        ["launchctl", "bootstrap", domain, str(path)],
    ]
    said = capsys.readouterr().out
    assert "metalanchor.log" in said
    assert "sesame" not in said


def test_install_on_linux_starts_everything_where_no_redis_is_set(managed, capsys):
    """Without a Redis of its own address the service is `up`; systemd is told to start it at each login."""
    told = managed("linux", "ActiveState=active\nSubState=running\nMainPID=4711\nNRestarts=0")
    assert run(["service", "install"]) == 0
    assert '"services.cli" "up"' in Systemd().path.read_text()
    assert [command[1:3] for command in told()[:3]] == [
        ["--user", "daemon-reload"],
        ["--user", "enable"],
        ["--user", "restart"],
    ]
    assert "loginctl enable-linger" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("platform", "says"),
    [("darwin", "\tstate = running\n\tpid = 4711"), ("linux", "ActiveState=active\nMainPID=4711")],
)
def test_status_follows_the_service_from_install_to_uninstall(managed, capsys, platform, says):
    """Exit code 0 while it runs, 3 before and after; uninstalling twice is no error."""
    managed(platform, says)
    assert run(["service", "status"]) == 3
    assert "metalanchor service install" in capsys.readouterr().out
    assert run(["service", "install"]) == 0
    capsys.readouterr()
    assert run(["service", "status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["installed"], found["running"]) == (True, True)
    assert "4711" in found["about"]
    for said in ("Removed", "was not installed"):
        assert run(["service", "uninstall"]) == 0
        assert said in capsys.readouterr().out
    assert run(["service", "status"]) == 3


@pytest.mark.parametrize(("platform", "code"), [("darwin", 113), ("linux", 1)])
def test_a_service_that_does_not_come_up_is_an_error(managed, capsys, platform, code):
    """The message says where its log is."""
    managed(platform, "Failed to connect to bus", code)
    assert run(["service", "install"]) == 1
    said = capsys.readouterr().err
    assert "Its log says why" in said or "systemctl --user daemon-reload" in said


def test_settings_that_are_wrong_are_told_before_anything_is_written(managed, capsys, monkeypatch):
    """Nothing is installed with a setting that is not understood."""
    managed("linux")
    monkeypatch.setenv("METALANCHOR_PORT", "many")
    assert run(["service", "install"]) == 2
    assert "METALANCHOR_PORT" in capsys.readouterr().err
    assert not Systemd().path.exists()


def test_a_platform_without_a_manager_is_told(managed, capsys, monkeypatch, tmp_path):
    """Neither launchctl nor systemctl: the command says what to do instead."""
    managed("freebsd14")
    assert run(["service", "status"]) == 1
    assert "metalanchor up" in capsys.readouterr().err
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert run(["service", "uninstall"]) == 1
    assert "systemctl is not on this machine" in capsys.readouterr().err


def test_relative_paths_mean_what_they_meant_at_the_terminal(managed, tmp_path: Path, monkeypatch):
    """The service starts in the data folder; what was relative to another one is told in full."""
    managed("darwin", "\tstate = running\n\tpid = 4711")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METALANCHOR_DATA_DIR", "data")
    monkeypatch.setenv("METALANCHOR_KEY_FILE", "/etc/ma.key")
    assert run(["service", "install"]) == 0
    found = plistlib.loads(Launchd().path.read_bytes())
    assert found["WorkingDirectory"] == str(tmp_path / "data")
    assert found["EnvironmentVariables"]["METALANCHOR_DATA_DIR"] == str(tmp_path / "data")
    assert found["EnvironmentVariables"]["METALANCHOR_KEY_FILE"] == "/etc/ma.key"
