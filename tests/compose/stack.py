"""One set of containers with a project name and ports of its own, driven by the Compose that is installed."""

import json
import logging
import shutil
import subprocess
from typing import Any

from tests.compose.engine import EngineError, run
from tests.support.proxy import free_port
from tests.support.rows import wait_for

log = logging.getLogger("compose")


class Stack:
    """The containers of docker-compose.yml; `settings` are its ANCHOR_ variables."""

    def __init__(self, env: dict[str, str], project: str, **settings: str) -> None:
        self.ports = {"redis": free_port(), "postgres": free_port()}
        self.password = settings.get("ANCHOR_PASSWORD", "metalanchor")
        self.env = {
            **{name: value for name, value in env.items() if not name.startswith("METALANCHOR_")},
            "COMPOSE_PROJECT_NAME": project,
            "ANCHOR_REDIS_PORT": str(self.ports["redis"]),
            "ANCHOR_POSTGRES_PORT": str(self.ports["postgres"]),
            **settings,
        }
        self._command = compose_command(env)

    @property
    def redis_url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.ports['redis']}/0"

    @property
    def database_url(self) -> str:
        return f"postgresql://metalanchor:{self.password}@127.0.0.1:{self.ports['postgres']}/metalanchor"

    def compose(self, *arguments: str, check: bool = True) -> str:
        """One Compose command."""
        return run(*self._command, *arguments, env=self.env, check=check)

    def up(self, *services: str) -> None:
        """Start services with what they need, and wait until they are healthy."""
        self.compose("up", "-d", *services)
        for service in services:
            wait_for(lambda name=service: self.health(name) == "healthy", 90)

    def down(self) -> None:
        """Remove containers, network and volumes."""
        self.compose("--profile", "proxy", "down", "--volumes", "--timeout", "3", check=False)

    def inspect(self, service: str) -> dict[str, Any]:
        """What Docker knows of a service's container."""
        names = run(
            "docker", "ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.service={service}",
            "--filter", f"label=com.docker.compose.project={self.env['COMPOSE_PROJECT_NAME']}", env=self.env,
        ).split()  # fmt: skip
        assert len(names) == 1, f"{service}: {names}"
        return json.loads(run("docker", "inspect", names[0], env=self.env))[0]

    def health(self, service: str) -> str:
        """Docker's verdict: starting, healthy or unhealthy."""
        return self.inspect(service)["State"]["Health"]["Status"]

    def services(self) -> set[str]:
        """The services that have a container."""
        label = '{{.Label "com.docker.compose.service"}}'
        project = f"label=com.docker.compose.project={self.env['COMPOSE_PROJECT_NAME']}"
        return set(run("docker", "ps", "--all", "--format", label, "--filter", project, env=self.env).split())

    def inside(self, service: str, *command: str, check: bool = True) -> str:
        """Run a command in a service's container."""
        return run("docker", "exec", self.inspect(service)["Id"], *command, env=self.env, check=check)

    def logs(self, service: str) -> str:
        """What a service wrote."""
        return run("docker", "logs", self.inspect(service)["Id"], env=self.env)

    def psql(self, statement: str) -> list[dict[str, Any]]:
        """Rows by PostgreSQL's own client, inside its container."""
        text = self.inside(
            "postgres", "psql", "-U", "metalanchor", "-d", "metalanchor", "-At", "-c",
            f"SELECT coalesce(json_agg(found), '[]') FROM ({statement}) AS found",
        )  # fmt: skip
        return json.loads(text)


def compose_command(env: dict[str, str]) -> tuple[str, ...]:
    """``docker compose`` where that is installed, else the older ``docker-compose``."""
    done = subprocess.run(["docker", "compose", "version"], env=env, capture_output=True, check=False)
    if done.returncode == 0:
        return ("docker", "compose")
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    raise EngineError("Docker has no Compose here. Install it (on Debian: apt-get install docker-compose).")
