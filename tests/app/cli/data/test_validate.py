import csv
import json
from importlib.resources import files

import pytest

from app.cli import main

TABLE = files("resources").joinpath("measurements", "llm_decode.csv")


@pytest.fixture(scope="module")
def rows():
    with TABLE.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def written(tmp_path, rows, columns=None, name="table.csv"):
    path = tmp_path / name
    columns = columns or list(rows[0])
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    return str(path)


def validated(capsys, *words):
    assert main(["data", "validate", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_groups_and_summary_by_quantity_and_method(tmp_path, rows, capsys):
    mine = [r for r in rows if r["board_key"] in ("rk3588", "jetson_orin_nano_8gb_super")]
    found = validated(capsys, written(tmp_path, mine))
    assert found["n_rows"] == len(mine)
    assert found["n_compared"] + len(found["left_out"]) == len(mine)
    assert "source_repo" in found["extra_columns"]
    (group,) = [
        g
        for g in found["groups"]
        if (g["board"], g["runtime"], g["power_mode"], g["weights"])
        == ("rk3588", "rkllm", "max CPU/NPU clocks", "w8a8")
    ]
    decode = group["decode_s"]
    assert decode["n_rows"] == 51
    for method in ("data_sheet", "shipped", "leave_one_model_out", "k1", "k3", "k5"):
        assert 0.0 < decode[method]["median_error_frac"] < 0.6
        assert decode[method]["n_rows"] <= decode["n_rows"]
    assert decode["data_sheet"]["coverage_frac"] == {"absent": "this way to predict gives no interval"}
    assert 0.5 <= decode["shipped"]["coverage_frac"] <= 1.0
    assert group["ttft_s"]["leave_one_model_out"]["n_rows"] == 51
    energy = [g["energy_j_per_token"] for g in found["groups"] if "energy_j_per_token" in g]
    assert any("k1" in scores for scores in energy)
    summary = found["summary"]["decode_s"]["groups_of_4_models"]
    assert summary["shipped"]["n_groups"] >= 4
    assert summary["shipped"]["median_of_medians_frac"] < summary["data_sheet"]["median_of_medians_frac"]
    other_mode = found["summary"]["decode_s"]["groups_of_4_models"]["other_mode"]
    assert other_mode["median_of_medians_frac"] < 0.08


def test_optional_columns_may_be_missing_and_bad_rows_are_listed(tmp_path, rows, capsys):
    mine = [dict(r) for r in rows if r["board_key"] == "rk3588" and r["power_mode"]][:20]
    mine[3]["decode_tok_s"] = "fast"
    mine[5]["quant"] = ""
    columns = ["board_key", "compute", "runtime", "model", "model_key", "quant", "decode_tok_s", "params_b"]
    found = validated(capsys, written(tmp_path, mine, columns))
    assert [(p["line"], p["column"]) for p in found["problems"]] == [(5, "decode_tok_s"), (7, "quant")]
    assert found["n_rows"] == 20
    assert found["groups"]


def test_board_nobody_described_is_predicted_from_its_bandwidth(tmp_path, rows, capsys):
    mine = [dict(r, board_key="rk7777", board="Rockchip RK7777") for r in rows if r["board_key"] == "rk3588"]
    found = validated(capsys, written(tmp_path, mine))
    group = max(found["groups"], key=lambda g: g["decode_s"]["n_rows"])
    assert group["board"] == "rk7777"
    assert group["bandwidth_stated"]
    assert group["decode_s"]["shipped"]["median_error_frac"] < 0.2


def test_text_names_what_was_left_out(tmp_path, rows, capsys):
    mine = [dict(r) for r in rows if r["board_key"] == "raspberry_pi_5"]
    assert main(["data", "validate", written(tmp_path, mine), "--groups"]) == 0
    out = capsys.readouterr().out
    assert "trust X: inconsistent or not comparable" in out
    assert "leave_one_model_out" in out
    assert "raspberry_pi_5 / cpu / ollama" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        ("a,b\n1,2\n", "got no column board_key"),
        ("board_key,compute,runtime,model,quant\nb,cpu,r,m,q\n", "got no row that can be compared"),
    ],
)
def test_what_is_no_table_is_said_in_a_sentence(tmp_path, capsys, text, message):
    path = tmp_path / "t.csv"
    if text is not None:
        path.write_text(text)
    assert main(["data", "validate", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_help_lists_the_columns(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["data", "validate", "--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert "* board_key" in out
    assert "weight_stream_bytes" in out


def test_learn_writes_what_the_catalogue_reads(tmp_path, rows, capsys):
    mine = [r for r in rows if r["board_key"] == "rk3588"]
    into = tmp_path / "learned"
    assert main(["data", "learn", written(tmp_path, mine), "--into", str(into), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_groups"] >= 2
    assert {(c["board"], c["runtime"]) for c in found["calibrations"]} == {("rk3588", "rkllm_npu")}
    assert (into / "calibrations" / "rk3588.rkllm_npu.default.json").exists()
    assert "table.csv" in (into / "runtimes" / "rkllm_npu.toml").read_text("utf-8")
    assert not (into / "runtimes" / "builtin.toml").exists()
    assert main(["data", "learn", written(tmp_path, mine)]) == 0
    assert "A MODEL LEFT OUT" in capsys.readouterr().out
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["data", "learn", written(tmp_path, mine), "--into", str(blocked)]) == 2
    assert "into:" in capsys.readouterr().err


def test_perplexities_are_counted_in_their_bands(capsys):
    table = str(files("resources").joinpath("measurements", "precision_ppl.csv"))
    assert main(["data", "validate", table, "--perplexity", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["coverage_frac"] >= 0.85
    assert len(found["outside"]) == round((1 - found["coverage_frac"]) * found["n_rows"])
    assert main(["data", "validate", table, "--perplexity"]) == 0
    assert "lie in the 90 % band" in capsys.readouterr().out
    assert main(["data", "validate", "absent.csv", "--perplexity"]) != 0
    assert "absent.csv: no such file" in capsys.readouterr().err


def test_table_that_nothing_can_be_said_of_is_told_so(tmp_path, capsys):
    row = {
        "board_key": "zzz",
        "compute": "npu",
        "runtime": "rkllm",
        "model": "Qwen2.5 1.5B",
        "quant": "w8a8",
        "decode_tok_s": "9",
    }
    assert main(["data", "validate", written(tmp_path, [row])]) == 0
    assert "two models" in capsys.readouterr().out
    fast = {**row, "board_key": "rk3588", "ttft_ms": "1", "prompt_tokens": "512"}
    assert main(["data", "validate", written(tmp_path, [fast])]) == 0
    assert "line 2: the prompt took less time" in capsys.readouterr().out
    assert validated(capsys, written(tmp_path, [fast]))["without_ttft"][0]["line"] == 2
