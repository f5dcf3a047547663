import csv
import io
import json
from itertools import pairwise

import pytest

from app.cli import main
from app.cli.sweep import AXES


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


def test_boards_can_be_an_axis_and_absent_outputs_stay_absent(capsys):
    words = ["--runtime", "llamacpp_gpu", "--model", "llama-3.2-3b", "--weights", "q4_k_m", "--json"]
    found = json.loads(swept(capsys, "--over", "board=dgx_spark,apple_m1", "--over", "context=512,2k", *words))
    spark, apple = found["rows"][0], found["rows"][2]
    assert spark["board"] == "dgx_spark"
    assert spark["decode_s"]["provenance"] == "calibrated"
    assert apple["decode_s"]["provenance"] == "predicted"
    assert "absent" in apple["power_w"]
    assert found["rows"][1]["context_tokens"] == 2000.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--over", "alpha"], "expected AXIS=VALUES"),
        (["--over", "colour=red"], "expected AXIS=VALUES with an axis"),
        (["--over", "alpha=0:0.9"], "expected FROM:TO:STEP"),
        (["--over", "alpha=0.9:0:0.1"], "expected FROM:TO:STEP"),
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
    "head": "int8,fp16",
}  # fmt: skip


def test_every_axis_can_be_swept(capsys):
    assert VALUES.keys() == AXES.keys()
    for axis, values in VALUES.items():
        rows = json.loads(swept(capsys, "--over", f"{axis}={values}", "--json"))["rows"]
        assert [row["decode_s"]["median"] > 0 for row in rows] == [True] * (values.count(",") + 1)
        field, unit = AXES[axis]
        assert all(isinstance(row[field], float if unit else str) for row in rows)
