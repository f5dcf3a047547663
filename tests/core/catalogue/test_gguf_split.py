"""A set of shards is one model, whichever of its files is named; an incomplete set is refused."""

from pathlib import Path

import pytest

from app.cli import main
from core.catalogue.gguf_model import model_from_gguf
from tests.core.catalogue.gguf_files import kv_byte, layers, read_gb
from tests.gguf_header_file import decoder, tables, write_header


@pytest.fixture
def llama_set(tmp_path: Path) -> list[Path]:
    """Llama 3.1 8B in three shards, of which the first alone has the metadata."""
    keys = decoder("llama", n_layers=32, hidden=4096, heads=32, kv_heads=8, inner=14336, context=131072) | {
        "general.file_type": 15
    }
    rows = [*tables(4096, 128256, "Q6_K", tied=False), *layers(32, 4096, 4096, 1024, 14336)]
    files = []
    for i in range(3):
        split = {"split.no": i, "split.count": 3, "split.tensors.count": len(rows)}
        path = tmp_path / f"llama-8b-Q4-{i + 1:05}-of-00003.gguf"
        files.append(
            write_header(path, (keys if i == 0 else {}) | split, rows[i * 80 : (i + 1) * 80 if i < 2 else None])
        )
    return files


def test_any_shard_stands_for_the_whole_set(llama_set: list[Path]):
    for path in llama_set:
        model = model_from_gguf(path)
        assert model.key == "llama-8b-q4"
        assert model.total_params == pytest.approx(8.03e9, rel=0.001)
        assert read_gb(model) == pytest.approx(4.36, rel=0.01)
        assert kv_byte(model, 1024.0) == 1024 * 131072


def test_a_first_shard_without_tensors_is_one_of_the_set(llama_set: list[Path], tmp_path: Path):
    (tmp_path / "meta").mkdir()
    rows = [*tables(256, 1000, "F16", tied=True), *layers(2, 256, 256, 128, 512)]
    keys = decoder("llama", n_layers=2, hidden=256, heads=4, kv_heads=2, inner=512, context=2048)
    for i, part in enumerate([[], rows]):
        split = {"split.no": i, "split.count": 2, "split.tensors.count": len(rows)}
        path = tmp_path / "meta" / f"m-{i + 1:05}-of-00002.gguf"
        write_header(path, (keys if i == 0 else {}) | split, part)
    assert model_from_gguf(tmp_path / "meta" / "m-00001-of-00002.gguf").n_layers == 2


def test_an_incomplete_set_is_refused_by_shard_and_tensors(llama_set: list[Path], capsys):
    llama_set[2].unlink()
    words = r"shard 1 of 3; 80 of 226 tensors; got no llama-8b-Q4-00003-of-00003.gguf, expected every shard"
    with pytest.raises(ValueError, match=words):
        model_from_gguf(llama_set[0])
    with pytest.raises(ValueError, match="shard 2 of 3; 80 of 226 tensors"):
        model_from_gguf(llama_set[1])
    assert main(["models", str(llama_set[0])]) == 2
    assert "shard 1 of 3" in capsys.readouterr().err


def test_a_shard_under_another_name_or_of_another_set_is_refused(llama_set: list[Path], tmp_path: Path):
    with pytest.raises(ValueError, match=r"shard 1 of 3; .* expected shards named NAME-00001-of-00003.gguf"):
        model_from_gguf(llama_set[0].rename(tmp_path / "model.gguf"))
    (tmp_path / "model.gguf").rename(llama_set[0])
    llama_set[1].rename(llama_set[2])
    write_header(llama_set[1], {"split.no": 1, "split.count": 3, "split.tensors.count": 226}, [])
    with pytest.raises(
        ValueError, match=r"shard 1 of 3; .* got another file as shard 3, expected the shards of one set"
    ):
        model_from_gguf(llama_set[0])
