"""Bytes of key-value caches, held against sizes computed by hand and published ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.kvsize.fit import lineages_that_fit
from services.kvsize.shape import (
    DTYPES,
    Layer,
    Shape,
    Use,
    allocated_bytes,
    bytes_per_token,
    latent,
    needed_bytes,
    padded,
    plain,
    row_bytes,
    sequence_bytes,
    sequences_that_fit,
    tokens_that_fit,
)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def shape(layers: tuple[Layer, ...]) -> Shape:
    return Shape(name="x", attention="x", layers=layers)


def grouped(layers: int, kv_heads: int, head_dim: int, **more: int) -> Shape:
    return shape(plain(layers=layers, kv_heads=kv_heads, head_dim=head_dim, **more))


def test_the_70b_example_is_not_107_gb():
    """80 layers, 64 heads of 128, 4,096 tokens, batch 8, BF16: 85.9 GB with a key a head, 10.7 GB with 8."""
    use = Use(context=4_096, sequences=8, key_type="bf16", value_type="bf16")
    assert needed_bytes(grouped(80, 64, 128), use) == 85_899_345_920 == 80 * GIB
    assert needed_bytes(grouped(80, 8, 128), use) == 10_737_418_240 == 10 * GIB


@pytest.mark.parametrize(
    ("model", "layers", "kv_heads", "head_dim", "per_token"),
    [
        ("Llama-3.1-8B", 32, 8, 128, 131_072),
        ("Llama-3.1-70B", 80, 8, 128, 327_680),
        ("Qwen3-8B", 36, 8, 128, 147_456),
        ("Qwen3-32B", 64, 8, 128, 262_144),
        ("Qwen3-30B-A3B", 48, 4, 128, 98_304),
        ("Mistral-Small-24B", 40, 8, 128, 163_840),
    ],
)
def test_grouped_models(model: str, layers: int, kv_heads: int, head_dim: int, per_token: int):
    """2 × layers × key-value heads × head × 2 bytes, each computed by hand."""
    use = Use(context=32_768)
    found = grouped(layers, kv_heads, head_dim)
    assert bytes_per_token(found, use) == per_token, model
    assert needed_bytes(found, use) == allocated_bytes(found, use) == per_token * 32_768


def test_gemma_3_27b_slides_in_five_of_six_layers():
    """10 of 62 layers grow with the context, by 81,920 bytes a token; 52 windows of 1,024 are 416 MiB."""
    found = grouped(62, 16, 128, full_layers=10, window=1_024)
    use = Use(context=131_072)
    assert bytes_per_token(found, use) == 81_920
    assert needed_bytes(found, use) == 10 * GIB + 416 * MIB


def test_gpt_oss_slides_in_half_of_its_layers():
    """24 layers, 12 full; a window of 128."""
    found = grouped(24, 8, 64, full_layers=12, window=128)
    assert bytes_per_token(found, Use(context=1)) == 24_576
    assert needed_bytes(found, Use(context=131_072)) == 3 * GIB + 12 * 2 * 8 * 64 * 2 * 128


def test_deepseek_v3_keeps_one_latent_a_layer():
    """61 layers of 512 + 64 elements: 70,272 bytes a token, and no values."""
    found = shape(latent(layers=61, rank=512, rope_dim=64))
    assert bytes_per_token(found, Use(context=1)) == 70_272
    assert round(needed_bytes(found, Use(context=131_072)) / GIB, 2) == 8.58


def test_qwen3_5_27b_grows_in_a_quarter_of_its_layers():
    """16 of 64 layers; the others keep 3 MiB of state each, whatever the length."""
    found = grouped(64, 4, 256, full_layers=16, state=3 * MIB)
    assert bytes_per_token(found, Use(context=1)) == 65_536
    assert sequence_bytes(found, Use(context=1), 32_768) == 2 * GIB + 48 * 3 * MIB


@pytest.mark.parametrize(
    ("dtype", "per_token"),
    [("f32", 512), ("f16", 256), ("bf16", 256), ("fp8", 128), ("q8_0", 136), ("q5_1", 96), ("q5_0", 88),
     ("q4_1", 80), ("q4_0", 72), ("iq4_nl", 72)],
)  # fmt: skip
def test_types_of_elements(dtype: str, per_token: int):
    """128 elements: quantised ones in blocks of 32 with their scales."""
    assert row_bytes(128, dtype) == per_token


def test_keys_and_values_may_have_types_of_their_own():
    """As llama.cpp's -ctk and -ctv."""
    use = Use(context=1, key_type="q8_0", value_type="q4_0")
    assert bytes_per_token(grouped(1, 1, 128), use) == 136 + 72


