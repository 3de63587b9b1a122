"""docker-compose.yml, Dockerfile and the example settings, read as files: safe by default, and in agreement.

`make test-compose` runs them on a real Docker engine.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from services import settings

ROOT = Path(settings.__file__).parent.parent
TEXT = (ROOT / "docker-compose.yml").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VARIABLE = re.compile(r"\$\{([A-Z_]+)(:-([^}]*))?\}")
LASTING = ("redis", "postgres", "worker", "proxy")


def default(text: str) -> str:
    """A value as Compose reads it where no variable is set."""
    return VARIABLE.sub(lambda match: match[3] or "", text).replace("$$", "$")


def test_every_port_is_on_loopback_and_settable():
    """Nothing listens on another address unless ANCHOR_BIND says so, and none on a port often taken."""
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(ports) == {"redis", "postgres"}
    for name, (port,) in ports.items():
        assert VARIABLE.findall(port)[0][0] == "ANCHOR_BIND"
        assert VARIABLE.findall(port)[1][0] == f"ANCHOR_{name.upper()}_PORT"
        address, outside, inside = default(port).split(":")
        assert address == "127.0.0.1"
        assert inside in {"6379", "5432"}
        assert outside not in {"6379", "5432"}


def test_the_two_services_people_start_bring_what_they_need():
    """`up redis worker` starts Redis, PostgreSQL and the migrations before the worker, and no more."""
    reached, open_ends = set(), ["redis", "worker"]
    while open_ends:
        name = open_ends.pop()
        reached.add(name)
        open_ends += SERVICES[name].get("depends_on", {})
    assert reached == {"redis", "postgres", "migrate", "worker"}
    conditions = {name: need["condition"] for name, need in SERVICES["worker"]["depends_on"].items()}
    assert conditions == {
        "redis": "service_healthy",
        "postgres": "service_healthy",
        "migrate": "service_completed_successfully",
    }


@pytest.mark.parametrize("name", SERVICES)
def test_no_container_has_more_rights_than_it_needs(name: str):
    """No capability, no new privileges, a read-only root; only the Linux proxy shares the host's network."""
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert not set(service) & {"privileged", "pid", "ipc", "devices", "container_name"}
    assert ("network_mode" in service) == (name == "proxy")
    assert "docker.sock" not in str(service.get("volumes"))


def test_nobody_is_root():
    """Servers run as the image's own account, ours as a number."""
    assert {name: SERVICES[name].get("user") for name in ("redis", "postgres")} == {
        "redis": "redis",
        "postgres": "postgres",
    }
    instructions = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    users = [line for line in instructions if line.startswith("USER")]
    assert users == ["USER 10001:10001"]
    assert instructions.index(users[0]) > max(
        number for number, line in enumerate(instructions) if line.startswith("FROM")
    )


def test_what_lasts_is_watched_and_restarted():
    """Each lasting service has a health check and comes back; the migrations run once."""
    for name in LASTING:
        assert SERVICES[name]["restart"] == "unless-stopped"
        assert SERVICES[name]["healthcheck"]["test"]
    assert SERVICES["migrate"]["restart"] == "no"
    assert SERVICES["proxy"]["profiles"] == ["proxy"]
    assert [name for name in SERVICES if "profiles" not in SERVICES[name]] == [
        "redis", "postgres", "migrate", "worker",
    ]  # fmt: skip


def test_redis_keeps_the_queue():
    """Every write is appended to a file on a volume, memory is capped, and nothing is evicted."""
    script = SERVICES["redis"]["command"][-1]
    assert "appendonly yes" in script
    assert "maxmemory-policy noeviction" in script
    assert "maxmemory $$ANCHOR_REDIS_MEMORY" in script
    assert SERVICES["redis"]["environment"]["ANCHOR_REDIS_MEMORY"] == "${ANCHOR_REDIS_MEMORY:-512mb}"
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]
    assert SERVICES["postgres"]["volumes"] == ["postgres:/var/lib/postgresql"]


def test_the_file_holds_no_secret():
    """The one password is a variable everywhere, and on no command line."""
    passwords = re.findall(r"PASSWORD: (.*)|REDISCLI_AUTH: (.*)|//\w*:([^@]*)@", TEXT)
    values = {value for found in passwords for value in found if value}
    assert values == {"${ANCHOR_PASSWORD:-metalanchor}"}
    assert "--requirepass" not in TEXT
    assert default(SERVICES["worker"]["environment"]["METALANCHOR_REDIS_URL"]).startswith("redis://:metala")


def test_both_generations_of_compose_read_it():
    """Compose 1.29 knows no `name` and no nested or alternative variables; Compose v2 scorns `version`."""
    assert set(COMPOSE) == {"x-guard", "x-shared", "x-image", "services", "volumes"}
    assert len(re.findall(r"(?<!\$)\$\{", TEXT)) == len(VARIABLE.findall(TEXT))
    assert not re.search(r"\$\{[^}]*\$\{", TEXT)


