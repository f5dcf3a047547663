"""A model by the header of its GGUF file and by its name in the catalogue gives the same numbers.

The headers have the keys that llama.cpp's converter writes for the architecture, by the models' public configurations;
what it leaves to defaults of the architecture is left out here too.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.catalogue.gguf_model import model_from_gguf
from core.catalogue.load import load_catalogue
from core.physics import traffic
from core.spec import ModelShape
from tests.gguf_header_file import Row, block, decoder, tables, write_header

CATALOGUE = load_catalogue()
MODELS = CATALOGUE.models
CONTEXTS = np.array([1024.0, 8192.0, 131072.0])

ARCHITECTURES = {
    r"gemma-2-": "gemma2",
    r"gemma-3-": "gemma3",
    r"gemma-4-": "gemma4",
    r"gpt-oss": "gpt-oss",
    r"olmo-[23]": "olmo2",
    r"exaone-4": "exaone4",
    r"llama-4": "llama4",
    r"qwen3-next": "qwen3next",
    r"qwen3\.[56]-\d+b-a": "qwen35moe",
    r"qwen3\.[56]": "qwen35",
    r"lfm2.*-a": "lfm2moe",
    r"lfm2": "lfm2",
    r"granite-4.0-h": "granitehybrid",
    r"jamba": "jamba",
    r"nemotron-3": "nemotron_h_moe",
    r"deepseek-v": "deepseek2",
    r"minicpm3": "minicpm3",
    r"rwkv7": "rwkv7",
    r"qwen3.*-a": "qwen3moe",
    r"qwen3": "qwen3",
    r"qwen[12]": "qwen2",
    r"phi-[34]": "phi3",
    r"starcoder2": "starcoder2",
    r"minimax": "minimax-m2",
    r"": "llama",
}
"""The beginning of a model's key -> its architecture in llama.cpp."""


def architecture(model: ModelShape) -> str:
    return next(arch for start, arch in ARCHITECTURES.items() if re.match(start, model.key))


def attending(model: ModelShape, every: int, first: int = 0) -> list[int]:
    """KV heads of each layer, of which each so-manieth attends."""
    chosen = [i for i in range(model.n_layers) if i % every == first][: model.n_attention_layers]
    return [model.n_kv_heads if i in chosen else 0 for i in range(model.n_layers)]


def gemma4(period: int, shared: int, window: int, whole_kv_heads: int, kv_heads: int, n_layers: int) -> dict[str, Any]:
    windows = [(i + 1) % period > 0 for i in range(n_layers)]
    return {
        "kv_heads": [kv_heads if one else whole_kv_heads for one in windows],
        "attention__sliding_window": window,
        "attention__sliding_window_pattern": windows,
        "attention__shared_kv_layers": shared,
        "attention__key_length": 512,
        "attention__value_length": 512,
        "attention__key_length_swa": 256,
        "attention__value_length_swa": 256,
    }


def keys_of(model: ModelShape) -> dict[str, Any]:
    """The keys of the caches of an architecture, by the public configuration of the model."""
    of_key = {
        "gemma-4-e2b": gemma4(5, 20, 512, 1, 1, 35),
        "gemma-4-e4b": gemma4(6, 18, 512, 2, 2, 42),
        "gemma-4-26b-a4b": gemma4(6, 0, 1024, 2, 8, 30),
        "gemma-4-31b": gemma4(6, 0, 1024, 4, 16, 60),
        "minicpm3-4b": {"attention__kv_lora_rank": 256, "attention__key_length": 96, "attention__value_length": 64},
        "gpt-oss-20b": {"attention__sliding_window": 128},
        "gpt-oss-120b": {"attention__sliding_window": 128},
        "exaone-4.0-32b": {"attention__sliding_window": 4096},
        "llama-4-scout": {"interleave_moe_layer_step": 1},
        "gemma-3-270m": {"attention__sliding_window": 512},
        "gemma-3-1b": {"attention__sliding_window": 512},
        "starcoder2-7b": {},
        "qwen3.6-27b": {"full_attention_interval": 4, "nextn_predict_layers": 1},
        "rwkv7-1.5b": {"heads": 0, "kv_heads": 0, "wkv__head_size": 64},
    }
    of_arch: dict[str, dict[str, Any]] = {
        "gemma2": {"attention__sliding_window": 4096},
        "gemma3": {"attention__sliding_window": 1024},
        "olmo2": {
            "attention__sliding_window": 4096,
            "attention__sliding_window_pattern": [(i + 1) % 4 > 0 for i in range(model.n_layers)],
        }
        if model.key.startswith("olmo-3")
        else {},
        "deepseek2": {
            "kv_heads": 1,
            "attention__kv_lora_rank": 512,
            "attention__key_length": 576,
            "attention__value_length": 512,
            "attention__key_length_mla": 192,
            "attention__value_length_mla": 128,
            "rope__dimension_count": 64,
        },
        "jamba": {"kv_heads": attending(model, 8, 4)},
        "granitehybrid": {"kv_heads": attending(model, 10, 5)},
        "nemotron_h_moe": {"kv_heads": attending(model, 8, 5)},
        **{arch: {"kv_heads": attending(model, 2, 1)} for arch in ("lfm2", "lfm2moe")},
    }
    head = {"attention__key_length": model.head_dim, "attention__value_length": model.head_dim}
    return head | of_arch.get(architecture(model), {}) | of_key.get(model.key, {})


