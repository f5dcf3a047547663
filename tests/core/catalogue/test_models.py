"""Shapes of models from their resource files: parameters that follow from sizes, refusals, the degradation's prior."""

import pytest

from core.catalogue.models import LARGE_PARAMS, SMALL_PARAMS, degradation_prior, read_model
from core.catalogue.toml_files import parse

LLAMA = """name = "L"
n_layers = 32
hidden_size = 4096
n_heads = 32
n_kv_heads = 8
head_dim = 128
intermediate_size = 14336
vocab_size = 128256
max_context_tokens = 8192
tied_embeddings = false

[sources]
default = "config.json"
"""


def model(text=LLAMA):
    return read_model("l", "models/l.toml", parse("models/l.toml", text))


def test_parameters_of_a_dense_model_follow_from_its_sizes():
    made = model()
    attention, ffn = 4096 * 128 * 2 * (32 + 8), 3 * 4096 * 14336
    assert made.body_params == 32 * (attention + ffn) == 6_979_321_856
    assert made.head_params == 4096 * 128256
    assert made.total_params == made.body_params + 2 * made.head_params
    tied = model(LLAMA.replace("false", "true"))
    assert tied.total_params == made.total_params - made.head_params


def test_what_is_stated_wins():
    stated = model(LLAMA.replace("tied_embeddings", "body_params = 1e9\ntotal_params = 5e9\ntied_embeddings"))
    assert (stated.body_params, stated.total_params) == (1e9, 5e9)


def test_heads_that_share_no_whole_number_are_refused():
    with pytest.raises(ValueError, match=r"models/l.toml: n_kv_heads: got 7, expected a divisor of n_heads 32"):
        model(LLAMA.replace("n_kv_heads = 8", "n_kv_heads = 7"))


def test_bytes_of_files_need_a_source():
    exact = "[weight_byte_by_format]\nq4_0 = 4e9\n"
    without = LLAMA.replace('default = "config.json"\n', "")
    named = "".join(f'{key} = "c"\n' for key in (
        "n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim", "intermediate_size", "vocab_size",
        "max_context_tokens",
    ))  # fmt: skip
    with pytest.raises(ValueError, match=r"weight_byte_by_format: got no source, expected one in \[sources\]"):
        model(without + named + exact)
    made = model(without + named + 'weight_byte_by_format = "file"\n' + exact)
    assert made.weight_byte_by_format == {"q4_0": 4e9}


def test_larger_models_lose_less():
    scales = [degradation_prior(n)[0] for n in (1e8, SMALL_PARAMS, LARGE_PARAMS)]
    assert scales == [1.5, 1.0, 0.5]
    assert degradation_prior(SMALL_PARAMS - 1)[0] == 1.5
    assert all("[prior]" in source for n in (1e8, 7e9, 7e10) for source in degradation_prior(n)[1].values())
