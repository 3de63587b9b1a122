"""The containers on a real Docker engine: `make test-compose`.

The whole path is client → native proxy → Redis container → worker container → PostgreSQL container → SQL, and
the rows at its end are compared one to one with what the client wrote down.
"""

import json
import logging
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.compose import images
from tests.compose.engine import run
from tests.compose.native import Native, on_this_kernel
from tests.compose.stack import Stack
from tests.compose.traffic import Entry, Traffic, converse
from tests.support.proxy import free_port
from tests.support.rows import wait_for

# The first test waits for the images: a Debian root and five builds, on a machine with other work to do.
pytestmark = [pytest.mark.process, pytest.mark.timeout(2400)]
log = logging.getLogger("compose")

COLUMNS = (
    "id",
    "endpoint",
    "model",
    "hit",
    "session",
    "http_status",
    "stream",
    "prompt_tokens",
    "cached_tokens",
)


def compared(native: Native, stack: Stack, entries: list[Entry], columns: tuple[str, ...] = COLUMNS) -> None:
    """Each request the client wrote down is one row in PostgreSQL, equal in every column, and no other is."""
    ids = {entry.id for entry in entries}
    first = min(ids)
    counted = f"SELECT count(*) AS n FROM requests WHERE kind = 'generation' AND id >= '{first}'"
    wait_for(lambda: native.command("query", counted)["items"][0]["n"] >= len(ids), 60)
    wanted = [{name: getattr(entry, name) for name in columns} for entry in entries]
    wanted.sort(key=lambda row: row["id"])
    rows = [row for row in native.rows(", ".join(columns)) if row["id"] >= first]
    assert [{**row, "stream": bool(row["stream"])} for row in rows] == wanted
    inside = stack.psql(
        f"SELECT {', '.join(columns)} FROM requests WHERE kind = 'generation' AND id >= '{first}' ORDER BY id"
    )
    assert inside == wanted
    log.info(
        "%d requests sent, %d rows in PostgreSQL, all %d columns equal", len(ids), len(rows), len(columns)
    )


def test_two_names_bring_up_everything_the_worker_needs(stack: Stack):
    """Redis, PostgreSQL and the worker are healthy, the migrations ran and ended, no proxy is there."""
    assert stack.services() == {"redis", "postgres", "migrate", "worker"}
    assert stack.inspect("migrate")["State"]["ExitCode"] == 0
    assert "The history is at revision" in stack.logs("migrate")
    wait_for(lambda: stack.health("worker") == "healthy", 60)
    assert stack.inside("worker", "metalanchor", "worker", "--check") == "1 at work"


def test_containers_have_no_rights_and_listen_on_loopback(stack: Stack):
    """As Docker and the kernel see it: no capability, no root, nothing to write to, no port for others."""
    for service in ("redis", "postgres", "worker"):
        found = stack.inspect(service)
        assert found["HostConfig"]["ReadonlyRootfs"]
        assert found["HostConfig"]["CapDrop"] == ["ALL"]
        assert "no-new-privileges:true" in found["HostConfig"]["SecurityOpt"]
        status = dict(
            line.split(":", 1) for line in stack.inside(service, "cat", "/proc/1/status").splitlines()
        )
        assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == 0
        assert status["NoNewPrivs"].strip() == "1"
        assert "0" not in status["Uid"].split()
        assert "Read-only file system" in stack.inside(service, "touch", "/usr/x", check=False)
        published = [p for ports in found["NetworkSettings"]["Ports"].values() for p in ports or []]
        assert [p["HostIp"] for p in published] == (["127.0.0.1"] if service != "worker" else [])


def test_redis_appends_and_never_evicts(stack: Stack):
    """The settings in force, and no password on a command line."""
    found = {
        name: stack.inside("redis", "redis-cli", "config", "get", name).split("\n")[1]
        for name in ("appendonly", "maxmemory-policy", "maxmemory")
    }
    assert found == {"appendonly": "yes", "maxmemory-policy": "noeviction", "maxmemory": str(512 << 20)}
    assert "metalanchor" not in stack.inside("redis", "cat", "/proc/1/cmdline")
    assert "NOAUTH" in stack.inside("redis", "env", "-u", "REDISCLI_AUTH", "redis-cli", "ping", check=False)


