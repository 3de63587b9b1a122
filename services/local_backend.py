"""Decides which model server ``metalanchor up`` serves: the configured one, one that runs, or none yet.

It owns no state; it looks at local ports (through `services.probe`) and at what is installed.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

from services.probe import find_local_backend
from services.settings import Settings

OLLAMA_URL = "http://127.0.0.1:11434"
LMSTUDIO_URL = "http://127.0.0.1:1234"
NAMES = {
    "ollama": "Ollama",
    "llama-server": "llama-server",
    "lmstudio": "LM Studio",
    "vllm": "vLLM",
    "ds4": "ds4",
    "mlx_lm": "mlx_lm",
}


class Choice(NamedTuple):
    """The address to serve and one sentence about it. A `provisional` one is left when a server appears.

    `url` is None where the stand-in has to be started first.
    """

    url: str | None
    sentence: str
    provisional: bool = False


def choose(settings: Settings) -> Choice:
    """The model server to start with."""
    if settings.backend_url or settings.backend:
        configured = settings.backend_url or ", ".join(b.url for b in settings.backend)
        return Choice(settings.backend_url, f"Forwarding to {configured} as configured.")
    if settings.embedded_engine == "always":
        return Choice(None, "METALANCHOR_EMBEDDED_ENGINE=always: serving the small built-in model.")
    if running := look():
        return running
    for name, url, how in idle_servers():
        text = f"{name} is installed but not running. Start it ({how}); MetalAnchor waits for it at {url}."
        return Choice(url, text, provisional=True)
    if settings.embedded_engine == "never":
        text = f"No model server answers yet. MetalAnchor waits for one, first of all at {OLLAMA_URL}."
        return Choice(OLLAMA_URL, text, provisional=True)
    return Choice(
        None,
        "No model server answers on this machine, so a small stand-in (Gemma 3 270M in llama.cpp) is used: "
        "it rambles, which is enough to try MetalAnchor and not to work with. Start Ollama, llama-server or "
        "LM Studio and it moves there by itself, or name yours in METALANCHOR_BACKEND_URL.",
        provisional=True,
    )


def look() -> Choice | None:
    """A server that answers now on a well-known local port, the stand-in excepted."""
    found = find_local_backend()
    if found is None:
        return None
    url, answer = found
    name = NAMES.get(answer.kind or "", "A model server")
    version = f" {answer.version}" if answer.version else ""
    return Choice(url, f"Found {name}{version} at {url}.")


def idle_servers() -> list[tuple[str, str, str]]:
    """Servers that are installed here: name, address they will have, how to start them."""
    ollama = [Path("/Applications/Ollama.app"), Path.home() / "Applications/Ollama.app"]
    studio = [
        Path("/Applications/LM Studio.app"),
        Path.home() / "Applications/LM Studio.app",
        Path.home() / ".lmstudio/bin/lms",
    ]
    found = []
    if shutil.which("ollama") or any(path.exists() for path in ollama):
        found.append(("Ollama", OLLAMA_URL, "open the app, or `ollama serve`"))
    if shutil.which("lms") or any(path.exists() for path in studio):
        found.append(("LM Studio", LMSTUDIO_URL, "open the app and start its server, or `lms server start`"))
    return found
