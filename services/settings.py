"""The one typed settings object: environment over ``metalanchor.toml`` over defaults.

Every process reads it once at start and passes it on; nothing else reads the environment. A name or value
that is not understood is an error that says which, so that a typing mistake never turns into a default.
"""

import os
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import platformdirs

PREFIX = "METALANCHOR_"
FILE_NAME = "metalanchor.toml"

BackendKind = Literal["auto", "ollama", "llama-server", "ds4", "lmstudio", "mlx_lm", "vllm", "openai", "anthropic"]


class SettingsError(ValueError):
    """A setting is unknown, malformed or unsafe; the text names it and the next step."""


class BackendSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[backend]]`` table: a model server and the port the proxy listens on for it."""

    name: str
    url: str
    kind: BackendKind = "auto"
    port: int | None = None


def _data_dir() -> str:
    return platformdirs.user_data_dir("metalanchor", appauthor=False)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. The attribute ``host`` is ``METALANCHOR_HOST`` in the environment and ``host`` in the file."""

    host: str = "127.0.0.1"
    port: int = 8084
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    backend_url: str | None = None
    backend_kind: BackendKind = "auto"
    backend: tuple[BackendSetting, ...] = ()
    redis_url: str | None = None
    database_url: str | None = None
    data_dir: str = msgspec.field(default_factory=_data_dir)
    key_file: str | None = None
    embedded_engine: Literal["auto", "always", "never"] = "auto"
    keep_text: bool = True
    text_ttl: int = 24 * 3600
    state_max_bytes: int = 128 << 20
    store_bodies: bool = False
    max_body: int = 256 << 20
    spool_max_bytes: int = 256 << 20
    tenant_header: str | None = None
    upload_idle_s: float = 60.0
    workers: int = 1
    retention_days: int = 90

    @property
    def data_path(self) -> Path:
        """The data folder: SQLite file, spool, journal and the embedded server's files."""
        return Path(self.data_dir).expanduser()

    @property
    def database(self) -> str:
        """The SQLAlchemy URL of the history: the configured one, else a SQLite file in the data folder."""
        return self.database_url or f"sqlite:///{self.data_path / 'history.sqlite'}"


class Sourced(msgspec.Struct, frozen=True):
    """One setting as ``metalanchor status --config`` shows it."""

    name: str
    value: Any
    source: str


SECRET = frozenset({"token"})
HELP: dict[str, str] = {
    "host": "Address the proxy listens on. Any but loopback needs a token.",
    "port": "Port the proxy listens on.",
    "token": "Secret that clients send as X-MetalAnchor-Token, as Bearer or as x-api-key.",
    "allowed_hosts": "Further Host names that are answered (comma list).",
    "backend_url": "Model server to forward to; may be https and have a base path.",
    "backend_kind": "What the model server is; `auto` asks it.",
    "backend": "Several model servers, one listening port each (file only).",
    "redis_url": "Shared Redis; without it a private one is started.",
    "database_url": "SQLAlchemy URL of the request history; without it a SQLite file in the data folder.",
    "data_dir": "Folder for the SQLite file, spool, journal and the private Redis.",
    "key_file": "File with this installation's hashing key; share it between machines that share a Redis.",
    "embedded_engine": "Whether `up` may serve through the small stand-in model.",
    "keep_text": "Keep prompt text in this process's memory to explain breaks.",
    "text_ttl": "Seconds prompt text stays in memory.",
    "state_max_bytes": "Cap on hit state, in Redis and in memory each.",
    "store_bodies": "Store request bodies in the history.",
    "max_body": "Largest request body on analysed routes, in bytes.",
    "spool_max_bytes": "Cap on records kept on disk while Redis is away.",
    "tenant_header": "Request header that names the tenant.",
    "upload_idle_s": "Seconds an upload may stand still before 408.",
    "workers": "Proxy processes that share the port.",
    "retention_days": "Days the history is kept.",
}


def load(environ: Mapping[str, str] | None = None, file: Path | None = None) -> Settings:
    """Read the settings; raises `SettingsError` naming the first one that is wrong."""
    return explain(environ, file)[0]


