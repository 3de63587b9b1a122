"""Makes the shape of a model's cache out of GGUF keys, from a file or from Ollama's ``/api/show``. Pure.

It owns what the keys leave out: how often a layer sees the whole context is in many files not written down,
but in llama.cpp's loader of each architecture.
"""

from collections.abc import Mapping
from typing import Any

from services.kvsize.shape import Layer, Shape

# Architectures whose layers slide: of `period` layers one sees the whole context, the last, or where `first`
# the first. From `set_swa_pattern` in llama.cpp's loaders; a pattern in the file comes before.
PERIODS: dict[str, tuple[int, bool]] = {
    "gemma2": (2, False), "gemma3": (6, False), "gemma3n": (5, False), "cohere2": (4, False),
    "gpt-oss": (2, False), "llama4": (4, False), "exaone4": (4, False), "olmo2": (4, False),
    "afmoe": (4, False), "smallthinker": (4, True),
}  # fmt: skip
CHUNK = {"llama4": 8_192}  # written nowhere in the file
# Of so many layers the last is attention, the others keep a state; where the file does not say.
INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}
# Layers from here on read an earlier layer's cache.
OWN_LAYERS = {"gemma3n": 20}
MOST_LAYERS = 4_096
# Recurrent state is kept in 32-bit floats whatever the type of keys and values.
STATE_BYTES = 4


class NoShape(ValueError):  # noqa: N818
    """The keys do not tell the shape; the text says what is missing."""


def shape_of(keys: Mapping[str, Any]) -> Shape:
    """The cache's shape; raises `NoShape`."""
    arch = keys.get("general.architecture")
    if not isinstance(arch, str) or not arch:
        raise NoShape("The key general.architecture is missing.")
    model = _Keys(keys, arch)
    count = model.number("block_count")
    if count is None or not 0 < count <= MOST_LAYERS:
        raise NoShape(f"The key {arch}.block_count is missing, or no number of layers.")
    layers = tuple(_layer(model, number, count) for number in range(count))
    if not any(layer.key or layer.state for layer in layers):
        raise NoShape(f"No layer of {arch} seems to keep anything: is this an encoder?")
    name = keys.get("general.name")
    return Shape(
        name=f"{name} ({arch})" if isinstance(name, str) and name else arch,
        attention=attention_of(model, layers),
        layers=layers,
        trained=model.number("context_length"),
        notes=tuple(_notes(model)),
    )


class _Keys:
    """The keys of one architecture; a value may be one number for all layers or one for each."""

    def __init__(self, keys: Mapping[str, Any], arch: str) -> None:
        self._keys = keys
        self.arch = arch

    def number(self, name: str, layer: int = 0) -> int | None:
        """A whole number from 0 on; None where it is missing or of another kind."""
        value = self._keys.get(f"{self.arch}.{name}")
        if isinstance(value, list):
            value = value[layer] if layer < len(value) else None
        if not isinstance(value, int | float) or not 0 <= value < 2**40 or value != int(value):
            return None
        return int(value)

    def array(self, name: str) -> list[Any] | None:
        """A value for each layer, where the key holds that."""
        value = self._keys.get(f"{self.arch}.{name}")
        return value if isinstance(value, list) else None

    def dims(self, layer: int, *, sliding: bool) -> tuple[int, int]:
        """Elements of a head's key and value."""
        heads = self.number("attention.head_count", layer) or self.number("attention.head_count") or 0
        usual = (self.number("embedding_length") or 0) // heads if heads else 0
        key = self.number("attention.key_length") or usual
        value = self.number("attention.value_length") or usual
        if sliding:
            key = self.number("attention.key_length_swa") or key
            value = self.number("attention.value_length_swa") or value
        return key, value

    def kv_heads(self, layer: int) -> int:
        """Key-value heads; as many as heads where no number is given."""
        given = self.number("attention.head_count_kv", layer)
        return given if given is not None else self.number("attention.head_count", layer) or 0

    @property
    def latent(self) -> bool:
        """Whether keys and values are one compressed latent, as the engine keeps them."""
        return bool(self.number("attention.key_length_mla") and self.number("attention.value_length_mla"))