def rows_of(model: ModelShape) -> tuple[list[Row], dict[str, int]]:
    """Tensors of so many parameters, dense layers as their sizes say, and the keys of experts."""
    rows = tables(model.hidden_size, model.vocab_size, "F16", tied=model.tied_embeddings)
    q, kv = model.n_heads * model.head_dim, model.n_kv_heads * model.head_dim
    widths = (model.hidden_size, q, kv, kv, model.intermediate_size)
    dense = [row for i in range(model.n_layers) for row in block(i, *widths, "F16")]
    idle = traffic.idle_params(model)
    if architecture(model) == "rwkv7":
        return [*rows, Row("blk.0.time_mix_key.weight", "F16", (round(model.body_params),))], {}
    if "body_params" not in model.sources:
        return rows + dense, {}
    further = [Row("per_layer_token_embd.weight", "F16", (256 * model.n_layers, model.vocab_size))]
    if architecture(model) == "gemma4":
        rows += further
    if architecture(model) == "minicpm3":
        rows.append(Row("blk.0.attn_kv_b.weight", "F16", (256, 64)))
    if idle < 0.01 * model.body_params:
        return [*rows, Row("blk.0.ffn_down.weight", "F16", (round(model.body_params),))], {}
    n_experts = next(n for n in (4, 8, 16, 32, 64, 128, 256) if idle / (n - 1) < model.body_params)
    of_one = round(idle / (n_experts - 1))
    rows += [Row("blk.0.ffn_up_exps.weight", "F16", (of_one, n_experts))]
    rows += [Row("blk.0.ffn_up_shexp.weight", "F16", (round(model.body_params) - of_one,))]
    return rows, {"expert_count": n_experts, "expert_used_count": 1}


def by_header(path: Path, model: ModelShape) -> ModelShape:
    rows, experts = rows_of(model)
    own: dict[str, Any] = {"heads": model.n_heads, "kv_heads": model.n_kv_heads} | experts | keys_of(model)
    n_further = own.get("nextn_predict_layers", 0)
    rows += [Row(f"blk.{model.n_layers + i}.nextn.eh_proj.weight", "F16", (4096, 4096)) for i in range(n_further)]
    metadata = decoder(
        architecture(model),
        n_layers=model.n_layers + n_further,
        hidden=model.hidden_size,
        inner=model.intermediate_size,
        context=model.max_context_tokens,
        **own,
    )
    return model_from_gguf(write_header(path, metadata | {"general.file_type": 1}, rows))


def test_every_architecture_of_llama_cpp_above_is_that_of_a_model():
    assert {architecture(model) for model in MODELS.values()} == set(ARCHITECTURES.values())


@pytest.mark.parametrize("key", MODELS)
def test_header_and_name_agree(tmp_path: Path, key: str):
    by_name, kv = MODELS[key], CATALOGUE.kv_formats["fp16"]
    weights = CATALOGUE.weight_formats["fp16"]
    made = by_header(tmp_path / "m.gguf", by_name)
    assert (made.n_layers, made.n_caching_layers) == (by_name.n_layers, by_name.n_caching_layers)
    assert (made.n_window_layers, made.window_tokens) == (by_name.n_window_layers, by_name.window_tokens)
    both = (made, by_name)
    of_weights = [traffic.weight_byte(m, weights) for m in both]
    read = [traffic.kv_byte_per_token(m, kv) * traffic.cached_tokens(m, CONTEXTS) for m in both]
    held = [traffic.memory_byte(m, weights, kv, CONTEXTS) for m in both]
    prompt = [traffic.prefill_flop(m, CONTEXTS) for m in both]
    for by_file, by_catalogue in (of_weights, read, held, prompt):
        assert by_file == pytest.approx(by_catalogue, rel=0.01)


@pytest.mark.parametrize(
    ("key", "context_tokens", "want_gb"),
    [
        ("gemma-4-26b-a4b", 4096, 0.40),
        ("gemma-4-26b-a4b", 8192, 0.48),
        ("gemma-4-26b-a4b", 32768, 0.99),
        ("gemma-4-26b-a4b", 131072, 3.00),
        ("gemma-4-31b", 131072, 11.6),
        ("gemma-4-e4b", 131072, 2.17),
        ("olmo-3-7b", 65536, 10.2),
        ("llama-4-scout", 131072, 7.6),
        ("gpt-oss-20b", 131072, 3.22),
        ("gemma-3-27b", 131072, 11.17),
        ("qwen3.6-27b", 262144, 17.18),
        ("deepseek-v2-lite", 65536, 2.04),
    ],
)
def test_caches_in_memory_are_those_of_reports(key: str, context_tokens: int, want_gb: float):
    """Reports of ollama (#16958, measured), hf-mem and others; all in 16 bit."""
    model, kv = MODELS[key], CATALOGUE.kv_formats["fp16"]
    weights = CATALOGUE.weight_formats["q4_k_m"]
    held = traffic.memory_byte(model, weights, kv, np.array([0.0, context_tokens]))
    assert (held[1] - held[0]) / 1e9 == pytest.approx(want_gb, rel=0.01)
