import csv
import io
import json
from itertools import pairwise

import pytest

from app.cli import main
from app.cli.sweep import AXES
from tests.places import RESOURCES

EXAMPLE = RESOURCES / "examples" / "board.toml"


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))


def swept(capsys, *words):
    assert main(["sweep", *words]) == 0
    return capsys.readouterr().out


def test_grid_as_csv(capsys):
    out = swept(capsys, "--over", "alpha=0:0.9:0.1", "--over", "weights=int4,int8")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 20
    assert [row["alpha"] for row in rows[:4]] == ["0.0", "0.0", "0.1", "0.1"]
    assert [row["weights"] for row in rows[:2]] == ["int4", "int8"]
    for row in rows:
        assert float(row["decode_s_q05"]) <= float(row["decode_s"]) <= float(row["decode_s_q95"])
        assert row["decode_s_provenance"] == "predicted"


def test_an_upper_bound_of_the_cache_is_named_beside_the_rows(capsys):
    assert main(["sweep", "--model", "starcoder2-7b", "--over", "context=1024,8192"]) == 0
    assert "the KV cache of StarCoder2-7B is an upper bound" in capsys.readouterr().err
    assert main(["sweep", "--model", "olmo-3-7b", "--over", "context=1024,8192"]) == 0
    assert capsys.readouterr().err == ""


def test_front_as_json_with_its_knee(capsys):
    out = swept(
        capsys,
        "--over",
        "alpha=0:0.9:0.1",
        "--over",
        "weights=int4,int8,bf16",
        "--pareto",
        "latency,accuracy",
        "--json",
    )
    found = json.loads(out)
    assert found["n"] == 30
    assert 0 < len(found["rows"]) < 30
    assert 0.0 < found["dominated_share"] < 1.0
    assert found["knee"]["edge"] is False
    times = [row["decode_s"]["median"] for row in found["rows"]]
    agreement = [row["top1_agreement"]["median"] for row in found["rows"]]
    order = sorted(range(len(times)), key=times.__getitem__)
    assert all(agreement[a] < agreement[b] for a, b in pairwise(order))


