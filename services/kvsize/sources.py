"""Where a model's shape comes from: a GGUF file, a running Ollama, or a llama-server whose file is at hand.

It owns no state. Blocking; each question has a time limit and an answer a size limit.
"""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from services.kvsize.gguf import BadGguf, read_metadata
from services.kvsize.metadata import NoShape, shape_of
from services.kvsize.shape import Shape
from services.probe import ask, connection_to, probe_blocking

LIMIT_S = 10.0
# A verbose answer repeats the whole vocabulary.
MOST = 64 << 20


class NoSource(ValueError):  # noqa: N818
    """The shape cannot be had from there; the text says why and what to do."""


class Found(msgspec.Struct, kw_only=True):
    """A shape, and what a server says of its use: None where it says nothing."""

    shape: Shape
    source: str
    model: str | None = None
    context: int | None = None
    sequences: int | None = None
    unified: bool = False
    notes: list[str] = []


def from_file(path: Path) -> Found:
    """From a GGUF file; of a split model the first part has the keys. Raises `NoSource`."""
    try:
        return Found(shape=shape_of(read_metadata(path)), source=str(path))
    except (BadGguf, NoShape) as error:
        raise NoSource(f"{path} cannot be used: {error}") from None
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror or error}."
        raise NoSource(f"{why} Name a GGUF file, or a server as http://HOST:PORT.") from None


def from_server(url: str, model: str | None) -> Found:
    """From an Ollama or llama-server at `url`; `model` names one of Ollama's. Raises `NoSource`."""
    base = url.rstrip("/").removesuffix("/v1").rstrip("/")
    answer = probe_blocking(base)
    if answer is None:
        raise NoSource(f"Nothing answers at {base}. Start the model server, or name a GGUF file.")
    if answer.kind == "ollama":
        return _ollama(base, model)
    if answer.kind == "llama-server":
        return _llama_server(base)
    raise NoSource(
        f"{base} is {answer.kind or 'a server'} that does not tell its model's shape. "
        "Name a GGUF file, or give --layers, --heads, --kv-heads and --head-dim."
    )


def _ollama(base: str, model: str | None) -> Found:
    loaded = _models(base, "/api/ps")
    name = model or _only(base, loaded)
    shown = _show(base, name, verbose=False)
    if _needs_arrays(shown):
        shown = _show(base, name, verbose=True)
    try:
        shape = shape_of(shown)
    except NoShape as error:
        raise NoSource(f"Ollama's {name} cannot be used: {error}") from None
    running = next((one for one in loaded if name in {one.get("name"), one.get("model")}), {})
    context = running.get("context_length")
    notes = [
        "Ollama keeps it in f16 unless OLLAMA_KV_CACHE_TYPE says otherwise: then name that with --dtype."
    ]
    return Found(
        shape=shape,
        source=base,
        model=name,
        context=context if isinstance(context, int) and context > 0 else None,
        notes=notes,
    )


def _only(base: str, loaded: list[dict[str, Any]]) -> str:
    names = [one["name"] for one in loaded or _models(base, "/api/tags") if isinstance(one.get("name"), str)]
    if len(names) != 1:
        known = f" It has {', '.join(names[:8])}." if names else ""
        raise NoSource(f"Name the model with --model.{known}")
    return str(names[0])


def _models(base: str, path: str) -> list[dict[str, Any]]:
    answer = ask(base, path, LIMIT_S)
    listed = answer.body.get("models") if answer and isinstance(answer.body, dict) else None
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _show(base: str, model: str, *, verbose: bool) -> dict[str, Any]:
    connection = connection_to(base, LIMIT_S)
    body = json.dumps({"model": model, "verbose": verbose})
    try:
        path = urlsplit(base).path.rstrip("/") + "/api/show"
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            status, text = response.status, response.read(MOST + 1)
        info = json.loads(text).get("model_info") if status == http.client.OK and len(text) <= MOST else None
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        status, info = 0, None
    finally:
        connection.close()
    if status == http.client.NOT_FOUND:
        raise NoSource(f"Ollama at {base} has no model {model}. `ollama list` shows those it has.")
    if not isinstance(info, dict):
        raise NoSource(f"Ollama at {base} does not show {model} (HTTP {status or 'failed'}).")
    return info


def _needs_arrays(keys: dict[str, Any]) -> bool:
    """Whether a value for each layer was left out, as Ollama does with arrays unless asked for them."""
    arch = keys.get("general.architecture")
    names = ("attention.head_count", "attention.head_count_kv", "attention.sliding_window_pattern")
    return any(f"{arch}.{name}" in keys and keys[f"{arch}.{name}"] in (None, []) for name in names)


def _llama_server(base: str) -> Found:
    answer = ask(base, "/props", LIMIT_S)
    props = answer.body if answer and isinstance(answer.body, dict) else {}
    settings = props.get("default_generation_settings")
    context = settings.get("n_ctx") if isinstance(settings, dict) else None
    path = props.get("model_path")
    if not isinstance(path, str) or not Path(path).is_file():
        shown = f"its model is {path!r}, which is no file here" if path else "it names no model file"
        raise NoSource(
            f"llama-server at {base} does not tell its model's shape: {shown}. Name the GGUF file."
        )
    slots = props.get("total_slots")
    many = isinstance(slots, int) and slots > 1
    found = from_file(Path(path))
    found.source, found.context = base, context if isinstance(context, int) and context > 0 else None
    found.sequences, found.unified = (slots, True) if many else (1, False)
    found.notes = ["llama-server keeps it in f16 unless -ctk and -ctv say otherwise: then use --dtype."]
    if many:
        found.notes.append(
            f"Its {slots} slots are taken to share one cache; with -np and no -kvu use --split."
        )
    return found
