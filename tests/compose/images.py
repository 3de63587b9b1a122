"""The images that the containers are made from: those of docker-compose.yml, else stand-ins of their shape.

A stand-in is Debian's own Redis, PostgreSQL or Python in the layout of the official image. It is built where
the official one is neither at hand nor to be pulled, from a Debian root that carries this machine's
certificates, so that pip works behind a proxy that signs with its own.
"""

import logging
import os
import re
import shutil
import ssl
import tempfile
from pathlib import Path

from tests.compose.engine import ROOT, EngineError, run

log = logging.getLogger("compose")
STANDINS = Path(__file__).parent / "standins"
DEBIAN = "trixie"
BASE = "metalanchor-standin-base"
VARIABLES = {
    "ANCHOR_BASE_IMAGE": None,
    "ANCHOR_REDIS_IMAGE": "redis",
    "ANCHOR_POSTGRES_IMAGE": "postgres",
}


def prepare(env: dict[str, str]) -> None:
    """Set each image's variable in `env` where its own image cannot be had."""
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    for variable, standin in VARIABLES.items():
        wanted = env.get(variable) or re.search(rf"\$\{{{variable}:-([^}}]+)\}}", text)[1]
        if _is_here(wanted, env) or _is_pulled(wanted, env):
            log.info("image %s: %s", variable, wanted)
            continue
        env[variable] = f"metalanchor-standin-{standin}" if standin else BASE
        _build_base(env)
        if standin:
            _build_standin(standin, env)
        log.info("image %s: %s is not to be had here, stand-in %s", variable, wanted, env[variable])


def build(tag: str, context: Path, env: dict[str, str], *options: str) -> None:
    """Build an image with the host's network, which reaches the registries where a bridge may not."""
    arguments = [f"BASE={env['ANCHOR_BASE_IMAGE']}"] if env.get("ANCHOR_BASE_IMAGE") else []
    named = [part for argument in arguments for part in ("--build-arg", argument)]
    run("docker", "build", "--network", "host", "--tag", tag, *named, *options, str(context), env=env)


def copy_context(target: Path) -> Path:
    """The sources as they are now, so that two builds see the same while somebody edits."""
    target.mkdir()
    for name in ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, target / name)
    for name in ("migrations", "requirements", "services"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def _is_here(image: str, env: dict[str, str]) -> bool:
    return run("docker", "images", "--quiet", image, env=env) != ""


def _is_pulled(image: str, env: dict[str, str]) -> bool:
    run("docker", "pull", "--quiet", image, env=env, check=False)
    return _is_here(image, env)


def _build_base(env: dict[str, str]) -> None:
    if _is_here(BASE, env):
        return
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise EngineError(
            "No registry can be reached. As root, with debootstrap installed (apt-get install debootstrap), "
            "stand-in images are built instead."
        )
    with tempfile.TemporaryDirectory(prefix="ma-root-") as folder:
        root = Path(folder) / "root"
        packages = "--include=python3,python3-venv,ca-certificates"
        log.info("debootstrap %s, about two minutes", DEBIAN)
        run("debootstrap", "--variant=minbase", packages, DEBIAN, str(root), "http://deb.debian.org/debian")
        bundle = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile
        if bundle and Path(bundle).is_file():
            shutil.copyfile(bundle, root / "etc/ssl/certs/ca-certificates.crt")
        change = "ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt"
        run("sh", "-c", f"tar -C {root} -c . | docker import --change '{change}' - {BASE}", env=env)


def _build_standin(name: str, env: dict[str, str]) -> None:
    run(
        "docker", "build", "--network", "host", "--tag", f"metalanchor-standin-{name}", "--build-arg",
        f"ROOT={BASE}", "--file", str(STANDINS / f"{name}.Dockerfile"), str(STANDINS), env=env,
    )  # fmt: skip
