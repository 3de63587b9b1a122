"""The one typed settings object: environment over ``metalanchor.toml`` over defaults.

Every process reads it once at start and passes it on; nothing else reads the environment. A name or value
that is not understood is an error that says which, so that a typing mistake never turns into a default.
"""

import difflib
import ipaddress
import os
import re
import tomllib
import types
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
import platformdirs

from services import redis_address

PREFIX = "METALANCHOR_"
FILE_NAME = "metalanchor.toml"

BackendKind = Literal[
    "auto", "ollama", "llama-server", "ds4", "lmstudio", "mlx_lm", "vllm", "openai", "anthropic"
]  # fmt: skip


class SettingsError(ValueError):
    """A setting is unknown, malformed or unsafe; the text names it and the next step."""


class BackendSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[backend]]`` table: a model server and the port the proxy listens on for it."""

    name: str
    url: str
    kind: BackendKind = "auto"
    port: int | None = None


class CacheRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[cache_rule]]`` table: how long answers to questions with one of these words stay true.

    `ttl` in seconds; 0 never keeps one, below 0 overrules the built-in list of words about now.
    """

    words: tuple[str, ...]
    ttl: float = 0.0


def backend_name(url: str) -> str:
    """The default name of a backend: its authority, so that every process calls it the same."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _data_dir() -> str:
    return platformdirs.user_data_dir("metalanchor", appauthor=False)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings: ``host`` is ``METALANCHOR_HOST`` in the environment and ``host`` in the file."""

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
    otel_endpoint: str | None = None
    response_cache: Literal["off", "exact", "semantic"] = "off"
    response_cache_ttl: int = 24 * 3600
    response_cache_max_bytes: int = 256 << 20
    response_cache_single_flight: bool = False
    cache_rule: tuple[CacheRule, ...] = ()
    embeddings_url: str | None = None
    embeddings_model: str | None = None
    aliases_url: str | None = None
    aliases_model: str | None = None
    sample_interval_s: float = 60.0
    alarm_hit_rate: float | None = None
    prices: str | None = None
    breakpoints: Literal["off", "auto"] = "off"

    @property
    def data_path(self) -> Path:
        """The data folder: SQLite file, spool, journal and the embedded server's files."""
        return Path(self.data_dir).expanduser()

    @property
    def database(self) -> str:
        """The SQLAlchemy URL of the history: the configured one, else a SQLite file in the data folder."""
        return self.database_url or f"sqlite:///{self.data_path / 'history.sqlite'}"

    @property
    def named_backends(self) -> list[BackendSetting]:
        """The model servers that are configured, that of the environment first; empty where none is."""
        rows = list(self.backend)
        if self.backend_url:
            name = backend_name(self.backend_url)
            rows.insert(0, BackendSetting(name=name, url=self.backend_url, kind=self.backend_kind))
        return rows


class Sourced(msgspec.Struct, frozen=True):
    """One setting as ``metalanchor status --config`` shows it."""

    name: str
    value: Any
    source: str


