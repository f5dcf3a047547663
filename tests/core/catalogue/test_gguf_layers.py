"""Caches by headers of GGUF files: windows, shared, recurrent and latent layers, figures layer by layer."""

from pathlib import Path

import pytest

from core.catalogue.gguf_model import model_from_gguf
from core.catalogue.load import load_catalogue
from core.physics import traffic
from tests.core.catalogue.gguf_files import FP16, kv_byte, layers, of_layers, read_gb, small
from tests.gguf_header_file import Row, block, decoder, tables, write_header


def test_gemma_3n_looks_up_the_embeddings_of_its_layers(tmp_path: Path):
    pattern = [(i + 1) % 5 > 0 for i in range(30)]
    keys = decoder(
        "gemma3n", n_layers=30, hidden=2048, heads=8, kv_heads=2, inner=8192, context=32768,
        attention__key_length=256, attention__value_length=256, attention__sliding_window=512,
        attention__shared_kv_layers=10, attention__sliding_window_pattern=pattern,
    )  # fmt: skip
    rows = [*tables(2048, 262144, "Q6_K", tied=True), *layers(30, 2048, 2048, 512, 8192)]
    rows += [Row("per_layer_token_embd.weight", "Q8_0", (7680, 262144))]
    rows += [Row("per_layer_model_proj.weight", "BF16", (2048, 7680))]
    model = model_from_gguf(write_header(tmp_path / "m.gguf", keys, rows))
    assert read_gb(model) == pytest.approx(1.50, rel=0.01)
    assert (model.n_layers, model.n_caching_layers, model.n_window_layers, model.window_tokens) == (30, 20, 16, 512.0)
    assert kv_byte(model, 8192.0) == 2048 * (4 * 8192 + 16 * 512)


def test_gemma_3n_without_its_keys_is_as_in_llama_cpp(tmp_path: Path):
    model = small(tmp_path, "gemma3n", 30, attention__sliding_window=512)
    assert (model.n_caching_layers, model.n_window_layers) == (20, 16)


def test_gemma_4_has_heads_of_two_widths(tmp_path: Path):
    pattern = [(i + 1) % 6 > 0 for i in range(42)]
    keys = decoder(
        "gemma4", n_layers=42, hidden=2560, heads=8, kv_heads=2, inner=10240, context=131072,
        attention__key_length=512, attention__value_length=512, attention__key_length_swa=256,
        attention__value_length_swa=256, attention__sliding_window=512, attention__shared_kv_layers=18,
        attention__sliding_window_pattern=pattern,
    )  # fmt: skip
    rows = [*tables(2560, 262144, "Q6_K", tied=True), *layers(42, 2560, 2048, 512, 10240)]
    rows += [Row("per_layer_token_embd.weight", "Q8_0", (10752, 262144))]
    model = model_from_gguf(write_header(tmp_path / "m.gguf", keys, rows))
    assert read_gb(model) == pytest.approx(2.72, rel=0.01)
    assert of_layers(model) == [(4, 2, 512, 512, 0.0), (20, 2, 256, 256, 512.0)]
    assert kv_byte(model, 131072.0) == 16384 * 131072 + 20 * 2048 * 512
    assert kv_byte(model, 131072.0) == kv_byte(load_catalogue().models["gemma-4-e4b"], 131072.0)


@pytest.mark.parametrize(
    ("arch", "keys", "windows"),
    [
        ("cohere2", {"attention__sliding_window": 4096}, 9),
        ("olmo2", {"attention__sliding_window": 4096, "attention__sliding_window_pattern": [True] * 3 + [False]}, 9),
        ("olmo2", {"attention__sliding_window": 4096}, 9),
        ("olmo2", {}, 0),
        ("exaone4", {"attention__sliding_window": 4096}, 9),
        ("exaone4", {}, 0),
        ("gemma2", {}, 6),
        ("gemma3", {"attention__sliding_window": 1024}, 10),
        ("gpt-oss", {"attention__sliding_window": 128}, 6),
        ("llama4", {}, 9),
        ("llama4", {"attention__sliding_window": 0}, 0),
        ("plamo3", {"attention__sliding_window": 2048}, 11),
        ("smallthinker", {"attention__sliding_window": 4096}, 9),
        ("mimo2", {"attention__sliding_window": 128, "attention__sliding_window_pattern": [1, 1, 0]}, 8),
        ("onyx", {"attention__sliding_window": 128, "attention__sliding_window_pattern": 3}, 8),
        ("gptoss", {"attention__sliding_window": 128}, 6),
        ("llama4", {"attention__chunk_size": 4096}, 9),
        ("every", {"attention__sliding_window": 128, "attention__sliding_window_pattern": 0}, 12),
        ("dense", {"attention__sliding_window": 128, "attention__sliding_window_pattern": 1}, 0),
        ("other", {"attention__sliding_window": [0, 512] * 6}, 6),
    ],
)
def test_windows_are_in_the_layers_that_have_them(tmp_path: Path, arch: str, keys: dict, windows: int):
    model = small(tmp_path, arch, **keys)
    assert (model.n_window_layers, model.cache_bound) == (windows, "")


