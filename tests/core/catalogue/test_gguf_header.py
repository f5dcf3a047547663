"""Headers of GGUF files: those of the reference package, cut ones and hostile ones."""

import re
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.catalogue.gguf_header import BLOCK_LAYOUT, read_header
from core.catalogue.gguf_model import model_from_gguf
from core.catalogue.load import load_catalogue
from tests.core.catalogue.gguf_files import smollm2

SENTENCE = re.compile(r".+: .*(got|cannot be read).*expected .+", re.DOTALL)


def test_block_layouts_are_those_of_the_reference_package():
    newer, dropped = {42}, {31, 32, 33}
    assert BLOCK_LAYOUT.keys() - newer - dropped == {int(kind) for kind in gguf.GGML_QUANT_SIZES}
    for kind in BLOCK_LAYOUT.keys() - newer - dropped:
        known = gguf.GGMLQuantizationType(kind)
        assert BLOCK_LAYOUT[kind] == (known.name, *gguf.GGML_QUANT_SIZES[known])
    assert BLOCK_LAYOUT[42] == ("Q2_0", 64, 18)


def test_the_real_file_agrees_with_the_reference_reader():
    reader = gguf.GGUFReader(str(smollm2()))
    header = read_header(smollm2())
    assert [(t.name, t.type_name, t.size_byte, list(t.shape)) for t in header.tensors] == [
        (t.name, t.tensor_type.name, int(t.n_bytes), t.shape.tolist()) for t in reader.tensors
    ]
    for key, value in header.metadata.items():
        if value is not None:
            assert value == reader.fields[key].contents(), key


def test_the_real_file_is_described_exactly():
    model = model_from_gguf(smollm2())
    assert (model.n_layers, model.hidden_size, model.n_heads, model.n_kv_heads, model.head_dim) == (30, 576, 9, 3, 64)
    assert (model.intermediate_size, model.vocab_size, model.max_context_tokens) == (1536, 49152, 8192)
    assert model.tied_embeddings
    norms = 61 * 576
    q4_1, q8_0 = model.body_params - norms, model.head_params
    assert model.weight_byte_by_format == {"q4_1": q4_1 * 20 / 32 + q8_0 * 34 / 32 + norms * 4}
    assert "210 x Q4_1" in model.sources["weight_byte_by_format"]


def write_model(
    path: Path,
    *,
    tied: bool = False,
    n_experts: int = 0,
    file_type: int | None = 1,
    n_layers: int = 2,
    n_kv_heads: int | list[int] = 2,
    arch: str = "llama",
    window_tokens: int = 0,
):
    writer = gguf.GGUFWriter(path, arch)
    if window_tokens:
        writer.add_sliding_window(window_tokens)
    writer.add_name("Tiny")
    writer.add_block_count(n_layers)
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(n_kv_heads)
    if file_type is not None:
        writer.add_file_type(file_type)
    if n_experts:
        writer.add_expert_count(n_experts)
        writer.add_expert_used_count(1)
    writer.add_token_list([f"t{i}" for i in range(50)])
    writer.add_tensor("token_embd.weight", np.zeros((50, 64), np.float16))
    if not tied:
        writer.add_tensor("output.weight", np.zeros((50, 64), np.float32))
    for i in range(n_layers):
        writer.add_tensor(f"blk.{i}.attn_q.weight", np.zeros((64, 64), np.float16))
        if n_experts:
            writer.add_tensor(f"blk.{i}.ffn_up_exps.weight", np.zeros((n_experts, 96, 64), np.float16))
        else:
            writer.add_tensor(f"blk.{i}.ffn_up.weight", np.zeros((96, 64), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_an_untied_embedding_is_not_read_and_the_head_is_read_once(tmp_path: Path):
    model = model_from_gguf(write_model(tmp_path / "a.gguf"))
    assert not model.tied_embeddings
    assert model.weight_byte_by_format == {"fp16": 2 * (64 * 64 + 96 * 64) * 2 + 50 * 64 * 4}
    assert model.total_params == 2 * (64 * 64 + 96 * 64) + 2 * 50 * 64
    tied = model_from_gguf(write_model(tmp_path / "b.gguf", tied=True))
    assert tied.tied_embeddings
    assert tied.weight_byte_by_format == {"fp16": 2 * (64 * 64 + 96 * 64) * 2 + 50 * 64 * 2}


def test_only_the_active_experts_are_read(tmp_path: Path):
    model = model_from_gguf(write_model(tmp_path / "a.gguf", n_experts=4))
    assert model.body_params == 2 * (64 * 64 + 96 * 64)
    assert model.total_params == 2 * (64 * 64 + 4 * 96 * 64) + 2 * 50 * 64


def test_windows_of_attention_are_those_of_the_architecture(tmp_path: Path):
    for arch, n_layers, of_windows in (("gemma2", 4, 2), ("gemma3", 13, 11), ("gpt-oss", 3, 2), ("llama", 4, 0)):
        path = write_model(tmp_path / f"{arch}.gguf", n_layers=n_layers, arch=arch, window_tokens=64)
        model = model_from_gguf(path)
        assert (model.n_window_layers, model.window_tokens) == (of_windows, 64.0 if of_windows else 0.0)
    assert model_from_gguf(write_model(tmp_path / "none.gguf", arch="gemma3")).n_window_layers == 0
    known = load_catalogue().models["gemma-3-4b"]
    assert known.n_window_layers == known.n_layers - known.n_layers // 6


def test_layers_without_a_cache_are_told_by_their_heads(tmp_path: Path):
    hybrid = model_from_gguf(write_model(tmp_path / "a.gguf", n_layers=4, n_kv_heads=[0, 2, 0, 0]))
    assert (hybrid.n_kv_heads, hybrid.n_layers, hybrid.n_caching_layers) == (2, 4, 1)
    every = model_from_gguf(write_model(tmp_path / "b.gguf", n_kv_heads=[2, 2]))
    assert (every.n_kv_heads, every.n_attention_layers) == (2, None)
    for wrong in ([0, 0], [-2, 0], [0, 8], [2]):
        with pytest.raises(ValueError, match=r"head_count_kv: got .*, expected a whole number"):
            model_from_gguf(write_model(tmp_path / "c.gguf", n_kv_heads=wrong))


def test_a_file_that_does_not_say_its_format_is_named_by_most_of_its_bytes(tmp_path: Path):
    assert model_from_gguf(write_model(tmp_path / "a.gguf", file_type=None)).reference_format == "fp16"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: got the end of the file 0 bytes on, expected 4 bytes of magic"),
        (b"PK\x03\x04" + bytes(64), "byte 0: got magic b'PK\\x03\\x04', expected b'GGUF'"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(64), "byte 4: got version 1, expected version 2 or 3"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(64), "byte 4: got big-endian version 3, expected version 2 or 3"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "byte 8: got number of tensors 1152921504606846976"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "byte 16: got number of metadata entries 1152921504606846976"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 62) + bytes(64), "byte 24: got the length of a metadata key"),
    ],
)
def test_a_foreign_or_hostile_file_gets_one_sentence(tmp_path: Path, data: bytes, message: str):
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=re.escape(f"x.gguf: {message}")):
        model_from_gguf(path)


