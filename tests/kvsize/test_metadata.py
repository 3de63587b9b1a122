"""Shapes out of GGUF keys, as converters write them for each kind of model."""

from typing import Any

import pytest

from services.kvsize.metadata import NoShape, shape_of
from services.kvsize.shape import Layer, Use, bytes_per_token, state_bytes


def keys_of(arch: str, blocks: int, **more: Any) -> dict[str, Any]:
    """Keys of an architecture; a name's first `__` is a dot."""
    named = {f"{arch}.{name.replace('__', '.')}": value for name, value in more.items()}
    return {"general.architecture": arch, f"{arch}.block_count": blocks, **named}


LLAMA = keys_of(
    "llama",
    32,
    context_length=131_072,
    embedding_length=4_096,
    attention__head_count=32,
    attention__head_count_kv=8,
)


def test_a_llama_by_the_width_of_its_embedding():
    """Older files have no key_length: a head is the embedding's share."""
    found = shape_of(LLAMA)
    assert (bytes_per_token(found, Use(context=1)), found.attention, found.trained) == (
        131_072,
        "GQA 32:8",
        131_072,
    )


def test_heads_alone_are_mha_and_one_is_mqa():
    """The number of key-value heads may be missing."""
    without = {key: value for key, value in LLAMA.items() if not key.endswith("head_count_kv")}
    assert shape_of(without).attention == "MHA"
    assert shape_of({**LLAMA, "llama.attention.head_count_kv": 1}).attention == "MQA"


def windows(found: Any) -> str:
    """A letter a layer: s slides, F sees all, r recurs, - keeps nothing of its own."""
    letters = []
    for layer in found.layers:
        letter = "-" if not layer.key else "s" if layer.window else "F"
        letters.append("r" if layer.state and not layer.key else letter)
    return "".join(letters)


SLIDING = {
    "embedding_length": 1_024, "attention__head_count": 8, "attention__head_count_kv": 4,
    "attention__key_length": 128, "attention__value_length": 128, "attention__sliding_window": 512,
}  # fmt: skip


@pytest.mark.parametrize(
    ("arch", "pattern"),
    [
        ("gemma2", "sFsFsFsFsFsF"), ("gemma3", "sssssFsssssF"), ("cohere2", "sssFsssFsssF"),
        ("gpt-oss", "sFsFsFsFsFsF"), ("olmo2", "sssFsssFsssF"), ("smallthinker", "FsssFsssFsss"),
        ("llama", "FFFFFFFFFFFF"), ("phi3", "FFFFFFFFFFFF"),
    ],
)  # fmt: skip
def test_which_layers_slide_is_known_by_the_architecture(arch: str, pattern: str):
    """As llama.cpp's loaders have it; of others it keeps the whole context, and that is said."""
    found = shape_of(keys_of(arch, 12, **SLIDING))
    assert windows(found) == pattern
    assert bool(found.notes) == (arch in {"llama", "phi3"})


def test_a_pattern_in_the_file_comes_first():
    """As a period, or as a value for each layer."""
    assert windows(shape_of(keys_of("gemma3", 6, **SLIDING, attention__sliding_window_pattern=3))) == "ssFssF"
    each = [True, False, False, True, True, False]
    assert (
        windows(shape_of(keys_of("gemma4", 6, **SLIDING, attention__sliding_window_pattern=each))) == "sFFssF"
    )


def test_llama_4_s_chunk_stands_nowhere_in_the_file():
    """8,192 tokens in three of four layers."""
    plain = {name: value for name, value in SLIDING.items() if name != "attention__sliding_window"}
    found = shape_of(keys_of("llama4", 4, **plain))
    assert [layer.window for layer in found.layers] == [8_192, 8_192, 8_192, None]


def test_sliding_layers_may_have_smaller_heads_and_the_last_none():
    """Gemma 4: other lengths within windows, and layers that read an earlier one's cache."""
    found = shape_of(
        keys_of(
            "gemma4", 4, **{**SLIDING, "attention__key_length": 512, "attention__value_length": 512},
            attention__key_length_swa=256, attention__value_length_swa=256,
            attention__sliding_window_pattern=[True, False, True, False], attention__shared_kv_layers=2,
        )
    )  # fmt: skip
    assert found.layers == (Layer(1_024, 1_024, 512), Layer(2_048, 2_048), Layer(), Layer())


def test_heads_may_differ_by_layer():
    """As an array."""
    found = shape_of({**LLAMA, "llama.block_count": 2, "llama.attention.head_count_kv": [8, 2]})
    assert [layer.key for layer in found.layers] == [1_024, 256]