def test_a_window_of_unknown_layers_leaves_an_upper_bound_that_is_named(tmp_path: Path):
    model = small(tmp_path, "another", attention__sliding_window=4096)
    assert model.n_window_layers == 0
    assert model.cache_bound == "its file states a window of 4096 tokens, but not of which layers"
    assert small(tmp_path, "another", attention__sliding_window=131072).cache_bound == ""


@pytest.mark.parametrize("further", [0, 1])
def test_a_hybrid_caches_in_each_fourth_layer(tmp_path: Path, further: int):
    keys = decoder(
        "qwen35", n_layers=64 + further, hidden=5120, heads=24, kv_heads=4, inner=17408, context=262144,
        attention__key_length=256, attention__value_length=256, full_attention_interval=4,
        **({"nextn_predict_layers": 1} if further else {}),
    )  # fmt: skip
    rows = tables(5120, 248320, "Q6_K", tied=False)
    for i in range(64):
        recurrent = [Row(f"blk.{i}.ssm_in.weight", "Q4_K", (5120, 15360))]
        made = block(i, 5120, 6144, 1024, 1024, 17408, "Q4_K")
        rows += made if i % 4 == 3 else recurrent + made[4:]
    bare = sum(row.shape[0] * row.shape[1] for row in rows)
    rows += [Row("blk.64.nextn.eh_proj.weight", "Q4_K", (10240, 5120))] * further
    model = model_from_gguf(write_header(tmp_path / "m.gguf", keys, rows))
    assert (model.n_layers, model.n_caching_layers, model.total_params) == (64, 16, bare)
    assert kv_byte(model, 262144.0) == 16384 * 2**20
    assert model.weight_byte_by_format.keys() == {"q4_k"}


@pytest.mark.parametrize(
    ("arch", "keys", "tensors", "n_caching"),
    [
        ("qwen3next", {}, [], 3),
        ("qwen35moe", {"attention__recurrent_layers": [True, False] * 6}, [], 6),
        ("minimax-01", {}, [], 1),
        ("lfm2", {"kv_heads": [0, 0, 2] * 4}, [], 4),
        ("mllama", {"attention__cross_attention_layers": [3, 8]}, [], 10),
        ("kimi-linear", {"kv_heads": [0, 0, 0, 1] * 3, "attention__kv_lora_rank": 512}, [], 3),
        ("deci", {"heads": [4, 0] * 6, "kv_heads": [2, 0] * 6}, [], 6),
        ("falcon-h1", {}, ["ssm_in"], 12),
        ("llama", {"nextn_predict_layers": 2}, [], 10),
    ],
)
def test_layers_without_a_cache_are_left_out(tmp_path: Path, arch: str, keys: dict, tensors: list[str], n_caching: int):
    more = [Row(f"blk.{i}.{name}.weight", "F16", (256, 256)) for name in tensors for i in range(12)]
    assert small(tmp_path, arch, more_rows=more, **keys).n_caching_layers == n_caching


def test_layers_are_recurrent_by_their_tensors(tmp_path: Path):
    rows = [*tables(256, 1000, "F16", tied=True), *block(1, 256, 256, 128, 128, 512, "F16")]
    rows += [Row(f"blk.{i}.ssm_out.weight", "F16", (256, 256)) for i in (0, 2, 3)]
    keys = decoder("plamo2", n_layers=4, hidden=256, heads=4, kv_heads=2, inner=512, context=4096)
    assert model_from_gguf(write_header(tmp_path / "m.gguf", keys, rows)).n_caching_layers == 1


def test_a_model_without_attention_has_no_cache(tmp_path: Path):
    rows = [*tables(256, 1000, "F16", tied=True), Row("blk.0.time_mix_key.weight", "F16", (256, 256))]
    keys = decoder("rwkv7", n_layers=1, hidden=256, heads=0, kv_heads=0, inner=512, context=4096, wkv__head_size=64)
    model = model_from_gguf(write_header(tmp_path / "m.gguf", keys, rows))
    assert (model.n_caching_layers, model.n_heads, kv_byte(model, 4096.0)) == (0, 4, 0.0)
    weights = load_catalogue().weight_formats["fp16"]
    assert traffic.memory_byte(model, weights, FP16, 4096.0) == traffic.memory_byte(model, weights, FP16, 1.0)


