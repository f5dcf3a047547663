"""The resource files: sources, parameters, refusals."""

import re

import pytest

from core.catalogue import load
from core.catalogue.gguf_model import model_from_gguf
from core.catalogue.load import load_catalogue
from core.catalogue.toml_files import parse
from tests.core.catalogue.gguf_files import smollm2


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
    energy = made.sources["system_energy_j_byte"]
    assert energy.startswith("[prior]")
    assert made.energy_assumed
    assert made.sources == {
        "memory_byte": "label", "default.bandwidth_byte_s": "sheet", "system_energy_j_byte": energy,
    }  # fmt: skip


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