def explain(environ: Mapping[str, str] | None = None, file: Path | None = None) -> tuple[Settings, list[Sourced]]:
    """Read the settings and say where each came from: ``environment``, the file's path, or ``default``."""
    env = os.environ if environ is None else environ
    path = file or _find_file(env)
    stored = _read_file(path) if path else {}
    hints = typing.get_type_hints(Settings)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name in Settings.__struct_fields__:
        variable = PREFIX + name.upper()
        if variable in env and name != "backend":
            values[name] = _convert(variable, _split(hints[name], env[variable]), hints[name], lax=True)
            sources[name] = "environment"
        elif name in stored:
            values[name] = _convert(f"{name} in {path}", stored[name], hints[name], lax=False)
            sources[name] = str(path)
    _refuse_unknown(env, stored, path)
    settings = Settings(**values)
    _check(settings)
    rows = [
        Sourced(n, _shown(n, getattr(settings, n)), sources.get(n, "default")) for n in Settings.__struct_fields__
    ]
    return settings, rows


def _shown(name: str, value: Any) -> Any:
    if value is None or name not in SECRET | {"redis_url", "database_url"}:
        return value
    if name in SECRET:
        return "***"
    head, at, tail = str(value).rpartition("@")
    return f"{head.partition('://')[0]}://***@{tail}" if at else value


def _find_file(env: Mapping[str, str]) -> Path | None:
    named = env.get(PREFIX + "CONFIG")
    if named:
        if not Path(named).is_file():
            raise SettingsError(f"{PREFIX}CONFIG names {named}, which is no file. Create it or unset the variable.")
        return Path(named)
    places = (Path.cwd(), Path(platformdirs.user_config_dir("metalanchor", appauthor=False)))
    return next((place / FILE_NAME for place in places if (place / FILE_NAME).is_file()), None)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read as TOML: {error}") from error


def _split(hint: Any, text: str) -> Any:
    if typing.get_origin(hint) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    optional = isinstance(hint, types.UnionType) and type(None) in typing.get_args(hint)
    return None if optional and not text else text


def _convert(label: str, value: Any, hint: Any, *, lax: bool) -> Any:
    try:
        return msgspec.convert(value, hint, strict=not lax)
    except msgspec.ValidationError as error:
        shown = "its value" if label.endswith("TOKEN") else repr(value)
        raise SettingsError(f"{label}: {shown} is not accepted ({error}).") from None


def _refuse_unknown(env: Mapping[str, str], stored: Mapping[str, Any], path: Path | None) -> None:
    known = {PREFIX + name.upper() for name in Settings.__struct_fields__} | {PREFIX + "CONFIG"}
    known.discard(PREFIX + "BACKEND")
    for name in sorted(set(n for n in env if n.startswith(PREFIX)) - known):
        raise SettingsError(f"{name} is not a setting. `metalanchor status --config` lists them all.")
    for name in sorted(set(stored) - set(Settings.__struct_fields__)):
        raise SettingsError(f"{name} in {path} is not a setting. `metalanchor status --config` lists them all.")


def _check(settings: Settings) -> None:
    for name, low in (("port", 0), ("workers", 1), ("max_body", 1), ("text_ttl", 1), ("retention_days", 1),
                      ("spool_max_bytes", 0), ("state_max_bytes", 1 << 20), ("upload_idle_s", 0)):
        if getattr(settings, name) < low:
            raise SettingsError(f"{PREFIX}{name.upper()} must be at least {low}, not {getattr(settings, name)}.")
    if settings.port > 65535:
        raise SettingsError(f"{PREFIX}PORT must be at most 65535, not {settings.port}.")
    for url in (settings.backend_url, *(b.url for b in settings.backend)):
        if url is not None and not url.startswith(("http://", "https://")):
            raise SettingsError(f"{PREFIX}BACKEND_URL: {url!r} must start with http:// or https://.")
    if not is_loopback(settings.host) and not settings.token:
        raise SettingsError(
            f"{PREFIX}HOST={settings.host} is reachable from other machines: set {PREFIX}TOKEN, or use 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on that address."""
    return host in {"localhost", "::1"} or host.startswith("127.")
