import json
from importlib.resources import files
from pathlib import Path

import pytest

from app.cli import main
from app.library.machine import this_machine
from app.library.measurements import Measurement, append_measurement, measurements_file
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import OperatingPoint

OUTPUTS = ("decode_s", "ttft_s", "power_w", "energy_j_per_token", "perplexity_ratio", "top1_agreement")


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))


def predicted(capsys, *words):
    assert main(["predict", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_output_has_its_interval_and_provenance(capsys):
    found = predicted(capsys, "--weights", "int8", "--context", "2048")
    for name in OUTPUTS:
        record = found[name]
        assert record.keys() == {"median", "q05", "q95", "provenance"}
        assert record["q05"] <= record["median"] <= record["q95"]
        assert record["provenance"] == "predicted"
    assert 0.0 < found["mean_kl"]["q05"] < found["mean_kl"]["median"] < 0.01
    assert found["retrieval_after_pruning"]["median"] == 1.0
    pruned = predicted(capsys, "--alpha", "0.5", "--policy", "expected_attention")["retrieval_after_pruning"]
    assert 0.9 < pruned["q05"] < pruned["median"] < pruned["q95"] < 1.0
    assert "absent" in predicted(capsys, "--policy", "page_bounds")["retrieval_after_pruning"]
    assert sum(found["parts_s"].values()) == pytest.approx(found["decode_s"]["median"])
    assert found["limits"].startswith("Decode is memory-bound")


def test_units_are_understood(capsys):
    one = predicted(capsys, "--bandwidth", "25.6GB/s", "--alpha", "30%", "--context", "2k", "--beta", "1.5")
    assert one["point"]["bandwidth_byte_s"] == 25.6e9
    assert one["point"]["alpha"] == pytest.approx(0.3)
    assert one["point"]["context_tokens"] == 2000.0
    assert one["point"]["beta"] == 1.5
    other = predicted(capsys, "--bandwidth", "51.2 GB/s", "--alpha", "0.3", "--context", "2000", "--beta", "1.5")
    assert other["decode_s"]["median"] < one["decode_s"]["median"]
    for text in ("51.2GBps", "５１．２ＧＢ／ｓ", "6400 MT/s x 64 bit"):
        assert predicted(capsys, "--bandwidth", text, "--context", "64")["point"]["bandwidth_byte_s"] == 51.2e9


def test_is_the_engine_s_own_prediction(capsys):
    words = ("--board", "jetson_agx_orin_64gb", "--runtime", "llamacpp_gpu", "--model", "llama-3-8b")
    found = predicted(capsys, *words, "--weights", "q4_k_m", "--kv", "fp16", "--alpha", "0.5", "--layout", "masked")
    point = OperatingPoint(
        board="jetson_agx_orin_64gb", runtime="llamacpp_gpu", model="llama-3-8b", weights="q4_k_m", kv="fp16",
        alpha=0.5, layout="masked",
    )  # fmt: skip
    assert found["decode_s"]["median"] == predict(point, load_catalogue()).decode_s.median


def test_a_model_is_known_by_its_names(capsys):
    words = ("--board", "jetson_agx_orin_64gb", "--runtime", "llamacpp_gpu", "--weights", "q4_k_m", "--model")
    assert predicted(capsys, *words, "llama3.2:3b") == predicted(capsys, *words, "llama-3.2-3b")
    assert main(["predict", *words, "llama3.2:9b"]) == 2
    assert "llama-3.2-3b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("called", "keys"),
    [
        (("RK3588", "rkllm", "Qwen2.5-1.5B", "W8A8", "F16"), ("rk3588", "rkllm_npu", "qwen2.5-1.5b", "w8a8", "fp16")),
        (("Raspberry Pi 5", "llama.cpp", "llama3.2:3b", "Q4_K - Medium", "Q8_0"),
         ("raspberry_pi_5", "llamacpp_cpu", "llama-3.2-3b", "q4_k_m", "q8_0")),
        (("rk3588", "Ollama", "llama3.2:3b", "q8_0", "bf16"),  # no entry for its NPU: its cores
         ("rk3588", "llamacpp_cpu", "llama-3.2-3b", "q8_0", "bf16")),
        (("M1 Max", "mlx-lm", "llama3.2:3b", "q4f16_1", "bf16"),
         ("apple_m1_max", "mlx_gpu", "llama-3.2-3b", "q4f16", "bf16")),
    ],
)  # fmt: skip
def test_names_that_people_use_mean_keys(capsys, called, keys):
    def words(values):
        names = ("--board", "--runtime", "--model", "--weights", "--kv")
        return [word for pair in zip(names, values, strict=True) for word in pair]

    assert predicted(capsys, *words(called)) == predicted(capsys, *words(keys))


def test_a_format_that_nobody_knows_has_the_bits_that_its_name_tells(capsys):
    words = ("--board", "jetson_orin_nx_8gb", "--runtime", "other_gpu", "--model", "qwen3-4b", "--weights")
    found = {name: predicted(capsys, *words, name) for name in ("EXL2 4.0bpw", "NVFP4", "GPTQ-Int8", "fp16")}
    times = [one["decode_s"]["median"] for one in found.values()]
    assert times == sorted(times)
    assert found["NVFP4"]["point"]["weights"] == "nvfp4"
    assert found["EXL2 4.0bpw"]["memory_byte"]["median"] < 0.26 * found["fp16"]["memory_byte"]["median"] + 4e8
    assert main(["predict", *words, "ternary"]) == 2
    assert "weight format 'ternary' is unknown" in capsys.readouterr().err


def test_a_power_mode_is_known_however_it_is_spelled(capsys):
    words = ("--board", "Jetson Orin Nano 8GB Super", "--runtime", "llama.cpp", "--weights", "q4_k_m", "--mode")
    assert predicted(capsys, *words, "15 w")["point"]["power_mode"] == "15W"


def test_a_board_of_the_user_s_is_predicted_from_its_file(capsys, tmp_path):
    example = Path(str(files("resources").joinpath("examples", "board.toml")))
    words = ("--runtime", "llama.cpp", "--model", "llama-3-8b", "--weights", "q4_0", "--board")
    found = predicted(capsys, *words, str(example))
    assert found["point"]["board"] == "board"
    assert found["decode_s"]["provenance"] == found["ttft_s"]["provenance"] == "predicted"
    bare = tmp_path / "bare.toml"
    lines = example.read_text("utf-8").splitlines(keepends=True)
    bare.write_text("".join(line for line in lines if not line.startswith("vector_op_s")), "utf-8")
    unsure = predicted(capsys, *words, str(bare))
    ratio, wider = (one["decode_s"]["q95"] / one["decode_s"]["q05"] for one in (found, unsure))
    assert wider > 1.05 * ratio
    low = predicted(capsys, *words, str(example), "--mode", "15W")
    assert low["decode_s"]["median"] > found["decode_s"]["median"]
    assert low["ttft_s"].keys() == {"absent"}


def test_a_board_without_a_source_of_power_has_a_wide_prior(capsys):
    assumed = [board.key for board in load_catalogue().boards.values() if board.energy_assumed]
    assert len(assumed) > 30
    for board in (assumed[0], "rk3588"):
        found = predicted(capsys, "--board", board, "--runtime", "llamacpp_cpu")
        for name in ("power_w", "energy_j_per_token"):
            assert found[name]["provenance"] == "predicted"
            assert found[name]["q95"] > 4 * found[name]["q05"]


def test_the_power_limit_of_an_option_binds(capsys):
    words = ("--board", "raspberry_pi_5", "--runtime", "llamacpp_cpu", "--weights", "q4_k_m")
    free, held = predicted(capsys, *words), predicted(capsys, *words, "--power-limit", "4W")
    assert held["power_w"]["median"] <= 4.0 < free["power_w"]["median"]
    assert held["decode_s"]["median"] > free["decode_s"]["median"]
    assert held["binding"] == "power"
    assert "power-bound" in held["limits"]


def test_saved_measurements_of_this_machine_calibrate(capsys):
    before = predicted(capsys, "--weights", "int8")["decode_s"]
    measured_s = before["median"] * 1.6
    body = {
        "decode_s": {
            "median": measured_s,
            "q05": 0.99 * measured_s,
            "q95": 1.01 * measured_s,
            "n": 30,
            "provenance": "measured",
        }
    }
    points = [OperatingPoint(weights="int8", context_tokens=n) for n in (1024.0, 2048.0)]
    for point in points:
        append_measurement(measurements_file(), Measurement(point, body, "2026-01-01T00:00:00Z", this_machine()))
    after = predicted(capsys, "--weights", "int8")["decode_s"]
    assert after["provenance"] == "calibrated"
    assert after["median"] == pytest.approx(measured_s, rel=0.1)
    assert after["q95"] / after["q05"] < before["q95"] / before["q05"] / 1.5
    elsewhere = predicted(capsys, "--board", "raspberry_pi_4", "--runtime", "llamacpp_cpu")
    assert elsewhere["decode_s"]["provenance"] == "predicted"


def test_measurements_of_another_machine_or_version_teach_nothing(capsys):
    body = {"decode_s": {"median": 1.0, "q05": 0.9, "q95": 1.1, "n": 3, "provenance": "measured"}}
    for point, machine in (
        (OperatingPoint(), "another processor"),
        (OperatingPoint(weights="a format of tomorrow"), this_machine()),
    ):
        append_measurement(measurements_file(), Measurement(point, body, "2026-01-01T00:00:00Z", machine))
    assert predicted(capsys)["decode_s"]["provenance"] == "predicted"


def test_text_says_where_numbers_come_from_and_what_limits(capsys):
    assert main(["predict", "--context", "2048", "--alpha", "0.3"]) == 0
    text = capsys.readouterr().out
    for name in OUTPUTS:
        assert f"\n{name} " in text
    assert "predicted" in text
    assert "Decode is memory-bound" in text
    assert "pruned by attention_mass" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--alpha", "1.0"], "0 <= alpha < 1"),
        (["--alpha", "-0.1"], "0 <= alpha < 1"),
        (["--alpha", "abc"], "got 'abc', expected a number"),
        (["--context", "0"], "at least 1"),
        (["--context", "9000"], "8192"),
        (["--context", "12.5"], "whole number"),
        (["--beta", "0"], "beta"),
        (["--bandwidth", "51.2 apples"], "51.2 GB/s"),
        (["--bandwidth", "51.2gbps"], "gigabytes per second is 51.2GB/s, gigabits 51.2Gbit/s"),
        (["--bandwidth", "51.2"], "its unit, such as 51.2 GB/s"),
        (["--bandwidth", "51,2e9"], "its unit, such as 51.2 GB/s"),
        (["--board", "abacus"], "see trilemma boards"),
        (["--board", "raspberry"], "may be raspberry_pi_4 or raspberry_pi_5: expected one of them"),
        (["--board", "Orin Nano"], "may be jetson_orin_nano_4gb, jetson_orin_nano_8gb or jetson_orin_nano_8gb_super"),
        (["--board", "none.toml"], "none.toml: no such file"),
        (
            ["--board", str(files("resources").joinpath("boards", "rk3588.toml"))],
            "the name of a board of the catalogue",
        ),
        (["--board", str(files("resources").joinpath("formats.toml"))], "formats.toml: unit: got nothing"),
        (["--board", "rk3588", "--runtime", "exllama"], "llamacpp_cpu"),
        (["--weights", "FP16 vs int8"], "fp16"),
        (["--model", "hal"], "see trilemma models"),
        (["--model", "smolm2"], "smollm2-135m"),
        (["--mode", "ludicrous"], "default"),
        (["--runtime", "tea"], "builtin"),
        (["--weights", "int5"], "int8"),
        (["--kv", "int5"], "bf16"),
        (["--policy", "coin"], "sinks_recent"),
        (["--layout", "heap"], "compacted"),
    ],
)
def test_what_is_wrong_is_one_sentence(capsys, words, said):
    assert main(["predict", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("trilemma predict: ")
    assert said in captured.err


def test_head_in_16_bit_costs_what_it_reads(capsys):
    words = ("--board", "jetson_agx_orin_64gb", "--runtime", "mlc_gpu", "--model", "gemma-2-2b", "--weights", "q4f16")
    own, wide = predicted(capsys, *words), predicted(capsys, *words, "--head", "fp16")
    assert wide["point"]["head"] == "fp16"
    assert wide["parts_s"]["weights"] > 1.5 * own["parts_s"]["weights"]
    assert wide["memory_byte"]["median"] > own["memory_byte"]["median"]
    assert main(["predict", "--head", "int3"]) == 2
    assert "weight format of the head 'int3' is unknown" in capsys.readouterr().err
    assert main(["measure", "--head", "fp16"]) == 2
    assert "head: got fp16, expected none" in capsys.readouterr().err


def test_published_fit_is_named_with_its_number_of_rows(capsys):
    words = ("--board", "rk3588", "--runtime", "rkllm_npu", "--model", "qwen2.5-1.5b", "--weights", "w8a8")
    found = predicted(capsys, *words)
    assert found["decode_s"]["provenance"] == "calibrated"
    assert "67 published rows of 25 models" in found["basis"]
    assert main(["predict", *words]) == 0
    assert "Calibrated on 67 published rows of 25 models" in capsys.readouterr().out
    assert predicted(capsys)["basis"] is None


def test_this_machine_says_what_does_not_fit_in_its_memory(capsys, monkeypatch):
    monkeypatch.setattr(
        "app.agent.board.describe",
        lambda root: {"cpu": "any", "memory_byte": 8_000_000_000, "available_byte": 7_000_000_000},
    )
    assert main(["predict", "--model", "llama-3-70b", "--weights", "q4_k_m", "--runtime", "llamacpp_cpu"]) == 0
    assert (
        "This machine: it takes 6.15 times as much as can be had (free as the board says)." in capsys.readouterr().out
    )
