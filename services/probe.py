"""Asks a model server what it is, and looks for one on this machine.

A server is known by its answers, never by its port: several of them share one. Each question is a GET that no
server charges for. Owns nothing: what is found out is written down by the watcher.
"""

import http.client
import json
import ssl
from collections.abc import Callable
from hashlib import sha1
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

TIMEOUT_S = 1.5  # local servers answer these within milliseconds, also while they prefill
ANSWER_MAX = 1 << 20
# Where local servers listen by default; llama-server is moving from 8080 to 9931 (ggml-org/llama.cpp#26508).
WELL_KNOWN = ("11434", "8080", "9931", "1234", "8000")

STAND_IN_ALIAS = "metalanchor-stand-in"


class Answer(NamedTuple):
    """What a question came back with. `status` is 0 where the server took it and said nothing in time.

    `server` is the Server header, `body` the parsed JSON, None where it is none.
    """

    status: int
    server: str
    body: Any


class Found(NamedTuple):
    """What a server said it is; `kind` is None where it answers but is none that is known."""

    kind: str | None
    version: str | None
    facts: dict[str, Any]


def ask(url: str, path: str, timeout_s: float = TIMEOUT_S) -> Answer | None:
    """GET one path below a server's address; None where nothing listens. Blocking: call it in a thread."""
    connection = connection_to(url, timeout_s)
    try:
        connection.connect()
        connection.request(
            "GET", urlsplit(url).path.rstrip("/") + path, headers={"Accept": "application/json"}
        )
        response = connection.getresponse()
        text = response.read(ANSWER_MAX)
        return Answer(response.status, response.getheader("Server", "") or "", _json(text))
    except TimeoutError:
        return Answer(0, "", None) if connection.sock is not None else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def connection_to(url: str, timeout_s: float) -> http.client.HTTPConnection:
    """A connection to a server's address, not made yet."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            host, parts.port, timeout=timeout_s, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _field(answer: Answer | None, name: str) -> Any:
    ok = answer is not None and answer.status == 200 and isinstance(answer.body, dict)
    return answer.body.get(name) if ok and answer is not None else None


def _ollama(url: str) -> Found | None:
    version = _field(ask(url, "/api/version"), "version")
    return Found("ollama", version, {}) if isinstance(version, str) else None


def _llama_server(url: str) -> Found | None:
    props = ask(url, "/props")
    if _loading(props):
        return Found("llama-server", None, {"busy": True})
    settings = _field(props, "default_generation_settings")
    slots = _field(props, "total_slots")
    if not isinstance(settings, dict) or not isinstance(slots, int):
        return None
    build = _field(props, "build_info")
    facts = {"n_ctx": settings.get("n_ctx"), "total_slots": slots, **_launched(props)}
    if _field(props, "model_alias") == STAND_IN_ALIAS:
        facts["stand_in"] = True
    return Found("llama-server", build if isinstance(build, str) else None, facts)


def _launched(props: Answer | None) -> dict[str, Any]:
    """What tells one launch from another, where it is shown: names and digests, no path and no text."""
    shown: dict[str, Any] = {}
    for name, field in (("process", "media_marker"), ("chat_template", "chat_template")):
        if isinstance(value := _field(props, field), str) and value:
            shown[name] = sha1(value.encode()).hexdigest()[:12]
    if isinstance(path := _field(props, "model_path"), str) and path:
        shown["model"] = PurePath(path).name
    if _field(props, "is_sleeping") is True:
        shown["sleeping"] = True
    return shown


def _loading(answer: Answer | None) -> bool:
    error = answer.body.get("error") if answer and isinstance(answer.body, dict) else None
    return isinstance(error, dict) and error.get("type") == "unavailable_error"


def _lmstudio(url: str) -> Found | None:
    listed = _field(ask(url, "/api/v1/models"), "models")
    if isinstance(listed, list):
        return Found("lmstudio", None, {"models": len(listed)})
    legacy = _field(ask(url, "/api/v0/models"), "data")
    return Found("lmstudio", None, {"models": len(legacy)}) if isinstance(legacy, list) else None


def _vllm(url: str) -> Found | None:
    if "vllm" not in _models(url, "owned_by"):
        return None
    version = _field(ask(url, "/version"), "version")
    return Found("vllm", version if isinstance(version, str) else None, {})


def _ds4(url: str) -> Found | None:
    ids = _models(url, "id")
    known = [name for name in ids if isinstance(name, str) and name.startswith("deepseek-v4-flash")]
    return Found("ds4", None, {}) if known and not _field(ask(url, "/health"), "status") else None


def _mlx_lm(url: str) -> Found | None:
    answer = ask(url, "/health")
    python_server = answer is not None and answer.server.startswith("BaseHTTP/")
    return Found("mlx_lm", None, {}) if python_server and _field(answer, "status") == "ok" else None


def _models(url: str, field: str) -> list[Any]:
    data = _field(ask(url, "/v1/models"), "data")
    return [item.get(field) for item in data if isinstance(item, dict)] if isinstance(data, list) else []


def _openai(url: str) -> Found | None:
    data = _field(ask(url, "/v1/models"), "data")
    return Found("openai", None, {}) if isinstance(data, list) else None


# In the order in which an answer proves most: routes that only one server has come first.
BY_KIND: dict[str, Callable[[str], Found | None]] = {
    "ollama": _ollama,
    "llama-server": _llama_server,
    "lmstudio": _lmstudio,
    "vllm": _vllm,
    "ds4": _ds4,
    "mlx_lm": _mlx_lm,
}


def probe_blocking(url: str, kind: str = "auto", hint: str | None = None) -> Found | None:
    """What the server at `url` is, None when nothing listens there.

    A configured `kind` is believed; its own question is asked only for the version. A `hint` (what it was
    last time) is asked first, which spares a server's log the questions meant for others. Anthropic's and
    OpenAI's own addresses are known by name: asking them would need a key.
    """
    first = ask(url, "/")
    if first is None:
        return None
    known = _named(url) if kind == "auto" else kind
    if first.status == 0 or known is not None:
        found = BY_KIND[known](url) if known in BY_KIND and first.status else None
        return found or Found(known, None, {"busy": True} if first.status == 0 else {})
    order = sorted(BY_KIND, key=lambda name: name != hint)
    questions = (*(BY_KIND[name] for name in order), _openai)
    return next((found for question in questions if (found := question(url))), Found(None, None, {}))


def _named(url: str) -> str | None:
    host = urlsplit(url).hostname or ""
    return next((kind for kind in ("anthropic", "openai") if host.endswith(f"api.{kind}.com")), None)


def brief(url: str, kind: str | None) -> Found | None:
    """What a server of a known kind answers to its own question; None where it says anything else."""
    return BY_KIND[kind](url) if kind in BY_KIND else None


def refused(url: str) -> bool:
    """Whether nothing listens at an address: a network that is down is no proof of a process that is gone."""
    connection = connection_to(url, TIMEOUT_S)
    try:
        connection.connect()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    finally:
        connection.close()
    return False


def local_addresses() -> list[str]:
    """The well-known local addresses, in the order in which they are tried."""
    return [f"http://127.0.0.1:{port}" for port in WELL_KNOWN]


def find_local_backend(addresses: list[str] | None = None) -> tuple[str, Found] | None:
    """The first well-known local address where a model server answers as what it is. Blocking."""
    for url in local_addresses() if addresses is None else addresses:
        found = probe_blocking(url)
        if found and found.kind in BY_KIND and not found.facts.get("stand_in"):
            return url, found
    return None