def test_boards_can_be_an_axis_and_priors_of_power_stay_predicted(capsys):
    words = ["--runtime", "llamacpp_gpu", "--model", "llama-3.2-3b", "--weights", "q4_k_m", "--json"]
    found = json.loads(swept(capsys, "--over", "board=dgx_spark,apple_m1", "--over", "context=512,2k", *words))
    spark, apple = found["rows"][0], found["rows"][2]
    assert spark["board"] == "dgx_spark"
    assert spark["decode_s"]["provenance"] == "calibrated"
    assert apple["decode_s"]["provenance"] == "predicted"
    assert apple["power_w"]["provenance"] == "predicted"
    assert apple["power_w"]["q95"] > 4 * apple["power_w"]["q05"]
    assert found["rows"][1]["context_tokens"] == 2000.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--over", "alpha"], "expected AXIS=VALUES"),
        (["--over", "colour=red"], "expected AXIS=VALUES with an axis"),
        (["--over", "alpha=0:0.9"], "expected FROM:TO:STEP"),
        (["--over", "alpha=0.9:0:0.1"], "expected FROM:TO:STEP"),
        (["--over", "alpha=0:0.9,0.1"], "alpha: got '0.9,0.1'"),
        (["--over", "alpha=x"], "alpha"),
        (["--over", "alpha=0", "--over", "alpha=1"], "got alpha twice"),
        (["--over", "weights=int7"], "int7"),
        (["--over", "alpha=0,0.5", "--pareto", "speed"], "speed"),
        (["--over", "alpha=0:0.9:1e-9"], "at most"),
        (["--over", "context=99999999"], "context_tokens"),
    ],
)
def test_mistakes_are_one_sentence(capsys, words, message):
    assert main(["sweep", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


VALUES = {
    "alpha": "0,0.5", "beta": "1,2", "bandwidth": "10GB/s,20GB/s", "context": "256,512", "reselect": "0,64",
    "graph": "0,4096", "mode": "default", "board": "this", "runtime": "builtin", "model": "smollm2-135m",
    "weights": "int4,int8", "kv": "bf16,int8", "policy": "attention_mass,key_norm", "layout": "masked,compacted",
    "head": "int8,fp16", "power-limit": "5W,10W", "compensation": "none,both",
    "score-weights": "0.5/0.25/0.25/0,0.4/0.3/0.2/0.1",
    "activation-keep": "0.5,1", "kv-layout": "blocked,token_major", "weight-sparsity": "0,0.5",
    "sparsity-pattern": "2:4,rows", "on-chip": "0,0.5", "on-chip-bandwidth": "500GB/s,768GB/s",
    "adapter-rank": "0,16", "adapter-matrices": "attention,all",
}  # fmt: skip


def test_every_axis_can_be_swept(capsys):
    assert VALUES.keys() == AXES.keys()
    for axis, values in VALUES.items():
        rows = json.loads(swept(capsys, "--over", f"{axis}={values}", "--json"))["rows"]
        assert [row["decode_s"]["median"] > 0 for row in rows] == [True] * (values.count(",") + 1)
        field = AXES[axis]
        assert all(isinstance(row[field.name], float if field.is_number else str) for row in rows)


def test_axes_take_the_names_that_people_use(capsys):
    words = [
        "--over",
        "board=Raspberry Pi 5,RK-3588",
        "--over",
        "model=llama3.2:1b",
        "--over",
        "weights=Q8_0,Q4_K - Medium",
    ]
    found = json.loads(swept(capsys, *words, "--over", "kv=F16", "--over", "runtime=LLAMA.CPP", "--json"))
    swept_keys = [(row["board"], row["model"], row["weights"], row["kv"], row["runtime"]) for row in found["rows"]]
    assert swept_keys == [
        (board, "llama-3.2-1b", weights, "fp16", "llamacpp_cpu")
        for board in ("raspberry_pi_5", "rk3588")
        for weights in ("q8_0", "q4_k_m")
    ]
    modes = ["--over", "mode=15 W,MAXN SUPER", "--board", "Orin Nano Super", "--runtime", "llama.cpp", "--json"]
    rows = json.loads(swept(capsys, *modes, "--model", "qwen2.5-1.5b", "--weights", "q4_k_m"))["rows"]
    assert [row["power_mode"] for row in rows] == ["15W", "MAXN"]


def test_one_name_of_a_runtime_or_mode_means_what_each_board_has(capsys):
    words = ["--over", "board=raspberry_pi_5,jetson_orin_nano_8gb_super,rk3588", "--json"]
    words += ["--model", "llama-3.2-1b", "--weights", "q4_k_m"]
    given = json.loads(swept(capsys, *words, "--runtime", "llama.cpp", "--mode", "max"))["rows"]
    over = json.loads(swept(capsys, *words, "--over", "runtime=llama.cpp", "--over", "mode=max"))["rows"]
    assert [row["runtime"] for row in given] == ["llamacpp_cpu", "llamacpp_gpu", "llamacpp_cpu"]
    assert [row["power_mode"] for row in given] == ["default", "MAXN", "default"]
    assert given == over
    alone = ["--over", "board=rk3588", *words[2:], "--runtime", "llamacpp_cpu"]
    assert json.loads(swept(capsys, *alone))["rows"][0]["decode_s"] == given[2]["decode_s"]


def test_a_runtime_and_a_mode_are_those_of_the_boards_swept_not_of_this_machine(capsys):
    words = ["--model", "qwen2.5-1.5b", "--weights", "q4_k_m", "--runtime", "llama.cpp", "--mode", "15W", "--json"]
    found = json.loads(swept(capsys, "--over", "board=jetson_orin_nano_8gb_super", *words))
    (row,) = found["rows"]
    assert (found["point"]["runtime"], found["point"]["power_mode"]) == ("llamacpp_gpu", "15W")
    assert row["decode_s"]["provenance"] == "calibrated"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["board=Orin Nano"],
            "board: got 'Orin Nano', which may be jetson_orin_nano_4gb, jetson_orin_nano_8gb or ",
        ),
        (
            ["board=Raspberry Pi 5,rk3588,AGX Orin 64GB", "runtime=rkllm"],
            "runtime: got 'rkllm', which raspberry_pi_5 and jetson_agx_orin_64gb cannot run: expected boards that can",
        ),
        (["board=nowhere.toml"], "board: nowhere.toml: no such file"),
        (["board=no such board"], "board is 'no such board': expected one of"),
    ],
)
def test_names_that_may_mean_more_than_one_are_refused(capsys, words, message):
    assert main(["sweep", *(part for word in words for part in ("--over", word))]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"trilemma sweep: {message}")
    assert error.count("\n") == 1


def test_a_board_of_a_file_stands_beside_those_of_the_catalogue(capsys):
    words = ["--over", f"board={EXAMPLE},rk3588", "--runtime", "llamacpp_cpu", "--model", "qwen2.5-1.5b"]
    rows = json.loads(swept(capsys, *words, "--weights", "q4_k_m", "--json"))["rows"]
    assert [row["board"] for row in rows] == [EXAMPLE.stem, "rk3588"]
    assert rows[0]["decode_s"]["median"] != rows[1]["decode_s"]["median"]
