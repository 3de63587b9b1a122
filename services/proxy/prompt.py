"""The dialect-neutral view of a request: chunks in the order in which chat templates render them.

Pure data without I/O. A dialect turns a received body into a `Prompt`; placing, comparing and the causes see
only what is here. A chunk keeps the received JSON it was cut from (`raw`), so that its sections can be
derived again when two chunks have to be compared to the byte; nothing else keeps text.
"""

from typing import Any, Literal, NamedTuple

import msgspec

ChunkKind = Literal["params", "tools", "system", "message", "prompt"]
RequestKind = Literal["generation", "embedding", "management", "other"]
SectionKind = Literal["text", "json", "media", "name", "reasoning"]


def plain_model(name: str) -> str:
    """A model's name without Ollama's ``:latest``, which means the same model."""
    return name.removesuffix(":latest")


def hex_of(digest: bytes | None) -> str | None:
    """A hash as rows and the shared state have it."""
    return digest.hex() if digest else None


class Section(NamedTuple):
    """The smallest comparable unit of a chunk.

    `path` continues the chunk's own path: ``""`` or ``.content[1]``, ``.reasoning``, ``.name``,
    ``.tool_calls[0].arguments`` for messages; whole paths such as ``system[0]``, ``tools[2].description``
    or ``params.think`` for the others. `text` is normalised UTF-8; for media the digest of the decoded bytes.
    `label` groups sections for the comparison (the tool's name, the role of a result), never for hashing.
    """

    path: str
    kind: SectionKind
    text: bytes
    label: str = ""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """One unit of the prompt.

    `index` is the position in the received array (messages only, else -1); `hash` the 20-byte SHA-1 of the
    normalised chunk; `size` the bytes of its decoded text, `wide` those of them that belong to non-ASCII
    characters (extrapolated in long texts); `media` the number of media parts; `part` the received JSON of it
    (a JSON value of the dialect's shape), which may be a view that keeps the whole body alive. `memo` is for
    a number derived from `part`: in a conversation the same chunk comes back turn after turn.
    """

    kind: ChunkKind
    index: int
    role: str
    hash: bytes
    size: int
    wide: int
    media: int
    part: msgspec.Raw | bytes
    memo: list[int] = []

    @property
    def raw(self) -> bytes:
        """The received JSON; copied out of the body, so ask once."""
        return bytes(self.part)

    def apart(self) -> "Chunk":
        """The same chunk without hold of the body it was cut from."""
        if not isinstance(self.part, msgspec.Raw):
            return self
        return msgspec.structs.replace(self, part=msgspec.Raw(self.raw))


class Hints(msgspec.Struct, kw_only=True):
    """What the body says about who sends it; ids are as received and must pass `identity.clean`."""

    prompt_cache_key: str | None = None
    user_id: str | None = None
    client_metadata: dict[str, str] | None = None
    system_head: str = ""
    tool_names: tuple[str, ...] = ()


class Engine(msgspec.Struct, kw_only=True):
    """What the body asks of the engine besides text: load-affecting options, lifetime, cache switches.

    `options` holds only load-affecting ones as sent (num_ctx, num_batch, num_gpu, main_gpu, use_mmap,
    use_mlock, num_thread, num_keep, draft_num_predict, shift); `keep_alive_s` is in seconds, negative never
    unloads, None is unset; `unload`/`load` mark Ollama's bodies without a prompt.
    """

    options: dict[str, Any] = {}
    keep_alive_s: float | None = None
    cache_prompt: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    load: bool = False
    unload: bool = False


class Prompt(msgspec.Struct, kw_only=True):
    """A request body understood. Hashes are 20 bytes; `prefixes[i]` stands for all chunks up to the i-th."""

    dialect: str
    kind: RequestKind
    model: str
    stream: bool
    list_name: str = "messages"
    chunks: list[Chunk] = []
    prefixes: list[bytes] = []
    raw_hash: bytes = b""
    request_bytes: int = 0
    system_hash: bytes | None = None
    tools_hash: bytes | None = None
    tools_set_hash: bytes | None = None
    params_hash: bytes | None = None
    first_hash: bytes | None = None
    message_count: int = 0
    tool_count: int = 0
    has_media: bool = False
    hints: Hints = msgspec.field(default_factory=Hints)
    engine: Engine = msgspec.field(default_factory=Engine)

    @property
    def request_hash(self) -> bytes | None:
        """The last prefix hash; None where there is nothing to hash."""
        return self.prefixes[-1] if self.prefixes else None

    def path(self, chunk: Chunk, below: str = "") -> str:
        """The full path of a section, e.g. ``messages[4].tool_calls[0].arguments`` or ``input[2]``."""
        if chunk.kind == "message":
            return f"{self.list_name}[{chunk.index}]{below}"
        return below or chunk.kind