def test_what_is_no_file_gets_one_sentence(tmp_path: Path):
    for path in (tmp_path, tmp_path / "missing.gguf"):
        with pytest.raises(ValueError, match=r"cannot be read: .*, expected a GGUF file"):
            model_from_gguf(path)


def test_a_file_without_a_language_model_gets_one_sentence(tmp_path: Path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    with pytest.raises(ValueError, match=re.escape("x.gguf: general.architecture: got None, expected a short text")):
        model_from_gguf(path)
    with pytest.raises(ValueError, match=r"llama.block_count: got 0, expected a whole number from 1"):
        model_from_gguf(write_model(tmp_path / "y.gguf", n_layers=0))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path = write_model(tmp_path_factory.mktemp("gguf") / "a.gguf", n_experts=2)
    return path.with_name("mutated.gguf"), path.read_bytes()


def described(path: Path, data: bytes) -> bool:
    """Whether the file is accepted; anything but a ValueError with a sentence fails the test."""
    path.write_bytes(data)
    sentence = ""
    try:
        model_from_gguf(path)
    except ValueError as error:
        sentence = str(error)
    assert not sentence or SENTENCE.fullmatch(sentence)
    assert len(sentence) < 600
    return not sentence


def test_a_file_cut_anywhere_is_refused(small: tuple[Path, bytes]):
    path, data = small
    assert described(path, data)
    header_byte = data.index(b"blk.1.ffn_up_exps") + 60
    cuts = [*range(0, header_byte, 3), *range(header_byte, len(data), 997), len(data) - 1]
    assert not any(described(path, data[:n]) for n in cuts)


def test_the_real_file_cut_is_refused(tmp_path: Path):
    data, path = smollm2().read_bytes(), tmp_path / "cut.gguf"
    for n in (7, 100, 5000, 1_000_000, 1_784_000, len(data) // 2, len(data) - 1):
        assert not described(path, data[:n])
    with pytest.raises(ValueError, match=r"cut.gguf: byte \d+: got the end of the file at byte \d+, expected tensor"):
        model_from_gguf(path)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_flipped_bytes_never_escape(small: tuple[Path, bytes], data: st.DataObject):
    path, original = small
    mutated = bytearray(original)
    end = original.index(b"blk.1.ffn_up_exps") + 60
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, end - 1))] = data.draw(st.sampled_from([0, 1, 127, 128, 255]))
    described(path, bytes(mutated))


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tail=st.binary(max_size=300))
def test_random_tails_never_escape(small: tuple[Path, bytes], tail: bytes):
    described(small[0], b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + tail)
