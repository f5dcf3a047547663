"""The option --preset, usual runtimes of boards, and settings of runtimes by `data export`."""

import json

import pytest

from app.cli import main
from app.library.presets import FORMAT, VERSION

POINT = {
    "board": "jetson_orin_nano_8gb_super",
    "power_mode": "15W",
    "model": "llama-3.2-1b",
    "runtime": "llamacpp_gpu",
    "weights": "q4_k_m",
    "kv": "fp16",
    "context_tokens": 2048.0,
    "bandwidth_byte_s": 5e10,
    "alpha": 0.25,
}


@pytest.fixture
def preset(tmp_path):
    path = tmp_path / "edge.json"
    path.write_text(json.dumps({"format": FORMAT, "version": VERSION, "point": POINT}))
    return str(path)


def point_of(capsys, *words):
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return found["point"]


@pytest.mark.parametrize(
    "command",
    [("predict",), ("explain",), ("simulate", "--hours", "1min"), ("sweep", "--over", "beta=1,2")],
)
def test_the_point_of_a_preset_is_the_base_of_every_command(capsys, preset, command):
    assert {name: point_of(capsys, *command, "--preset", preset)[name] for name in POINT} == POINT


@pytest.mark.parametrize("words", [("--preset", "{}", "--context", "4k"), ("--context", "4k", "--preset", "{}")])
def test_options_override_a_preset_in_any_order(capsys, preset, words):
    found = point_of(capsys, "predict", *(word.format(preset) for word in words))
    assert found == {**found, **POINT, "context_tokens": 4000.0}


def test_another_board_takes_its_own_mode_and_a_runtime_that_runs_there(capsys, preset):
    found = point_of(capsys, "predict", "--preset", preset, "--board", "rk3588", "--weights", "w8a8")
    assert (found["board"], found["power_mode"], found["runtime"]) == ("rk3588", "", "rkllm_npu")
    found = point_of(capsys, "predict", "--preset", preset, "--board", "A100")
    assert (found["power_mode"], found["runtime"]) == ("", "llamacpp_gpu")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "$.format: expected 'trilemma-preset', got nothing"),
        ("tea", "expected a JSON document"),
        (json.dumps({"format": FORMAT, "version": VERSION, "point": {**POINT, "alpha": "x"}}), "expected number"),
        (json.dumps({"format": FORMAT, "version": VERSION, "point": {**POINT, "alpha": 2.0}}), "alpha"),
        (json.dumps({"format": FORMAT, "version": VERSION, "point": {**POINT, "board": "tea"}}), "tea"),
    ],
)
def test_a_preset_that_cannot_be_used_is_one_sentence(capsys, tmp_path, content, said):
    path = tmp_path / "bad.json"
    path.write_text(content)
    assert main(["predict", "--preset", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_preset_that_is_not_there_is_one_sentence(capsys, tmp_path):
    assert main(["measure", "--preset", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.startswith("trilemma measure: preset: ")


# ---- usual runtimes


@pytest.mark.parametrize(
    ("board", "runtime", "weights"),
    [
        ("rk3588", "rkllm_npu", "w8a8"),
        ("QCS8550", "qnn_npu", "int4"),
        ("Ascend 310P", "mindie_npu", "w8a8"),
        ("Horizon J5", "other_npu", "int4"),
        ("A100", "llamacpp_gpu", "int4"),
        ("Raspberry Pi 5", "builtin", "int4"),
        ("this", "builtin", "int4"),
    ],
)
def test_a_point_that_names_no_runtime_has_one_that_runs_on_its_board(capsys, board, runtime, weights):
    found = point_of(capsys, "predict", "--board", board)
    assert (found["runtime"], found["weights"]) == (runtime, weights)
    assert point_of(capsys, "predict", "--board", board, "--runtime", "builtin")["runtime"] == "builtin"


def test_a_sweep_over_boards_has_the_usual_runtime_of_each(capsys):
    assert main(["sweep", "--over", "board=rk3588,raspberry_pi_5", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["board"], row["runtime"]) for row in rows] == [
        ("rk3588", "rkllm_npu"),
        ("raspberry_pi_5", "builtin"),
    ]


@pytest.mark.parametrize("key", ["horizon_j5", "mlu370_x8", "ascend_910b", "ascend_310b", "hi3559a", "versal_vck190"])
def test_the_npu_boards_of_the_articles_are_predicted(capsys, key):
    assert main(["predict", "--board", key, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["decode_s"]["q05"] < found["decode_s"]["median"] < found["decode_s"]["q95"]
    assert found["power_w"]["median"] > 0
    assert not [said for said in found["outside"] if "does not" in said or "has no NPU" in said]


def test_a_published_factor_is_an_argument_of_beta(capsys):
    assert point_of(capsys, "predict", "--beta", "MLU370")["beta"] == 2.11
    assert main(["predict", "--beta", "tea"]) == 2


def test_a_board_s_published_figures_have_sources(capsys):
    assert main(["boards", "MLU370", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    named = {one["name"]: one for one in found["published"]}
    assert named["KV prefetch"]["text"] == "yes"
    assert named["SITS-Calib"]["text"] == "73 ms for 144 KiB"
    assert named["Clocks"]["text"].startswith("800 MHz: 32.0 W, 186 images/s")
    assert all(one["source"].startswith("article ") for one in found["published"])


# ---- settings


def test_settings_are_printed_and_written(capsys, tmp_path, preset):
    words = ["data", "export", "settings", "-", "--preset", preset]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("llama-server -m llama-3.2-1b-Q4_K_M.gguf -c 2048")
    assert "not expressed: KV prune rate 0.25" in printed.err
    file = tmp_path / "Modelfile"
    assert main(["data", "export", "settings", str(file), "--preset", preset, "--runtime-settings", "ollama"]) == 0
    assert file.read_text().splitlines()[-1] == "PARAMETER num_ctx 2048"
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runtime_settings"] == "llama-server"
    assert found["reference"].startswith("https://")


@pytest.mark.parametrize(
    "words",
    [
        ("settings", "-"),  # Trilemma's own decoder
        ("settings", "-", "--runtime-settings", "tea"),
        ("settings", "-", "--runs"),
        ("measurements", "-", "--runtime-settings", "vllm"),
    ],
)
def test_settings_that_cannot_be_had_are_one_sentence(capsys, words):
    assert main(["data", "export", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_simulated_npu_board_measures_with_its_usual_runtime(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    words = ["measure", "--attach", "sim:rk3588,accelerate=100", "--context", "64"]
    found = point_of(capsys, *words)
    assert (found["runtime"], found["weights"]) == ("rkllm_npu", "w8a8")
    assert point_of(capsys, *words, "--runtime", "builtin")["runtime"] == "builtin"