def test_llama_cpp_rounds_up_and_gives_windows_room_for_a_batch():
    """The cells of its log with the Gemma 3 270M model: 18 layers, 3 full, a window of 512."""
    found = grouped(18, 1, 256, full_layers=3, window=512)
    assert allocated_bytes(found, Use(context=4_096, sequences=2, unified=True)) == 12 * MIB + 45 * MIB // 2
    assert allocated_bytes(found, Use(context=2_048, sequences=2)) == 12 * MIB + 30 * MIB
    assert allocated_bytes(found, Use(context=8_192)) == 24 * MIB + 15 * MIB
    assert allocated_bytes(found, Use(context=100)) == 18 * 1_024 * 256
    assert allocated_bytes(found, Use(context=8_192, swa_full=True)) == 18 * 1_024 * 8_192


uses = st.builds(
    Use,
    context=st.integers(1, 100_000),
    sequences=st.integers(1, 8),
    unified=st.booleans(),
    key_type=st.sampled_from(sorted(DTYPES)),
)


@given(st.integers(1, 8), st.integers(0, 8), st.integers(1, 4_096), uses)
def test_what_is_allocated_holds_what_is_needed(full: int, sliding: int, window: int, use: Use):
    """Whatever the model, and it is at most a padding, a batch and a window a sequence more."""
    found = grouped(full + sliding, 2, 64, full_layers=full, window=window)
    needed, allocated = needed_bytes(found, use), allocated_bytes(found, use)
    per_cell = (row_bytes(128, use.key_type) + 256) * (1 if use.unified else use.sequences)
    assert needed <= allocated <= needed + per_cell * (full * 256 + sliding * (256 + 512 + 256))


@given(st.integers(1, 40), st.integers(0, 10**9), st.integers(0, 2**36))
def test_what_fits_fits_and_one_token_more_does_not(layers: int, state: int, memory: int):
    """The longest sequence is exact."""
    found = grouped(layers + 1, 8, 128, full_layers=layers, state=state)
    use = Use(context=1)
    longest = tokens_that_fit(found, use, memory)
    assert longest is not None
    assert sequence_bytes(found, use, longest) <= memory or longest == 0
    assert sequence_bytes(found, use, longest + 1) > memory


def test_a_recurrent_model_has_no_longest_sequence():
    """Its state is all there is; where that does not fit, nothing does."""
    found = shape((Layer(state=1_000),) * 2)
    assert tokens_that_fit(found, Use(context=1), 2_000) is None
    assert tokens_that_fit(found, Use(context=1), 1_999) == 0
    assert sequences_that_fit(found, Use(context=10**6), 7_000) == 3


def test_padding():
    """To the next 256 cells."""
    assert [padded(count) for count in (1, 256, 257)] == [256, 256, 512]


def test_live_conversations_fit_the_latest_first():
    """Those of another model and those that the engine has dropped take no part."""
    items = [
        {"model": "m", "state": "warm", "prompt_tokens": 1_000, "estimated_tokens": 5},
        {"model": "other", "state": "warm", "prompt_tokens": 9_000},
        {"model": "m", "state": "unloaded", "prompt_tokens": 9_000},
        {"model": "m", "state": "cold", "prompt_tokens": None, "estimated_tokens": 500},
        {"model": "m", "state": "warm", "prompt_tokens": 2_000},
    ]
    found, use = grouped(1, 1, 128), Use(context=1)
    assert bytes_per_token(found, use) == 512
    fits = lineages_that_fit(items, found, use, 512 * 2_000, "m")
    assert fits == {"live": 3, "fit": 2, "tokens": 1_500, "bytes": 512 * 1_500}
    assert lineages_that_fit(items, found, use, 1 << 40, None)["fit"] == 4
