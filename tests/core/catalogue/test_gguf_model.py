"""Shapes by headers of GGUF files: tensor types, what tokens read, and files of other kinds."""

import json
from pathlib import Path

import pytest

from app.cli import main
from core.catalogue.gguf_model import model_from_gguf
from core.catalogue.load import load_catalogue
from tests.core.catalogue.gguf_files import layers, small
from tests.gguf_header_file import Row, decoder, tables, write_header


@pytest.mark.parametrize(
    ("kind", "file_type", "key", "bits"),
    [
        ("NVFP4", 39, "nvfp4", 4.5),
        ("Q1_0", 40, "q1_0", 1.125),
        ("Q2_0", 41, "q2_0", 2.25),
        ("MXFP4", 38, "mxfp4", 4.25),
    ],
)
def test_newer_tensor_types_are_read(tmp_path: Path, kind: str, file_type: int, key: str, bits: float):
    keys = decoder("qwen3", n_layers=36, hidden=4096, heads=32, kv_heads=8, inner=12288, context=40960)
    rows = [*tables(4096, 151936, "BF16", tied=False), *layers(36, 4096, 4096, 1024, 12288, kind)]
    model = model_from_gguf(write_header(tmp_path / "m.gguf", keys | {"general.file_type": file_type}, rows))
    assert model.weight_byte_by_format == {key: model.body_params * bits / 8 + model.head_params * 2}
    assert key in load_catalogue().weight_formats


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"general.architecture": "clip"}, r"got a projector \(mmproj\), .* expected the file of the language model"),
        ({"general.architecture": "clip", "general.type": "mmproj"}, r"projector \(mmproj\)"),
        ({"general.architecture": "llama", "general.type": "adapter"}, r"an adapter \(LoRA\)"),
        ({"general.type": "imatrix"}, "an importance matrix"),
    ],
)
def test_other_kinds_of_files_are_named(tmp_path: Path, metadata: dict, words: str):
    with pytest.raises(ValueError, match=words):
        model_from_gguf(write_header(tmp_path / "m.gguf", metadata, [Row("v.patch_embd.weight", "F16", (16, 16))]))


def test_encoders_are_no_decoders(tmp_path: Path):
    with pytest.raises(ValueError, match=r"got an encoder \(bert\), expected a decoder-only language model"):
        small(tmp_path, "bert", attention__causal=False, pooling_type=1)
    with pytest.raises(ValueError, match=r"got an encoder \(t5\)"):
        small(tmp_path, "t5", more_rows=[Row("enc.blk.0.attn_q.weight", "F16", (256, 256))])


def test_encoders_in_the_file_are_not_read_by_tokens(tmp_path: Path):
    seeing = [Row("v.blk.0.attn_q.weight", "F16", (256, 256)), Row("mm.0.weight", "F16", (256, 256))]
    assert small(tmp_path, "gemma3", more_rows=seeing).total_params == small(tmp_path, "gemma3").total_params


def test_experts_in_tensors_of_their_own_are_read_in_part(tmp_path: Path):
    keys = {"expert_count": 4, "expert_used_count": 1}
    old = [Row(f"blk.0.ffn_up.{i}.weight", "F16", (256, 64)) for i in range(4)]
    new = [Row("blk.0.ffn_up_chexps.weight", "F16", (256, 64, 4))]
    dense = small(tmp_path, "llama").body_params
    for rows in (old, new):
        assert small(tmp_path, "llama", more_rows=rows, **keys).body_params == dense + 256 * 64


def test_models_names_an_upper_bound_with_its_number(tmp_path: Path, capsys):
    small(tmp_path, "another", attention__sliding_window=4096)
    assert main(["models", str(tmp_path / "m.gguf"), "--json"]) == 0
    assert "not of which layers" in json.loads(capsys.readouterr().out)[0]["cache_bound"]