SECRET = frozenset({"token"})
# They may carry a password.
ADDRESSES = frozenset(
    {"redis_url", "database_url", "backend_url", "embeddings_url", "aliases_url", "otel_endpoint"}
)
FILE_ONLY = frozenset({"backend", "cache_rule"})  # tables have no shape in an environment variable
LOWEST = {
    "response_cache_ttl": 1, "response_cache_max_bytes": 1 << 20,
    "port": 0, "workers": 1, "max_body": 1, "text_ttl": 1, "retention_days": 1, "spool_max_bytes": 0,
    "state_max_bytes": 1 << 20, "upload_idle_s": 0.1, "sample_interval_s": 0,
}  # fmt: skip
HELP: dict[str, str] = {
    "host": "Address the proxy listens on. Any but loopback needs a token.",
    "port": "Port the proxy listens on.",
    "token": "Secret that clients send as X-MetalAnchor-Token, as Bearer or as x-api-key.",
    "allowed_hosts": "Further Host names that are answered (comma list).",
    "backend_url": "Model server to forward to; may be https and have a base path.",
    "backend_kind": "What the model server is; `auto` asks it.",
    "backend": "Several model servers, one listening port each (file only).",
    "redis_url": "Shared Redis (also `redis+sentinel://HOST,HOST/SERVICE`); without it a private one starts.",
    "database_url": "SQLAlchemy URL of the request history; without it a SQLite file in the data folder.",
    "data_dir": "Folder for the SQLite file, spool, journal and the private Redis.",
    "key_file": "File with this installation's hashing key; share it between machines that share a Redis.",
    "embedded_engine": "Whether `up` may serve through the small stand-in model.",
    "keep_text": "Keep prompt text in this process's memory to explain breaks.",
    "text_ttl": "Seconds prompt text stays in memory.",
    "state_max_bytes": "Cap on hit state, in Redis and in memory each.",
    "store_bodies": "Store requests and answers themselves in the history, compressed, secrets masked.",
    "max_body": "Largest request body on analysed routes, in bytes.",
    "spool_max_bytes": "Cap on records kept on disk while Redis is away.",
    "tenant_header": "Request header that names the tenant.",
    "upload_idle_s": "Seconds an upload may stall before 408.",
    "workers": "Proxy processes that share the port.",
    "retention_days": "Days the history is kept.",
    "otel_endpoint": "OTLP/HTTP collector that gets a span a request from the worker (extra `otel`).",
    "response_cache": "Answer equal requests (`exact`), or also equal questions (`semantic`), from Redis.",
    "response_cache_ttl": "Seconds a cached answer is given again.",
    "response_cache_max_bytes": "Cap on cached answers in Redis; the least recently used go first.",
    "response_cache_single_flight": "Whether equal requests under way share one call of the backend.",
    "cache_rule": "How long answers to questions with certain words stay true: words, ttl (file only).",
    "embeddings_url": "Server of OpenAI's or Ollama's embeddings; else the `semantic` extra's model.",
    "embeddings_model": "Model asked for embeddings at `embeddings_url`.",
    "aliases_url": "OpenAI-shaped server whose model compares near misses when idle; else none are learned.",
    "aliases_model": "Model that compares near misses.",
    "sample_interval_s": "Seconds between two samples of the configured backends' own counters; 0 is off.",
    "alarm_hit_rate": "Hit rate of a backend, 0 to 1, below which its alarm metric is 1.",
    "prices": "File with prices of cloud models that come before the built-in ones.",
    "breakpoints": "`auto` puts Anthropic cache breakpoints where a client sets none; requests wait for it.",
}


def load(environ: Mapping[str, str] | None = None, file: Path | None = None) -> Settings:
    """Read the settings; raises `SettingsError` naming the first one that is wrong."""
    return explain(environ, file)[0]


def explain(
    environ: Mapping[str, str] | None = None, file: Path | None = None
) -> tuple[Settings, list[Sourced]]:
    """Read the settings and say where each came from: ``environment``, the file's path, or ``default``."""
    env = os.environ if environ is None else environ
    path = file or _find_file(env)
    stored = _read_file(path) if path else {}
    _refuse_unknown(env, stored, path)
    hints = typing.get_type_hints(Settings)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, hint in hints.items():
        variable = PREFIX + name.upper()
        if variable in env and name not in FILE_ONLY:
            values[name] = _convert(variable, _split(hint, env[variable]), hint, lax=True)
            sources[name] = "environment"
        elif name in stored:
            values[name] = _convert(f"{name} in {path}", stored[name], hint, lax=False)
            sources[name] = str(path)
    settings = Settings(**values)
    _check(settings)
    return settings, [Sourced(n, _shown(n, getattr(settings, n)), sources.get(n, "default")) for n in hints]


def _shown(name: str, value: Any) -> Any:
    if name == "backend":
        return [msgspec.to_builtins(b) | {"url": _masked(b.url)} for b in value]
    if value is not None and name in SECRET:
        return "***"
    if value is not None and name in ADDRESSES:
        return _masked(value)
    return msgspec.to_builtins(value)


def _masked(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}***@{rest.rpartition('@')[2]}" if "@" in rest else url


def config_file() -> Path | None:
    """The ``metalanchor.toml`` that `load` reads from here, as an absolute path; None where there is none."""
    found = _find_file(os.environ)
    return found.absolute() if found else None


def _find_file(env: Mapping[str, str]) -> Path | None:
    named = env.get(PREFIX + "CONFIG")
    if named:
        if not Path(named).is_file():
            raise SettingsError(f"{PREFIX}CONFIG names {named}, which is no file. Create it or unset it.")
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
    except (msgspec.ValidationError, UnicodeError) as error:  # the environment may hold any bytes
        secret = label.partition(" ")[0].removeprefix(PREFIX).lower() in SECRET | ADDRESSES
        shown = "its value" if secret else repr(value)
        raise SettingsError(f"{label}: {shown} is not accepted ({_allowed(hint) or error}).") from None


def _allowed(hint: Any) -> str | None:
    """The values of a choice, or of a switch, in words."""
    if hint is bool:
        return "write true or false"
    if typing.get_origin(hint) is Literal:
        return "choose from " + ", ".join(typing.get_args(hint))
    return None