def test_heads_and_widths_may_differ_from_layer_to_layer(tmp_path: Path):
    model = small(tmp_path, "openelm", 3, heads=[4, 4, 8], kv_heads=[1, 1, 2], feed_forward_length=[256, 512, 1024])
    assert of_layers(model) == [(2, 1, 32, 32, 0.0), (1, 2, 32, 32, 0.0)]
    assert (model.n_heads, model.intermediate_size) == (5, 597)
    assert traffic.kv_byte_per_token(model, FP16) == 2 * 2 * 32 * (1 + 1 + 2)


def test_latent_attention_caches_one_vector(tmp_path: Path):
    keys = {"attention__kv_lora_rank": 512, "rope__dimension_count": 64, "attention__key_length": 576}
    new = {"kv_heads": 1, "attention__value_length": 512, "attention__key_length_mla": 192, **keys}
    model = small(tmp_path, "deepseek2", **new)
    assert of_layers(model) == [(12, 1, 576, 0, 0.0)]
    older = {**keys, "kv_heads": 4, "attention__key_length": 192, "attention__value_length": 128}
    whole = [Row("blk.0.attn_kv_b.weight", "F16", (512, 256))]
    assert of_layers(small(tmp_path, "deepseek2", more_rows=whole, **older)) == [(12, 4, 192, 128, 0.0)]
    assert of_layers(small(tmp_path, "deepseek2", **older)) == [(12, 1, 576, 0, 0.0)]


def test_an_indexer_adds_its_keys_and_an_upper_bound(tmp_path: Path):
    keys = {"kv_heads": 1, "attention__kv_lora_rank": 512, "rope__dimension_count": 64}
    keys |= {"attention__indexer__key_length": 128, "attention__indexer__top_k": 2048}
    model = small(tmp_path, "deepseek32", **keys)
    assert of_layers(model) == [(12, 1, 704, 0, 0.0)]
    assert "an indexer chooses" in model.cache_bound
    ratios = {"attention__compress_ratios": [0, 4] * 6, "attention__sliding_window": 128}
    assert "compress" in small(tmp_path, "deepseek4", **ratios).cache_bound


def test_equal_arrays_stand_for_one_number(tmp_path: Path):
    keys = {"block_count": [12] * 12, "embedding_length": [256] * 12, "heads": [4] * 12, "context_length": [4096] * 12}
    model = small(tmp_path, "gemma4", **keys)
    assert (model.n_layers, model.hidden_size, model.max_context_tokens) == (12, 256, 4096)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"block_count": [12, 13]}, "block_count: got figures that differ from layer to layer"),
        ({"nextn_predict_layers": 12}, "nextn_predict_layers: got no fewer layers than block_count"),
        ({"attention__shared_kv_layers": 12}, "shared_kv_layers: got 12, expected fewer than the 12 layers"),
        ({"kv_heads": 0}, "head_count_kv: got 0 in all layers, expected a whole number from 1 to 4 in some"),
        ({"full_attention_interval": 0}, "full_attention_interval: got 0, expected a whole number"),
    ],
)
def test_figures_that_leave_no_cache_by_mistake_are_refused(tmp_path: Path, keys: dict, words: str):
    with pytest.raises(ValueError, match=words):
        small(tmp_path, "qwen35", **keys)


def test_a_mamba_has_neither_heads_nor_a_feed_forward_part(tmp_path: Path):
    rows = [*tables(256, 1000, "F16", tied=True), Row("blk.0.ssm_in.weight", "F16", (256, 512))]
    keys = {"mamba.block_count": 1, "mamba.context_length": 4096, "mamba.embedding_length": 256}
    metadata = {"general.architecture": "mamba", **keys}
    model = model_from_gguf(write_header(tmp_path / "m.gguf", metadata, rows))
    assert (model.n_caching_layers, model.intermediate_size, model.body_params) == (0, 0, 256 * 512)


def test_heads_that_the_file_does_not_state_are_refused(tmp_path: Path):
    keys = decoder("llama", n_layers=2, hidden=256, heads=4, kv_heads=2, inner=512, context=2048)
    del keys["llama.attention.head_count"]
    rows = [*tables(256, 1000, "F16", tied=True), *layers(2, 256, 256, 128, 512)]
    with pytest.raises(ValueError, match=r"llama.attention.head_count: got None, expected a whole number"):
        model_from_gguf(write_header(tmp_path / "m.gguf", keys, rows))
