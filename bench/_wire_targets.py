"""The processes that `bench.overhead` compares, each pinned to the same core, and their CPU time."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.valkey import Valkey

TARGET_CORE, LOAD_CORE = 0, 1
NGINX = """
daemon off; master_process off; error_log stderr crit; pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 0; client_body_buffer_size 4m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream model {{ server 127.0.0.1:{backend}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port}; keepalive_requests 1000000;
    location / {{
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 1h;
    }}
  }}
}}
"""
LITELLM = """
model_list:
  - model_name: "*"
    litellm_params: {{model: "openai/*", api_base: "http://127.0.0.1:{backend}/v1", api_key: sk-local}}
general_settings: {{master_key: sk-local}}
"""


@dataclass
class Target:
    """A way to the backend: its port, and the process in between (None for the direct way)."""

    name: str
    port: int
    process: subprocess.Popen[bytes] | None = None

    def cpu(self) -> float:
        """CPU seconds of all its threads so far."""
        if self.process is None:
            return 0.0
        tasks = Path(f"/proc/{self.process.pid}/task")
        if tasks.is_dir():
            return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
        shown = subprocess.run(
            ["ps", "-o", "time=", "-p", str(self.process.pid)], capture_output=True, check=True
        )
        parts = [float(part) for part in shown.stdout.decode().strip().replace("-", ":").split(":")]
        return sum(part * 60**i for i, part in enumerate(reversed(parts)))


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pin(core: int) -> None:
    """Keep this process on one core, where the system can."""
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def launched(
    command: list[str], port: int, core: int, environment: dict[str, str] | None = None, wait: float = 30.0
) -> Iterator[subprocess.Popen[bytes]]:
    """A process pinned to a core, from when its port answers until the end of the block."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        preexec_fn=lambda: pin(core),  # noqa: PLW1509 this process has one thread
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + wait
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} does not listen on {port}")
            time.sleep(0.1)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def everything(folder: Path, litellm: str | None) -> Iterator[list[Target]]:
    """The backend and each way to it: direct, MetalAnchor with all parts, nginx, and LiteLLM where given."""
    with contextlib.ExitStack() as stack:
        backend = free_port()
        stack.enter_context(
            launched([sys.executable, "-m", "bench._wire_backend", str(backend)], backend, LOAD_CORE)
        )
        targets = [Target("direct", backend)]
        targets.append(stack.enter_context(_metalanchor(folder, backend)))
        for name, command, port, environment in _others(folder, backend, litellm):
            process = stack.enter_context(launched(command, port, TARGET_CORE, environment, 120.0))
            targets.append(Target(name, port, process))
        yield targets


@contextlib.contextmanager
def _metalanchor(folder: Path, backend: int) -> Iterator[Target]:
    valkey = Valkey(folder)
    valkey.start()
    port = free_port()
    environment = {
        "METALANCHOR_PORT": str(port),
        "METALANCHOR_BACKEND_URL": f"http://127.0.0.1:{backend}",
        "METALANCHOR_REDIS_URL": valkey.url,
        "METALANCHOR_DATA_DIR": str(folder / "data"),
        "METALANCHOR_KEY_FILE": str(folder / "install.key"),
    }
    command = [sys.executable, "-m", "services.cli", "proxy"]
    try:
        with launched(command, port, TARGET_CORE, environment) as process:
            yield Target("metalanchor", port, process)
    finally:
        valkey.stop()


def _others(
    folder: Path, backend: int, litellm: str | None
) -> Iterator[tuple[str, list[str], int, dict[str, str]]]:
    nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/opt/homebrew/bin")
    if nginx:
        port, file = free_port(), folder / "nginx.conf"
        file.write_text(NGINX.format(folder=folder, backend=backend, port=port))
        yield "nginx", [nginx, "-p", str(folder), "-c", str(file)], port, {}
    if litellm:
        port, file = free_port(), folder / "litellm.yaml"
        file.write_text(LITELLM.format(backend=backend))
        yield "litellm", [litellm, "--config", str(file), "--port", str(port)], port, {"LITELLM_LOG": "ERROR"}
