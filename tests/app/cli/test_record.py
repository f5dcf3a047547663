"""``record``, ``replay``, ``export`` and ``import``, as a user types them."""

import csv
import json
import signal
import subprocess
import sys

import pytest

from app import LAUNCHER
from app.cli import main
from app.library import tables
from app.library.files import FileError
from app.library.imported import add_rows
from app.library.measurements import Measurement, append_measurement, measurements_file
from core.spec import OperatingPoint
from core.tables.rows import read_table
from tests.processes import running
from tests.waiting import wait_until

SIM = "sim:raspberry_pi_5"
RATE_HZ = 50
BODY = {"decode_s": {"median": 0.02, "q05": 0.019, "q95": 0.021, "n": 9, "provenance": "measured"}}
TEST = {
    "build_commit": "abc",
    "build_number": 7000,
    "cpu_info": "Cortex-A76",
    "gpu_info": "",
    "backends": "CPU",
    "model_filename": "/home/me/secret/TinyLlama-1.1B-Chat.Q4_K_M.gguf",
    "model_type": "llama 1B Q4_K - Medium",
    "model_size": 667000000,
    "model_n_params": 1100000000,
    "n_threads": 4,
    "type_k": "f16",
    "type_v": "f16",
    "n_gpu_layers": 99,
    "some_new_key": [1, {"deep": True}],
    "n_prompt": 0,
    "n_gen": 32,
    "n_depth": 512,
    "test_time": "2026-11-29T21:46:10Z",
    "avg_ns": 3200000000,
    "samples_ns": [3200000000, 3100000000, 3300000000],
}


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A second of a simulated board."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRILEMMA_DATA_DIR", str(folder))
        path = folder / "x.trilemma"
        assert main(["record", SIM, str(path), "--seconds", "1.2", "--rate", str(RATE_HZ), "--json"]) == 0
    return path


def run(capsys, *words):
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_a_recording_is_summed_up(recorded, capsys):
    status, out, _ = run(capsys, "replay", str(recorded), "--json")
    found = json.loads(out)
    assert status == 0
    assert found["simulated"] is True
    assert found["board"]["key"] == "raspberry_pi_5"
    assert found["n_records"] > 1
    assert found["span_s"] >= (found["n_records"] - 1) / RATE_HZ * (1 - 1e-6)
    assert found["n_lost"] == 0
    assert found["warnings"] == []
    power = found["channels"][0]
    assert power["key"] == "board.power_w"
    assert power["least"] <= power["mean"] <= power["most"]
    assert power["energy_j"] == pytest.approx(power["mean"] * power["energy_covers_s"], rel=1e-6)
    assert power["energy_covers_s"] == pytest.approx(found["span_s"], abs=0.5)
    assert found["clock"]["bound_s"] < 0.1
    status, out, _ = run(capsys, "replay", str(recorded))
    assert status == 0
    assert out.startswith("Raspberry Pi 5 (simulated)")
    assert "board.power_w" in out


def test_a_recording_is_streamed_in_its_own_time_or_at_once(recorded, capsys):
    n_records = json.loads(run(capsys, "replay", str(recorded), "--json")[1])["n_records"]
    for speed in ("max", "20"):
        lines = [json.loads(line) for line in run(capsys, "replay", str(recorded), "--speed", speed)[1].splitlines()]
        samples = [line for line in lines if "board.power_w" in line]
        assert len(samples) == n_records
        assert [line["t_s"] for line in samples] == sorted(line["t_s"] for line in samples)


def test_a_recording_is_stopped_by_ctrl_c_and_whole(tmp_path):
    path = tmp_path / "x.trilemma"
    words = [sys.executable, str(LAUNCHER), "record", SIM, str(path), "--json"]
    with running(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        wait_until(lambda: path.exists() and path.stat().st_size >= 4000)
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=120)
    report = json.loads(out)
    assert program.returncode == 0
    assert report["n_byte"] == path.stat().st_size
    assert report["n_records"] > 0


def test_a_recording_that_ctrl_c_stops_before_the_board_was_attached_leaves_no_file(tmp_path):
    path = tmp_path / "x.trilemma"
    program = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