MLA = {
    "embedding_length": 7_168, "attention__head_count": 128, "attention__kv_lora_rank": 512,
    "rope__dimension_count": 64,
}  # fmt: skip


def test_mla_is_one_latent_without_values():
    """DeepSeek V3 as converted today: one head of 576; its drafting layer has no cache."""
    found = shape_of(
        keys_of("deepseek2", 62, **MLA, attention__head_count_kv=1, attention__key_length=576,
                attention__value_length=512, attention__key_length_mla=192, attention__value_length_mla=128,
                nextn_predict_layers=1)
    )  # fmt: skip
    assert (found.attention, bytes_per_token(found, Use(context=1)), found.notes) == ("MLA", 70_272, ())


def test_an_old_conversion_of_mla_keeps_everything():
    """And the user learns why it is so much."""
    found = shape_of(
        keys_of("deepseek2", 61, **MLA, attention__head_count_kv=128, attention__key_length=192,
                attention__value_length=128)
    )  # fmt: skip
    assert bytes_per_token(found, Use(context=1)) == 61 * 128 * (192 + 128) * 2
    assert "MLA" in found.notes[0]


def test_qwen3_5_is_a_hybrid():
    """27B: every fourth layer attends, the others keep conv and delta-net state in 32 bit."""
    found = shape_of(
        keys_of("qwen35", 64, embedding_length=5_120, attention__head_count=24, attention__head_count_kv=4,
                attention__key_length=256, attention__value_length=256, full_attention_interval=4,
                ssm__conv_kernel=4, ssm__inner_size=6_144, ssm__state_size=128, ssm__group_count=16)
    )  # fmt: skip
    assert windows(found) == "rrrF" * 16
    assert found.attention == "GQA 24:4, hybrid"
    assert bytes_per_token(found, Use(context=1)) == 65_536
    per_layer = 4 * (128 * 6_144 + 3 * (6_144 + 2 * 16 * 128))
    assert state_bytes(found) == 48 * per_layer
    assert 48 * 4 * 128 * 6_144 == 144 << 20


def test_layers_without_heads_recur():
    """They say it by their number of key-value heads; Nemotron-H has layers that do neither."""
    ssm = {"ssm__conv_kernel": 4, "ssm__inner_size": 512, "ssm__state_size": 16}
    common = {"embedding_length": 256, "attention__head_count": 4}
    assert (
        windows(shape_of(keys_of("jamba", 4, **common, **ssm, attention__head_count_kv=[0, 2, 0, 0])))
        == "rFrr"
    )
    lfm = keys_of("lfm2", 3, **common, attention__head_count_kv=[0, 2, 0], shortconv__l_cache=3)
    assert shape_of(lfm).layers[0].state == 4 * 256 * 2
    mamba = shape_of(keys_of("mamba", 2, embedding_length=256, attention__head_count=0, **ssm))
    assert (windows(mamba), mamba.attention) == ("rr", "recurrent")
    nemotron = keys_of(
        "nemotron_h",
        3,
        **common,
        **ssm,
        attention__head_count_kv=[0, 2, 0],
        feed_forward_length=[0, 0, 1_024],
    )
    assert windows(shape_of(nemotron)) == "rF-"


def test_falcon_h1_has_both_in_each_layer():
    """Attention beside a state."""
    found = shape_of(
        keys_of("falcon-h1", 2, embedding_length=256, attention__head_count=4, attention__head_count_kv=2,
                ssm__conv_kernel=4, ssm__inner_size=512, ssm__state_size=16)
    )  # fmt: skip
    assert all(layer.key and layer.state for layer in found.layers)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "general.architecture"),
        ({"general.architecture": "llama"}, "llama.block_count"),
        ({"general.architecture": "llama", "llama.block_count": 10**9}, "llama.block_count"),
        ({"general.architecture": "bert", "bert.block_count": 2}, "encoder"),
        ({"general.architecture": 7}, "general.architecture"),
    ],
)
def test_what_is_missing_is_named(keys: dict[str, Any], words: str):
    """The user can look for it in the file."""
    with pytest.raises(NoShape, match=words):
        shape_of(keys)


@pytest.mark.parametrize("value", ["8", -1, None, float("nan"), float("inf"), 2**60, {}, [None] * 32])
def test_values_of_another_kind_are_as_if_absent(value: Any):
    """A file and a server may hold anything."""
    shape_of({**LLAMA, "llama.attention.head_count_kv": value})