@pytest.mark.parametrize(
    ("bind", "password", "refused"),
    [
        ("127.0.0.1", "metalanchor", None),
        ("localhost", "metalanchor", None),
        ("::1", "metalanchor", None),
        ("0.0.0.0", "metalanchor", "ANCHOR_BIND=0.0.0.0 is reachable from other machines"),
        ("192.168.1.5", "metalanchor", "ANCHOR_PASSWORD is not set"),
        ("", "metalanchor", "ANCHOR_PASSWORD is not set"),
        ("0.0.0.0", "Xy.9~_-z", None),
        ("127.0.0.1", "a'b", "letters, digits"),
        ("127.0.0.1", "a\nmaxmemory 1", "letters, digits"),
    ],
)
@pytest.mark.parametrize("name", ["redis", "postgres"])
def test_the_known_password_serves_this_machine_alone(name, bind, password, refused):
    """Both servers refuse to start, and say which variable to set, where others could reach them."""
    shell, option, guard, _ = SERVICES[name]["entrypoint"]
    ended = subprocess.run(
        [shell, option, guard.replace("$$", "$"), "guard", "echo", "started"],
        env={"PATH": "/usr/bin:/bin", "ANCHOR_BIND": bind, "ANCHOR_PASSWORD": password},
        capture_output=True,
        text=True,
        check=False,
    )
    if refused is None:
        assert (ended.returncode, ended.stdout) == (0, "started\n")
    else:
        assert (ended.returncode, ended.stdout) == (78, "")
        assert refused in ended.stderr


def test_the_example_settings_lead_to_the_containers():
    """metalanchor.example.toml is read without complaint and names the ports and password of the file."""
    found = settings.load({}, ROOT / "metalanchor.example.toml")
    ports = {name: default(SERVICES[name]["ports"][0]).split(":")[1] for name in ("redis", "postgres")}
    assert found.redis_url == f"redis://:metalanchor@127.0.0.1:{ports['redis']}/0"
    assert found.database_url == (
        f"postgresql://metalanchor:metalanchor@127.0.0.1:{ports['postgres']}/metalanchor"
    )


PROXY = "services.proxy.server"  # what `metalanchor proxy` runs, imported by no other command


def test_the_worker_image_has_every_package_it_imports():
    """The image holds all that `worker` and `migrate` reach, ours and others', and nothing of the proxy's."""
    kept = set(re.findall(r"! -name (\w+)", (ROOT / "Dockerfile").read_text("utf-8")))
    locked = set(re.findall(r"(?m)^([\w.-]+)==", (ROOT / "requirements/worker.txt").read_text("utf-8")))
    open_ends = ["services.cli.run", "services.cli.migrate", "services.logger.worker", "services.logger.jobs"]
    open_ends += [
        ".".join(p.relative_to(ROOT).with_suffix("").parts) for p in ROOT.glob("migrations/**/*.py")
    ]
    reached: set[str] = set()
    while open_ends:
        name = open_ends.pop()
        if name not in reached:
            reached.add(name)
            open_ends += set() if name == PROXY else imports(name)
    packages = {name.partition(".")[0] for name in reached} - sys.stdlib_module_names
    parts = {name.split(".")[1] for name in reached if name.startswith("services.")}
    assert {part for part in parts if (ROOT / "services" / part).is_dir()} == kept | {"proxy"}
    assert {name for name in reached if name.startswith("services.proxy")} == {PROXY, f"{PROXY}.run"}
    # rich is for tables on a terminal, which neither command prints; spans are an extra that says so.
    assert packages - {"services", "migrations", "rich", "opentelemetry"} <= {
        name.replace("-", "_") for name in locked
    }
    assert not locked & {"litestar", "granian", "uvloop", "httptools", "websockets", "rich"}


def imports(module: str) -> set[str]:
    """The modules that one of ours imports, at its head or later; none for a stranger's."""
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))) if path.is_file() else ():
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("lock", ["worker", "proxy"])
def test_images_have_the_versions_that_were_tested(lock: str):
    """Every pin of an image's lock file is the runtime's."""
    pins = [set(re.findall(r"(?m)^[\w.-]+==\S+", (ROOT / f"requirements/{name}.txt").read_text("utf-8")))
            for name in (lock, "runtime")]  # fmt: skip
    assert pins[0] <= pins[1]
    assert "--hash=sha256:" in (ROOT / f"requirements/{lock}.txt").read_text("utf-8")


def test_the_build_context_is_a_list_of_what_is_needed():
    """Everything is left out but the sources and lock files, so no secret or history can get in."""
    lines = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] != "#"]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == {
        "migrations", "pyproject.toml", "README.md", "requirements", "services",
    }  # fmt: skip


def test_every_variable_is_described():
    """docs/deployment.md lists each variable of the file with its default."""
    page = (ROOT / "docs/deployment.md").read_text("utf-8")
    for name, _, value in VARIABLE.findall(TEXT):
        assert f"`{name}`" in page
        assert not value or f"`{value}`" in page