from app.cli import main
from app.client import target
def open_link():
    os.kill(os.getpid(), signal.SIGINT)
    raise OSError(1, "no link")
target.LocalTransport = lambda argv: open_link()
sys.exit(main(sys.argv[1:]))
"""
    argv = [sys.executable, "-c", program, str(LAUNCHER.parent), "record", SIM, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "trilemma record: stopped\n")
    assert not path.exists()


def test_what_cannot_be_recorded_or_replayed_is_one_sentence(tmp_path, capsys):
    there = tmp_path / "there"
    there.write_text("x")
    for words, says in (
        (["record", SIM, str(there)], "exists already: expected a new file"),
        (["record", "sim:toaster", str(tmp_path / "new")], "board: got 'toaster', expected one of"),
        (["record", SIM, str(tmp_path / "new"), "--rate", "9000"], "rate"),
        (["record", SIM, str(tmp_path / "new"), "--seconds", "-1"], "seconds"),
        (["replay", str(there)], "holds no recording"),
        (["replay", str(tmp_path / "none")], "no such file"),
        (["replay", str(there), "--speed", "fast"], "speed: got 'fast', expected a number"),
        (["data", "export", str(there), str(tmp_path / "x.csv")], "holds no recording"),
        (["data", "export", "measurements", str(tmp_path / "x.xlsx")], "expected a name that ends in .csv or .parquet"),
        (["data", "export", "measurements", "-", "--json"], "--json: got -, expected a file"),
        (["data", "import", str(there)], "expected llama-bench's output, or CSV"),
        (["data", "import", str(tmp_path / "none")], "no such file"),
    ):
        status, out, err = run(capsys, *words)
        assert status == 2, words
        assert says in err
        assert err.count("\n") == 1
        assert not out
    assert not (tmp_path / "new").exists()


# --- export -----------------------------------------------------------------------------------------------------------


def test_samples_are_exported_with_units_provenance_and_dates(recorded, tmp_path, capsys):
    path = tmp_path / "x.csv"
    status, out, _ = run(capsys, "data", "export", str(recorded), str(path), "--json")
    assert status == 0
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == json.loads(out)["n_rows"] > 30
    assert list(rows[0])[:4] == ["time_s [s]", "time_utc", "after_gap", "board.power_w [W, simulated]"]
    assert float(rows[0]["board.power_w [W, simulated]"]) > 1
    assert rows[0]["time_utc"].endswith("+00:00")
    assert all(float(row["after_gap"]) == 0 for row in rows)
    status, out, _ = run(capsys, "data", "export", str(recorded), "-", "--channel", "package.temp_c")
    assert out.splitlines()[0] == 'time_s [s],time_utc,after_gap,"package.temp_c [degC, simulated]"'
    status, _, err = run(capsys, "data", "export", str(recorded), "-", "--channel", "gpu.temp_c")
    assert status == 2
    assert "channel: got 'gpu.temp_c', expected one of board.power_w" in err


def test_parquet_says_what_it_needs_or_carries_units_as_metadata(recorded, tmp_path, capsys):
    path = tmp_path / "x.parquet"
    try:
        import pyarrow.parquet as pq
    except ImportError:
        status, _, err = run(capsys, "data", "export", str(recorded), str(path))
        assert status == 2
        assert tables.NO_PARQUET in err
        return
    assert run(capsys, "data", "export", str(recorded), str(path))[0] == 0
    made = pq.read_table(path)
    field = made.schema.field("board.power_w")
    assert (field.metadata[b"unit"], field.metadata[b"provenance"]) == (b"W", b"simulated")
    assert made.num_rows > 30


def test_measured_points_are_exported_in_the_columns_that_validate_reads(tmp_path, capsys):
    point = OperatingPoint(context_tokens=1024.0)
    for machine in ("one", "two"):
        append_measurement(measurements_file(), Measurement(point, BODY, "2026-01-01T00:00:00+00:00", machine))
    path = tmp_path / "points.csv"
    assert run(capsys, "data", "export", "measurements", str(path))[0] == 0
    table = read_table(path)
    assert not table.problems
    assert [row.decode_s for row in table.rows] == [pytest.approx(0.02)] * 2
    assert [row.text["board"] for row in table.rows] == ["one", "two"]
    assert table.rows[0].extra["provenance"] == "measured"
    assert main(["data", "validate", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_compared"] == 2


@pytest.mark.parametrize("file", ["-", "points.csv"])
def test_an_export_names_the_damaged_lines(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    measurements_file().parent.mkdir(parents=True, exist_ok=True)
    measurements_file().write_text("{}\n")
    status, _, err = run(capsys, "data", "export", "measurements", file)
    assert status == 0
    assert err.startswith("measurements.jsonl: line 1: ")


# --- import -----------------------------------------------------------------------------------------------------------


def bench(tmp_path, *tests, name="bench.json"):
    path = tmp_path / name
    path.write_text(json.dumps([{**TEST, **test} for test in tests]))
    return path


def test_llama_bench_becomes_rows_that_validate_reads_with_its_unknown_keys_and_no_path(tmp_path, capsys):
    prompt = {"n_prompt": 512, "n_gen": 0, "n_depth": 0, "samples_ns": [10**10]}
    both = {"n_prompt": 512, "n_gen": 32}
    path, into = bench(tmp_path, {}, prompt, both), tmp_path / "table.csv"
    status, out, _ = run(
        capsys, "data", "import", str(path), "--into", str(into), "--board", "raspberry_pi_5", "--json"
    )
    report = json.loads(out)
    assert status == 0
    assert (report["n_read"], report["n_new"]) == (2, 2)
    assert "timed together" in report["notes"][0]
    assert "secret" not in into.read_text()
    table = read_table(into)
    assert not table.problems
    decode, first = table.rows
    assert decode.decode_s == pytest.approx(0.1)
    assert decode.number["context_tokens"] == 528
    assert decode.text["quant"] == "Q4_K_M"
    assert (decode.text["board_key"], decode.text["compute"], decode.text["runtime"]) == (
        "raspberry_pi_5",
        "cpu",
        "llama.cpp",
    )
    assert first.ttft_s == pytest.approx(10.0)
    assert decode.extra["provenance"] == "measured"
    assert decode.extra["source"] == "llama-bench, build 7000 (abc), bench.json"
    assert json.loads(decode.extra["more"])["some_new_key"] == [1, {"deep": True}]
    assert main(["data", "validate", str(into), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_compared"] == 2
    assert (
        json.loads(
            run(capsys, "data", "import", str(path), "--into", str(into), "--board", "raspberry_pi_5", "--json")[1]
        )["n_new"]
        == 0
    )


def test_a_gpu_build_is_of_the_gpu_and_layers_on_the_cpu_are_not(tmp_path, capsys):
    gpu = {"backends": "CUDA", "gpu_info": "Orin"}
    path = bench(tmp_path, gpu, {**gpu, "n_gpu_layers": 0})
    rows = json.loads(run(capsys, "data", "import", str(path), "--json")[1])["rows"]
    assert [(row["compute"], row["board_key"]) for row in rows] == [("gpu", "Orin"), ("cpu", "Cortex-A76")]


def test_the_board_of_llama_bench_may_be_named_as_people_call_it(tmp_path, capsys):
    path, words = bench(tmp_path, {}), ("--into", str(tmp_path / "table.csv"), "--json")
    for name, key in (("Raspberry Pi 5", "raspberry_pi_5"), ("RK-3588", "rk3588"), ("my own board", "my own board")):
        (row,) = json.loads(run(capsys, "data", "import", str(path), "--board", name, *words)[1])["rows"]
        assert row["board_key"] == key
    status, _, error = run(capsys, "data", "import", str(path), "--board", "Orin Nano", *words)
    assert status == 2
    assert "which may be jetson_orin_nano_4gb, jetson_orin_nano_8gb or jetson_orin_nano_8gb_super: expected" in error


def test_a_test_of_llama_bench_with_impossible_numbers_is_left_out(tmp_path, capsys):
    path = bench(tmp_path, {}, {"n_gen": -5}, {"n_depth": 10**12}, {"model_filename": None})
    report = json.loads(run(capsys, "data", "import", str(path), "--board", "raspberry_pi_5", "--json")[1])
    assert [row["model"] for row in report["rows"]] == ["TinyLlama-1.1B-Chat", "llama 1B"]
    assert [note.partition(": got")[0] for note in report["notes"][:2]] == [
        "bench.json: test 2: n_gen",
        "bench.json: test 3: context_tokens",
    ]


def test_jsonl_and_output_that_was_cut_are_read_as_far_as_they_go(tmp_path, capsys):
    lines = tmp_path / "bench.jsonl"
    lines.write_text("\n".join(json.dumps({**TEST, "n_depth": depth}) for depth in (0, 64)))
    assert json.loads(run(capsys, "data", "import", str(lines), "--json")[1])["n_read"] == 2
    whole = bench(tmp_path, {"n_depth": 1}, {"n_depth": 2}, name="whole.json").read_text()
    for cut in range(1, len(whole), 37):
        (tmp_path / "cut.json").write_text(whole[:cut])
        status, out, err = run(
            capsys, "data", "import", str(tmp_path / "cut.json"), "--json", "--into", str(tmp_path / "t.csv")
        )
        assert status in (0, 2)
        if status == 0:
            report = json.loads(out)
            assert report["n_read"] >= 1
            assert "whole ones were taken" in report["notes"][0]
        else:
            assert "holds no test" in err or "before its first whole test" in err


def test_a_csv_keeps_its_other_columns_and_says_what_is_wrong(tmp_path, capsys):
    path, into = tmp_path / "theirs.csv", tmp_path / "mine.csv"
    path.write_text(
        "board_key,compute,runtime,model,quant,decode_tok_s,colour\n"
        "rk3588,npu,rkllm,Qwen2-0.5B,w8a8,41.5,blue\n"
        "rk3588,npu,rkllm,Qwen2-0.5B,w8a8,-3,red\n"
        "\n"
        "rk3588,npu,rkllm,Qwen2-1.5B,w8a8,16,\n"
    )
    status, out, _ = run(capsys, "data", "import", str(path), "--into", str(into), "--json")
    report = json.loads(out)
    assert status == 0
    assert report["n_new"] == 2
    assert [row.get("colour") for row in report["rows"]] == ["blue", None]
    assert {row["provenance"] for row in report["rows"]} == {"published"}
    assert {row["source"] for row in report["rows"]} == {"theirs.csv"}
    assert "line 3: decode_tok_s: got '-3'" in report["notes"][0]
    assert len(read_table(into).rows) == 2
    renamed = path.rename(tmp_path / "renamed.csv")  # the same measurements
    assert json.loads(run(capsys, "data", "import", str(renamed), "--into", str(into), "--json")[1])["n_new"] == 0


def test_a_table_of_another_spelling_is_taken_as_one_of_ours(tmp_path, capsys):
    ours, theirs, into = (tmp_path / name for name in ("ours.csv", "theirs.csv", "mine.csv"))
    ours.write_text(
        "board_key,compute,runtime,model,quant,decode_tok_s,ttft_ms\nrk3588,npu,rkllm,Qwen2-0.5B,w8a8,41.5,\n"
    )
    theirs.write_text(
        "\nBoard Key;Compute;Runtime;Model;Quant;Decode tok s;TTFT ms\nrk3588;NPU;rkllm;Qwen2-0.5B;w8a8;41,50;n/a\n"
    )
    status, out, err = run(capsys, "data", "import", str(theirs), "--into", str(into))
    assert (status, "41.5 tokens/s" in out, err) == (0, True, "")
    assert json.loads(run(capsys, "data", "import", str(ours), "--into", str(into), "--json")[1])["n_new"] == 0
    (row,) = read_table(into).rows
    assert (row.number, row.ttft_s) == ({"decode_tok_s": 41.5}, None)


def test_a_table_that_cannot_be_read_is_left_as_it_is(tmp_path):
    broken = tmp_path / "t.csv"
    broken.write_bytes(b"GGUF\3\0\0\0")
    with pytest.raises(FileError, match="cannot be read as a table"):
        add_rows(broken, [{"a": "1"}])
    assert broken.read_bytes() == b"GGUF\3\0\0\0"
