"""Embeddings in every shape: read for the model they occupy and what they cost, not for their texts."""

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.dialects.base import Family, Outcome, Reply
from services.proxy.dialects.envelope import Envelope, model_of, ollama_engine_of
from services.proxy.dialects.ollama import COUNTERS
from services.proxy.dialects.tap import AnswerTap
from services.proxy.dialects.usage_fields import counters, error_code
from services.proxy.prompt import ChunkKind, Engine, Prompt, RequestKind, Section


class Embeddings:
    """``POST /v1/embeddings``, and Ollama's ``/api/embed`` and ``/api/embeddings``."""

    kind: RequestKind = "embedding"
    list_name = "messages"

    def __init__(self, name: str, family: Family) -> None:
        self.name = name
        self.family: Family = family

    def read(self, body: bytes, backend: str) -> Prompt:
        """The model and what is asked of the engine; raises `UnparsedError`."""
        del backend
        envelope = cut.decode(_envelope, body)
        return Prompt(
            dialect=self.name,
            kind="embedding",
            model=model_of(envelope),
            stream=False,
            engine=ollama_engine_of(envelope) if self.family == "ollama" else Engine(),
        )

    def sections(self, kind: ChunkKind, raw: bytes) -> list[Section]:
        """An embedding has no chunks."""
        del kind, raw
        return []

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> AnswerTap:
        """A listener for the answer."""
        del prompt, content_type
        return AnswerTap(EmbeddingsReader(), content_encoding, lines=False)


class _Answer(msgspec.Struct, gc=False):
    usage: Raw = cut.NONE
    error: Raw = cut.NONE


_envelope = msgspec.json.Decoder(Envelope)
_decoder = msgspec.json.Decoder(_Answer)
_numbers = msgspec.json.Decoder(dict[str, Raw])


class EmbeddingsReader:
    """Reads the counters of an answer; the vectors are skipped."""

    def __init__(self) -> None:
        self.outcome = Outcome()

    def event(self, name: bytes, data: bytes) -> bool:
        """Nobody streams embeddings."""
        del name
        self.whole(data)
        return False

    def whole(self, data: bytes) -> None:
        """The answer in one piece."""
        answer = cut.decode(_decoder, data)
        self.outcome.terminal = True
        self.outcome.reported |= counters("usage", answer.usage)
        if cut.is_set(answer.error):
            self.outcome.error = error_code(answer.error)
        fields = cut.decode(_numbers, data)
        told = ((name, cut.number_of(fields[name])) for name in COUNTERS if name in fields)
        self.outcome.reported |= {name: float(number) for name, number in told if number is not None}

    def reply(self) -> Reply | None:
        """Vectors are no message."""
        return None