def _refuse_unknown(env: Mapping[str, str], stored: Mapping[str, Any], path: Path | None) -> None:
    names = Settings.__struct_fields__
    known = {PREFIX + name.upper() for name in names if name not in FILE_ONLY} | {PREFIX + "CONFIG"}
    for name in sorted({n for n in env if n.startswith(PREFIX)} - known):
        raise SettingsError(f"{name} is not a setting.{_nearest(name, known)}")
    for name in sorted(set(stored) - set(names)):
        raise SettingsError(f"{name} in {path} is not a setting.{_nearest(name, names)}")


def _nearest(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]}?" if close else " `metalanchor status --config` lists them all."


def _check(settings: Settings) -> None:
    for name, low in LOWEST.items():
        if not getattr(settings, name) >= low:  # also refuses NaN
            raise SettingsError(f"{_env(name)} must be at least {low}, not {getattr(settings, name)}.")
    if settings.port > 65535:
        raise SettingsError(f"{_env('port')} must be at most 65535, not {settings.port}.")
    if settings.token is not None and not re.fullmatch(r"[!-~]+", settings.token):
        raise SettingsError(f"{_env('token')} must be visible ASCII characters without spaces.")
    if settings.tenant_header is not None and not re.fullmatch(r"[A-Za-z0-9-]+", settings.tenant_header):
        raise SettingsError(f"{_env('tenant_header')}: {settings.tenant_header!r} is no header name.")
    if settings.alarm_hit_rate is not None and not 0 <= settings.alarm_hit_rate <= 1:
        raise SettingsError(f"{_env('alarm_hit_rate')} must be from 0 to 1, not {settings.alarm_hit_rate}.")
    _check_redis(settings.redis_url)
    if not is_loopback(settings.host) and not settings.token:
        raise SettingsError(
            f"{_env('host')}={settings.host} is reachable from other machines: "
            f"set {_env('token')}, or use 127.0.0.1."
        )
    _check_servers(settings)
    _check_backends(settings)


def _check_servers(settings: Settings) -> None:
    """Servers that the cache asks need an address and a model."""
    for what in ("embeddings", "aliases"):
        url, model = getattr(settings, f"{what}_url"), getattr(settings, f"{what}_model")
        if url is not None and not _is_address(url):
            raise SettingsError(
                f"{_env(what + '_url')}: {_masked(url)!r} must be http:// or https:// and a host."
            )
        if (url is None) != (model is None):
            raise SettingsError(
                f"{_env(what + '_url')} and {_env(what + '_model')} are set together or not at all."
            )


def _check_redis(url: str | None) -> None:
    if url and url.partition("://")[0] not in redis_address.SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in redis_address.SCHEMES)
        raise SettingsError(f"{_env('redis_url')} must start with one of {known}.")
    try:
        redis_address.parse(url or "")
    except ValueError as error:
        raise SettingsError(f"{_env('redis_url')}: {error}.") from None


def _check_backends(settings: Settings) -> None:
    first = (_env("backend_url"), settings.backend_url)
    for label, url in (first, *((f"[[backend]] {b.name}", b.url) for b in settings.backend)):
        if url is not None and not _is_address(url):
            raise SettingsError(f"{label}: {_masked(url)!r} must be http:// or https:// and a host.")
        if url is not None and _is_own(settings, url):
            raise SettingsError(f"{label}: {_masked(url)!r} is where the proxy itself listens.")
    for backend in settings.backend:
        if backend.port is not None and not 0 < backend.port <= 65535:
            raise SettingsError(
                f"[[backend]] {backend.name}: port must be from 1 to 65535, not {backend.port}."
            )
    for what in ("name", "port"):
        used = [getattr(b, what) for b in settings.backend if getattr(b, what) is not None]
        if len(used) != len(set(used)):
            raise SettingsError(f"[[backend]]: each needs its own {what}, these are {used}.")
    if any(b.port is None for b in settings.backend[0 if settings.backend_url else 1 :]):
        raise SettingsError(f"[[backend]]: all but the one on {_env('port')} need a port of their own.")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _is_own(settings: Settings, url: str) -> bool:
    """Whether a backend's URL is the proxy's own address: each request would call itself for ever."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if port not in {settings.port, *(backend.port for backend in settings.backend)}:
        return False
    host = parts.hostname or ""
    return host == settings.host or is_loopback(host) or host in {"0.0.0.0", "::"}  # noqa: S104  (not bound)


def _env(name: str) -> str:
    return PREFIX + name.upper()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