def _layer(model: _Keys, number: int, count: int) -> Layer:
    if number >= _own(model, count):
        return Layer()
    state = _state(model) if _recurs(model, number) else 0
    if not _attends(model, number):
        return Layer(state=state)
    sliding = _slides(model, number)
    key, value = model.dims(number, sliding=sliding)
    heads = model.kv_heads(number)
    window = (model.number("attention.sliding_window") or CHUNK.get(model.arch)) if sliding else None
    return Layer(heads * key, 0 if model.latent else heads * value, window, state)


def _own(model: _Keys, count: int) -> int:
    """How many layers, from the first on, have a cache of their own."""
    shared = model.number("attention.shared_kv_layers")
    if shared is not None:
        return count - min(shared, count)
    drafting = model.number("nextn_predict_layers") or 0
    return min(OWN_LAYERS.get(model.arch, count), count - min(drafting, count))


def _slides(model: _Keys, number: int) -> bool:
    if not (model.number("attention.sliding_window") or CHUNK.get(model.arch)):
        return False
    pattern = model.array("attention.sliding_window_pattern")
    if pattern is not None:
        return bool(pattern[number]) if number < len(pattern) else False
    period, first = PERIODS.get(model.arch, (0, False))
    period = model.number("attention.sliding_window_pattern") or period
    if not period:
        return False
    return number % period != 0 if first else number % period < period - 1


def _attends(model: _Keys, number: int) -> bool:
    if (every := _interval(model)) is not None:
        return (number + 1) % every == 0
    return model.kv_heads(number) > 0


def _recurs(model: _Keys, number: int) -> bool:
    if model.arch.startswith("falcon-h1"):
        return True  # each layer has both
    if model.arch.startswith("nemotron_h") and model.number("feed_forward_length", number):
        return False  # a layer of its own without either
    return not _attends(model, number)


def _interval(model: _Keys) -> int | None:
    return model.number("full_attention_interval") or INTERVALS.get(model.arch)


def _state(model: _Keys) -> int:
    """Bytes of state a recurrent layer keeps for one sequence: llama.cpp's ``n_embd_r`` and ``n_embd_s``."""
    width = model.number("embedding_length") or 0
    if head := model.number("wkv.head_size"):
        return STATE_BYTES * width * ((model.number("token_shift_count") or 2) + head)
    if taps := model.number("shortconv.l_cache"):
        return STATE_BYTES * width * (taps - 1)
    taps = model.number("ssm.conv_kernel") or 0
    if head := model.number("kda.head_dim"):
        inner = (model.number("attention.head_count") or 0) * head
        return STATE_BYTES * (3 * (taps - 1 if taps else 3) * inner + inner * head)
    inner, size = model.number("ssm.inner_size") or 0, model.number("ssm.state_size") or 0
    groups = model.number("ssm.group_count") or 0
    return STATE_BYTES * (max(0, taps - 1) * (inner + 2 * groups * size) + size * inner)


def attention_of(model: _Keys, layers: tuple[Layer, ...]) -> str:
    """The kind of attention in the terms of the field."""
    numbers = [number for number, layer in enumerate(layers) if layer.key]
    if not numbers:
        return "recurrent"
    heads, kv_heads = model.number("attention.head_count", numbers[0]) or 0, model.kv_heads(numbers[0])
    kind = "MLA" if model.latent else kind_of(heads, kv_heads)
    extras = []
    if any(layer.window is not None for layer in layers):
        extras.append("sliding window")
    if any(layer.state for layer in layers):
        extras.append("hybrid")
    return ", ".join([kind, *extras])


def kind_of(heads: int, kv_heads: int) -> str:
    """MHA, GQA or MQA, by the number of heads that share keys and values."""
    if kv_heads == heads:
        return "MHA"
    return "MQA" if kv_heads == 1 else f"GQA {heads}:{kv_heads}"


def _notes(model: _Keys) -> list[str]:
    notes = []
    if model.number("attention.kv_lora_rank") and not model.latent:
        notes.append("An old conversion of an MLA model: the engine keeps full keys and values of it.")
    window = model.number("attention.sliding_window")
    if window and not any(_slides(model, number) for number in range(model.number("block_count") or 0)):
        notes.append(
            f"The file names a window of {window} tokens, but llama.cpp keeps the whole context here."
        )
    return notes
