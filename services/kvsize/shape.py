"""The shape of a model as its key-value cache sees it, and the bytes that follow. Pure.

It owns the arithmetic. What attention needs is counted exactly; what llama.cpp allocates for it is a little
more, since it rounds contexts up and gives sliding windows room for a batch.
"""

import math
from typing import NamedTuple

import msgspec

# Bytes of a block and elements in it, as ggml lays them out: q8_0 is 32 bytes and a 2-byte scale.
DTYPES: dict[str, tuple[int, int]] = {
    "f32": (4, 1), "f16": (2, 1), "bf16": (2, 1), "fp8": (1, 1),
    "q8_0": (34, 32), "q5_1": (24, 32), "q5_0": (22, 32), "q4_1": (20, 32), "q4_0": (18, 32),
    "iq4_nl": (18, 32),
}  # fmt: skip
# llama.cpp (llama-context.cpp, llama-kv-cache-iswa.cpp): contexts are padded to this many cells, and a
# sliding window holds a batch besides what it needs.
CELLS = 256
UBATCH = 512


class Layer(NamedTuple):
    """What one layer keeps.

    Elements a token of keys and of values, its window in tokens (None is the whole context), and the bytes of
    state a sequence that a recurrent layer keeps instead.
    """

    key: int = 0
    value: int = 0
    window: int | None = None
    state: int = 0


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A model's layers; `trained` is the context it was trained for, `notes` what was assumed."""

    name: str
    attention: str
    layers: tuple[Layer, ...]
    trained: int | None = None
    notes: tuple[str, ...] = ()


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be held: `context` tokens in each of `sequences`, keys and values in their types.

    With `unified` all sequences share `context` cells, as llama-server's slots do by default. `swa_full` is
    llama.cpp's flag of that name: sliding windows get cells for the whole context.
    """

    context: int
    sequences: int = 1
    key_type: str = "f16"
    value_type: str = "f16"
    unified: bool = False
    ubatch: int = UBATCH
    swa_full: bool = False


def row_bytes(elements: int, dtype: str) -> int:
    """Bytes of that many elements: whole blocks."""
    size, per_block = DTYPES[dtype]
    return -(-elements // per_block) * size


def token_bytes(layer: Layer, use: Use) -> int:
    """Bytes that one token takes in one layer."""
    return row_bytes(layer.key, use.key_type) + row_bytes(layer.value, use.value_type)


def bytes_per_token(shape: Shape, use: Use) -> int:
    """Bytes by which the cache grows with each token once all windows are full."""
    return sum(token_bytes(layer, use) for layer in shape.layers if layer.window is None)


def window_bytes_per_token(shape: Shape, use: Use) -> int:
    """Bytes that a token takes on top of that while it is within the sliding windows."""
    return sum(token_bytes(layer, use) for layer in shape.layers if layer.window is not None)


def state_bytes(shape: Shape) -> int:
    """Bytes a sequence that do not depend on its length: recurrent state."""
    return sum(layer.state for layer in shape.layers)


def sequence_bytes(shape: Shape, use: Use, tokens: int) -> int:
    """Bytes that one sequence of that many tokens needs."""
    kept = sum(
        token_bytes(layer, use) * (tokens if layer.window is None else min(tokens, layer.window))
        for layer in shape.layers
    )
    return kept + state_bytes(shape)


def needed_bytes(shape: Shape, use: Use) -> int:
    """Bytes that all sequences need when `use.context` is full, without any rounding."""
    if not use.unified:
        return use.sequences * sequence_bytes(shape, use, use.context)
    kept = sum(
        token_bytes(layer, use)
        * (use.context if layer.window is None else min(use.context, layer.window * use.sequences))
        for layer in shape.layers
    )
    return kept + use.sequences * state_bytes(shape)


def allocated_bytes(shape: Shape, use: Use) -> int:
    """Bytes that llama.cpp allocates for it: its log's ``KV buffer size`` and ``RS buffer size``."""
    streams = 1 if use.unified else use.sequences
    cells = padded(use.context)
    total = use.sequences * state_bytes(shape)
    for layer in shape.layers:
        total += token_bytes(layer, use) * streams * _cells(layer, cells, use)
    return total


def _cells(layer: Layer, cells: int, use: Use) -> int:
    if layer.window is None or use.swa_full:
        return cells
    window = layer.window * (use.sequences if use.unified else 1)
    return padded(min(cells, window + use.ubatch))


def padded(tokens: int) -> int:
    """That many cells, rounded up as llama.cpp does."""
    return -(-tokens // CELLS) * CELLS


def tokens_that_fit(shape: Shape, use: Use, memory: int) -> int | None:
    """The longest single sequence in that many bytes; None where length does not matter."""
    if bytes_per_token(shape, use) == 0 and sequence_bytes(shape, use, 1 << 40) <= memory:
        return None
    low, high = 0, memory + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sequence_bytes(shape, use, middle) <= memory else (low, middle)
    return low


def sequences_that_fit(shape: Shape, use: Use, memory: int) -> int:
    """How many sequences of `use.context` tokens fit into that many bytes."""
    one = sequence_bytes(shape, use, use.context)
    return math.floor(memory / one) if one else 0


def plain(
    *,
    layers: int,
    kv_heads: int,
    head_dim: int,
    full_layers: int | None = None,
    window: int | None = None,
    state: int = 0,
) -> tuple[Layer, ...]:
    """Layers from numbers: `full_layers` of them see the whole context, the rest a window or a state."""
    full = layers if full_layers is None else full_layers
    elements = kv_heads * head_dim
    other = Layer(state=state) if window is None else Layer(elements, elements, window)
    return (Layer(elements, elements),) * full + (other,) * (layers - full)


def latent(*, layers: int, rank: int, rope_dim: int) -> tuple[Layer, ...]:
    """Layers with multi-head latent attention: one compressed latent and one rotary key, no values."""
    return (Layer(rank + rope_dim),) * layers