def test_a_conversation_reaches_sql_row_by_row(native: Native, stack: Stack):
    """Two conversations of the official OpenAI client, streamed and not, with the engine's own counts."""
    entries = [*converse(native.proxy, 8, stream=False), *converse(native.proxy, 8, stream=True)]
    compared(native, stack, entries)
    assert [entry.hit for entry in entries[:8]] == ["none"] + ["prefix"] * 7
    assert all(entry.cached_tokens for entry in entries[1:8])


def test_nothing_is_lost_while_containers_stop_and_die(native: Native, stack: Stack):
    """Under steady traffic each is stopped, killed, frozen and started: no request fails, no row is lost."""
    with Traffic(native.proxy) as traffic:
        time.sleep(2)
        for name, fault in FAULTS.items():
            before = len(traffic.entries)
            fault(stack)
            wait_for(lambda before=before: len(traffic.entries) > before + 30, 60)
            longest = max(entry.seconds for entry in traffic.entries[before:]) * 1000
            log.info(
                "%-34s %4d requests, %d failed, longest %.0f ms",
                name, len(traffic.entries) - before, len(traffic.failed), longest,
            )  # fmt: skip
        time.sleep(2)
    assert traffic.failed == []
    times = sorted(entry.seconds * 1000 for entry in traffic.entries)
    log.info("answers took p50 %.1f ms, p99 %.1f ms, longest %.0f ms", statistics.median(times),
             times[len(times) * 99 // 100], times[-1])  # fmt: skip
    wait_for(lambda: native.proxy.json("/status")["spool"]["records"] == 0, 60)
    compared(
        native, stack, traffic.entries, ("id", "endpoint", "model", "hit", "session", "http_status", "stream")
    )
    assert native.proxy.json("/status")["dropped"] == {"records": 0, "bodies": 0}
    added = sorted(row["overhead_ms"] for row in native.rows("overhead_ms") if row["overhead_ms"] is not None)
    log.info("of it the proxy itself p50 %.1f ms, p99 %.1f ms, longest %.0f ms", statistics.median(added),
             added[len(added) * 99 // 100], added[-1])  # fmt: skip


def _worker_dies(stack: Stack) -> None:
    """From outside, as a lack of memory does it; then the restart policy has to bring it back."""
    pid = stack.inspect("worker")["State"]["Pid"]
    if not on_this_kernel(pid):
        stack.compose("restart", "worker")
        return
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: stack.inspect("worker")["State"]["Pid"] not in {0, pid}, 30)


def _away(*commands: tuple[str, str], seconds: float = 3.0) -> Any:
    def fault(stack: Stack) -> None:
        first, second = commands
        stack.compose(*first)
        time.sleep(seconds)
        stack.compose(*second)

    return fault


FAULTS = {
    "worker stopped for 3 s": _away(("stop", "worker"), ("start", "worker")),
    "worker killed, started after 3 s": _away(("kill", "worker"), ("start", "worker")),
    "worker's process killed": _worker_dies,
    "redis stopped for 3 s": _away(("stop", "redis"), ("start", "redis")),
    "redis killed, started after 3 s": _away(("kill", "redis"), ("start", "redis")),
    "redis frozen for 3 s": _away(("pause", "redis"), ("unpause", "redis")),
    "postgres stopped for 3 s": _away(("stop", "postgres"), ("start", "postgres")),
    "postgres killed, started after 3 s": _away(("kill", "postgres"), ("start", "postgres")),
    "postgres frozen for 3 s": _away(("pause", "postgres"), ("unpause", "postgres")),
    "everything restarted": lambda stack: stack.compose("restart", "-t", "5", "redis", "postgres", "worker"),
}


def test_the_doctor_names_the_command_that_mends(native: Native, stack: Stack):
    """With containers gone it says what is missing; the very command it prints brings that back."""
    assert {native.advice()[name]["result"] for name in ("redis", "database", "worker")} == {"ok"}
    for service, check in (("worker", "worker"), ("postgres", "database"), ("redis", "redis")):
        stack.compose("stop", "-t", "1", service)
        wait_for(lambda check=check: native.advice()[check]["result"] == "fail", 30)
        told = native.advice()[check]
        log.info("doctor: %s: %s → %s", check, told["about"], told["advice"])
        subprocess.run(told["advice"], shell=True, env=stack.env, check=True, capture_output=True)
        wait_for(lambda check=check: native.advice()[check]["result"] == "ok", 60)


def test_the_known_password_is_refused_off_loopback(built: dict[str, str]):
    """With ANCHOR_BIND open to others and no password both servers end at once and say what to set."""
    stack = Stack(built, "metalanchor-open", ANCHOR_BIND="0.0.0.0")
    try:
        stack.compose("up", "-d", "redis", "postgres", check=False)
        for service in ("redis", "postgres"):
            wait_for(lambda service=service: "ANCHOR_PASSWORD is not set" in stack.logs(service), 20)
            with pytest.raises(OSError, match=r"refused|reset|timed out"):
                psycopg_or_socket(stack.ports[service])
        log.info("refused: %s", stack.logs("redis").splitlines()[0])
    finally:
        stack.down()


def psycopg_or_socket(port: int) -> None:
    """Raise `OSError` where no server answers; Docker's own forwarder may accept and close."""
    import socket

    with socket.create_connection(("127.0.0.1", port), 3) as connection:
        connection.sendall(b"PING\r\n")
        if not connection.recv(16):
            raise ConnectionResetError("reset by the forwarder")


def test_a_new_password_holds_from_the_next_start(built: dict[str, str]):
    """PostgreSQL's data folder was made with the old one; that one no longer opens it."""
    old = Stack(built, "metalanchor-password")
    new = Stack(built, "metalanchor-password", ANCHOR_PASSWORD="a-Second.one_9~")
    new.ports, new.env = old.ports, old.env | {"ANCHOR_PASSWORD": "a-Second.one_9~"}
    try:
        old.up("redis", "worker")
        psycopg.connect(old.database_url, connect_timeout=5).close()
        new.up("redis", "worker")
        psycopg.connect(new.database_url, connect_timeout=5).close()
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(old.database_url, connect_timeout=5)
    finally:
        old.down()


def test_the_image_holds_only_what_the_worker_needs(built: dict[str, str], context: Path):
    """No proxy, no package manager of Python, nothing that its account owns; built twice it is the same."""
    layers = []
    for attempt in ("first", "second"):
        images.build(f"metalanchor-worker:{attempt}", context, built, "--no-cache")
        found = json.loads(run("docker", "inspect", f"metalanchor-worker:{attempt}", env=built))[0]
        layers.append(found["RootFS"]["Layers"])
    assert layers[0] == layers[1]
    assert found["Config"]["User"] == "10001:10001"
    base = built.get("ANCHOR_BASE_IMAGE", "python:3.13-slim-trixie")
    size = found["Size"] - json.loads(run("docker", "inspect", base, env=built))[0]["Size"]
    log.info("the image adds %.0f MB to its base; both builds have the same layers", size / 1e6)
    assert size < 80e6
    script = (
        "ls /opt/metalanchor/bin; cd /opt/metalanchor/lib/python3*/site-packages; ls . services;"
        "find / -xdev '(' -user 10001 -not -path /data -o -name '*.toml' -o -name .env ')' 2>/dev/null; true"
    )
    names = set(
        run(
            "docker", "run", "--rm", "--entrypoint", "sh", "metalanchor-worker", "-c", script, env=built
        ).split()
    )
    assert {"metalanchor", "sqlalchemy", "logger", "history"} <= names
    assert not names & {"pip", "setuptools", "litestar", "granian", "proxy", ".env", "metalanchor.toml"}


@pytest.mark.skipif(sys.platform != "linux", reason="the profile is for Linux hosts")
def test_the_proxy_profile_serves_the_hosts_loopback(built: dict[str, str], native: Native, stack: Stack):
    """In a container it shares the network, keeps its data on a volume, and fills the same history."""
    port = free_port()
    stack.env |= {"METALANCHOR_PORT": str(port), "METALANCHOR_BACKEND_URL": native.backend_url}
    native.proxy.stop()
    try:
        stack.compose("--profile", "proxy", "up", "-d", "proxy")
        wait_for(lambda: stack.health("proxy") == "healthy", 60)
        native.proxy.port = port
        compared(native, stack, converse(native.proxy, 3, stream=True))
        assert stack.inside("proxy", "stat", "-c", "%u %a", "/data/install.key") == "10001 600"
    finally:
        stack.compose("--profile", "proxy", "stop", "-t", "5", "proxy")
        stack.compose("--profile", "proxy", "rm", "-f", "proxy")
        del stack.env["METALANCHOR_PORT"], stack.env["METALANCHOR_BACKEND_URL"]
