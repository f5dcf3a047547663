"""What is known of boards that are not attached: by the name they had when they were, and from imported tables."""

import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from app import LAUNCHER
from app.cli import main
from app.client.target import open_target
from app.library.board_library import BoardLibrary
from app.library.files import data_dir
from app.library.machine import machine_key, this_machine
from app.library.measurements import load_measurements, measurements_file
from app.library.other_boards import imported, imported_file
from app.library.records import point_record
from app.model.attached_board import AttachedBoard
from app.model.boards import session_of
from app.model.conductor import Conductor
from app.model.store import Store
from app.text.quantities import LATENCY
from app.views.widgets.curve_data import curve_data
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint, Provenance

CATALOGUE = load_catalogue()
HELLO = {"board": {"cpu": "A76", "n_threads": 4, "name": "A board", "id": "7"}, "models": []}
HEADING = "board_key,compute,runtime,model,model_key,quant,kv_quant,context_tokens,decode_ms_per_tok,ttft_ms"
HEADING += ",prompt_tokens,provenance,source,decode_ms_per_tok_q05,decode_ms_per_tok_q95,n_repeats\n"

BENCH = """#!{python}
import json, sys
def given(name):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else 0
prompt, gen, depth = given("-p"), given("-n"), given("-d")
s = 0.05 * gen + 1e-6 * gen * depth + 0.004 * prompt
print(json.dumps([{{"n_prompt": prompt, "n_gen": gen, "n_depth": depth, "n_threads": 4, "model_type": "llama 1B Q4_K_M",
    "model_filename": "llama-3.2-1b-q4_k_m.gguf", "samples_ns": [int(s * f * 1e9) for f in (0.99, 1.0, 1.01)]}}]))
"""
POINT = ("--runtime", "llamacpp_cpu", "--model", "llama-3.2-1b", "--weights", "q4_k_m", "--kv", "fp16")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    return tmp_path


def opened():
    return BoardLibrary(data_dir(), pytest.fail)


def told(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def trilemma(folder, *words):
    env = {**os.environ, "TRILEMMA_DATA_DIR": str(folder)}
    argv = [sys.executable, str(LAUNCHER), *words]
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


@pytest.fixture
def desk(ssh_server):
    """A host of the tests' ssh server whose user has configured a llama-bench."""
    home = ssh_server.folder / "desk"
    bench = home / "llama-bench"
    bench.write_text(BENCH.format(python=sys.executable))
    bench.chmod(bench.stat().st_mode | stat.S_IXUSR)
    entry = {"runtime": "llamacpp_cpu", "kind": "llama-bench", "model": "llama-3.2-1b", "argv": [str(bench)]}
    file = home / ".config" / "trilemma" / "runtimes.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([{**entry, "name": "llama-3.2-1b-q4_k_m.gguf"}]))
    yield ssh_server
    file.unlink()


def test_a_board_calibrated_over_ssh_is_listed_predicted_by_name_and_known_at_the_next_attach(
    here, desk, capsys, qtbot
):
    config = ("--ssh-config", str(desk.config))
    done = trilemma(here, "calibrate", "--attach", "desk", *config, *POINT, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["points"]) == 3

    (listed,) = told(capsys, "calibrate", "--list")
    assert (listed["board"], listed["runtime"], listed["n_points"]) == ("desk", "llamacpp_cpu", 3)
    assert listed["provenance"] == ["measured"]
    (board,) = told(capsys, "boards", "desk")
    assert board["measured"] == [listed]

    predicted = told(capsys, "predict", "--board", "desk", *POINT, "--context", "2048")
    assert predicted["decode_s"]["provenance"] == "calibrated"
    assert predicted["decode_s"]["median"] == pytest.approx(0.052, rel=0.02)
    assert re.match(r"measurements at 3 points, the last of 20", predicted["basis"])
    here_ = told(capsys, "predict", "--board", "this", *POINT, "--context", "2048")
    assert here_["decode_s"]["provenance"] == "predicted"
    explained = told(capsys, "explain", "--board", "desk", *POINT)
    assert explained["evidence"]["calibrated_on"] == predicted["basis"]

    store = Store(CATALOGUE)
    store.set("auto_measure", False)
    point = replace(store.point, runtime="llamacpp_cpu", model="llama-3.2-1b", weights="q4_k_m", kv="fp16")
    store.set("point", replace(point, context_tokens=2048.0))
    target = open_target("desk", ssh_config=desk.config)
    conductor = Conductor(store, session_of(open_target("this")), opened())
    conductor.attach(session_of(target), target.name, target.text)
    try:
        qtbot.waitUntil(lambda: store.calibration is not None)
        assert store.calibration.posterior.n_decode == 3
        assert store.prediction.decode_s.median == pytest.approx(predicted["decode_s"]["median"])
        assert store.measured("decode_s").median == pytest.approx(0.052, rel=0.02)
    finally:
        conductor.stop()


def test_a_recording_gives_its_runs_to_the_board_that_it_is_of(here, capsys):
    done = trilemma(here / "a", "calibrate", "--attach", "sim:rk3588,accelerate=100", "--json")
    assert done.returncode == 0, done.stderr
    saved, _ = load_measurements(here / "a" / "measurements.jsonl", None)
    from app.client.recorder import Recorder
    from app.model.recorder_controls import measured_message

    made = Recorder(here / "night.trilemma")
    made.note({"op": "hello", "protocol": 1, "agent": "1", "t_ns": 0, "can": {}, **HELLO})
    made.note({"op": "catalogue", "channels": [], "rate_hz": 10})
    for measurement in saved:
        made.note(measured_message(measurement))
    made.close()
    fitted = told(capsys, "calibrate", "--fit-only", "--attach", str(here / "night.trilemma"))
    assert len(fitted["points"]) == len(json.loads(done.stdout)["points"])
    found = told(capsys, "data", "import", str(here / "night.trilemma"), "--board", "lab")
    assert (found["board"], found["n_read"], found["n_new"]) == ("lab", len(saved), len(saved))
    assert told(capsys, "data", "import", str(here / "night.trilemma"))["n_new"] == 0
    assert {m.machine for m in load_measurements(measurements_file(), None)[0]} == {machine_key(HELLO)}
    assert told(capsys, "predict", "--board", "lab")["decode_s"]["provenance"] == "calibrated"
    assert [one["board"] for one in told(capsys, "calibrate", "--list")] == ["lab"]


def test_a_run_in_a_recording_is_of_the_format_that_ran(here, capsys):
    from app.client.recorder import Recorder
    from app.client.recording import Recording
    from app.library.recorded import measured

    value = {"median": 0.05, "q05": 0.049, "q95": 0.051, "n": 47, "provenance": "measured"}
    asked = OperatingPoint(runtime="llamacpp_cpu", model="llama-3.2-1b", weights="q4_0", kv="fp16")
    request = {"op": "measure", "point": point_record(asked), "what": ["decode"]}
    made = Recorder(here / "night.trilemma")
    made.note({"op": "hello", "protocol": 1, "agent": "1", "t_ns": 0, "can": {}, **HELLO})
    made.note({"op": "catalogue", "channels": [], "rate_hz": 10})
    for applied in ({}, {"weights": "Q4_K - Medium"}, {"weights": "ZZ9 plural"}):
        body = {"decode_s": value, "applied": applied}
        made.note({"op": "measured", "request": request, "body": body, "time_utc": "2026-11-01T00:00:00+00:00"})
    made.close()
    with Recording(here / "night.trilemma") as recording:
        found, _, notes = measured(recording, CATALOGUE)
    assert [m.point.weights for m in found] == ["q4_0", "q4_k_m", "zz9_plural"]
    assert notes == []


def test_a_target_with_the_key_of_a_board_gets_another():
    opened().remember_target("rk3588", HELLO)
    opened().remember_target("this", HELLO)
    opened().remember_target("night.trilemma", {**HELLO, "recording": {"file": "night"}})
    (known,) = opened().boards().values()
    assert (known.key, known.machine) == ("ssh://rk3588", machine_key(HELLO))
    opened().set_bandwidth(known.machine, {"median": 9e9, "q05": 8e9, "q95": 10e9})
    board = opened().catalogue().boards["ssh://rk3588"]
    assert board.power_modes["default"].bandwidth_byte_s == 9e9
    assert board.name == "ssh://rk3588: A board"


def test_a_target_is_the_machine_that_was_attached_as_it_last():
    other = {**HELLO, "board": {**HELLO["board"], "cpu": "another"}}
    for target, hello in (("orin", HELLO), ("lab", HELLO), ("orin", other)):
        opened().remember_target(target, hello)
    known, lab = opened().boards().values()
    assert (known.key, lab.key) == ("orin", "lab")
    assert (known.machine, lab.machine) == (machine_key(other), machine_key(HELLO))
    assert [list(document.targets) for document in opened().machines().values()].count(["orin"]) == 1


def table(path, *rows):
    path.write_text(HEADING + "".join(f"{row}\n" for row in rows))
    return path


PI = "raspberry_pi_5,cpu,llama.cpp,Llama 3.2 1B,llama-3.2-1b,Q4_K_M,f16"
"""The beginning of a row."""


def test_imported_rows_are_measurements_at_their_points_with_their_quantiles(here):
    file = table(
        here / "t.csv",
        f"{PI},64,95,,,measured,bench.json,94,97,5",
        f"{PI},256,,900,512,measured,bench.json,,,3",
        f"{PI},64,80,,,published,a table,,,",
    )
    found, notes = imported(file, CATALOGUE, {})
    assert notes == []
    decode, first, other = found
    assert (decode.point.board, decode.point.runtime, decode.point.model) == (
        "raspberry_pi_5",
        "llamacpp_cpu",
        "llama-3.2-1b",
    )
    assert (decode.point.weights, decode.point.kv, decode.point.context_tokens) == ("q4_k_m", "fp16", 64)
    assert decode.body["decode_s"] == {
        "median": pytest.approx(0.095),
        "q05": pytest.approx(0.094),
        "q95": pytest.approx(0.097),
        "n": 5,
        "provenance": "measured",
    }
    assert first.point.context_tokens == 512
    assert first.output("ttft_s").median == 0.9
    assert other.output("decode_s").provenance == Provenance.PUBLISHED
    assert decode.body["source"] == "bench.json"


def test_a_run_on_the_cores_of_a_board_with_an_npu_calibrates_them(here, capsys):
    file = table(here / "imported.csv", PI.replace("raspberry_pi_5", "rk3588") + ",64,95,,,measured,bench.json,94,97,5")
    (found,), notes = imported(file, CATALOGUE, {})
    assert (found.point.board, found.point.runtime, notes) == ("rk3588", "llamacpp_cpu", [])
    where = ("--board", "rk3588", "--runtime", "llamacpp_cpu", "--model", "llama-3.2-1b", "--weights", "q4_k_m")
    decode = told(capsys, "predict", *where, "--context", "64")["decode_s"]
    assert decode["provenance"] == "calibrated"
    assert decode["q05"] < 0.095 < decode["q95"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (PI.replace("raspberry_pi_5", "EPYC") + ",64,95,,,measured,,,,", "line 2: board: got 'EPYC'"),
        (PI.replace(",cpu,", ",gpu,") + ",64,95,,,measured,,,,", "ran on the gpu of raspberry_pi_5, which decodes on"),
        (PI.replace("llama-3.2-1b", "").replace("3.2 1B", "9 XL") + ",64,95,,,,,,,", "is not in the catalogue"),
        (f"{PI},9999999,95,,,measured,,,,", "expected at most"),
    ],
)
def test_a_row_that_is_no_point_is_left_out_with_the_reason(here, row, why):
    found, (note,) = imported(table(here / "t.csv", row), CATALOGUE, {})
    assert found == []
    assert why in note


def test_imported_prompts_teach_a_board_whose_compute_rate_nobody_states(here, capsys):
    board = next(b for b in CATALOGUE.boards.values() if b.key == "raspberry_pi_4")
    assert all(mode.compute_op_s is None for mode in board.power_modes.values())
    where = ("--board", board.key, "--runtime", "llamacpp_cpu", "--weights", "q4_k_m", "--context", "512")
    assert "no source states" in told(capsys, "predict", *where, "--model", "llama-3.2-1b")["ttft_s"]["absent"]
    common = {"n_threads": 4, "type_k": "f16", "type_v": "f16", "backends": "CPU", "model_type": "llama 1B Q4_K_M"}
    tests = [
        {
            **common,
            "model_filename": f"m/{model}-q4_k_m.gguf",
            "n_prompt": 512,
            "n_gen": 0,
            "samples_ns": [int(s * 1e9)],
        }
        for model, s in (("llama-3.2-1b", 20.0), ("llama-3.2-3b", 56.0))
    ]
    (here / "speed.json").write_text(json.dumps(tests))
    assert told(capsys, "data", "import", str(here / "speed.json"), "--board", board.key)["n_new"] == 2
    for model, seconds in (("llama-3.2-1b", 20.0), ("llama-3.2-3b", 56.0), ("qwen2.5-1.5b", 26.0)):
        ttft = told(capsys, "predict", *where, "--model", model)["ttft_s"]
        assert ttft["provenance"] == "calibrated"
        assert ttft["median"] == pytest.approx(seconds, rel=0.15)
        assert ttft["q05"] < seconds < ttft["q95"] < 2.5 * ttft["q05"]


def test_llama_bench_of_a_board_calibrates_it_and_stands_on_its_curve(here, capsys, qapp):
    tests = [
        {
            "n_prompt": 0,
            "n_gen": 128,
            "n_depth": depth,
            "n_threads": 4,
            "type_k": "f16",
            "type_v": "f16",
            "backends": "CPU",
            "model_filename": "m/llama-3.2-1b-q4_k_m.gguf",
            "model_type": "llama 1B Q4_K_M",
            "samples_ns": [int(128 * s * 1e9) for s in (0.199, 0.2, 0.201)],
        }
        for depth in (0, 448)
    ]
    (here / "speed.json").write_text(
        json.dumps([*tests, *({**test, "model_filename": "Hal-9.gguf", "model_n_params": 7e9} for test in tests)])
    )
    before = told(capsys, "predict", "--board", "raspberry_pi_5", *POINT, "--context", "512")
    found = told(capsys, "data", "import", str(here / "speed.json"), "--board", "raspberry_pi_5")
    assert found["n_new"] == 4
    (note,) = found["notes"]
    assert note.startswith("In the table only: rows 3, 4: model: got 'Hal-9', expected one of")
    after = told(capsys, "predict", "--board", "raspberry_pi_5", *POINT, "--context", "512")
    assert before["decode_s"]["median"] < 0.12
    assert after["decode_s"]["median"] == pytest.approx(0.2, rel=0.03)
    assert after["basis"].startswith("2 imported values (llama-bench, speed.json), and ")
    assert before["basis"] in after["basis"]  # what was published of it still counts

    store = Store(CATALOGUE)
    conductor = Conductor(store, session_of(open_target("this")), opened())
    elsewhere = opened().measurements(CATALOGUE, "a machine")[1]
    store.set_machine("a machine", [], "", elsewhere=elsewhere)
    point = replace(store.point, board="raspberry_pi_5", runtime="llamacpp_cpu", model="llama-3.2-1b")
    store.set("point", replace(point, weights="q4_k_m", kv="fp16", context_tokens=512.0))
    store.set("axis", "point.context")
    data = curve_data(store, LATENCY)
    assert len(data.dots[0]) == 0
    x, median, *_ = data.elsewhere[Provenance.MEASURED]
    np.testing.assert_allclose(10**x, [64, 512])
    np.testing.assert_allclose(median, 0.2)
    assert "measured elsewhere 200" in data.reading(float(x[1]), 0.2)
    assert "2 measured elsewhere" in data.description()
    store.set("axis", "point.alpha")
    assert len(curve_data(store, LATENCY).elsewhere[Provenance.MEASURED][0]) == 1
    while conductor.fitting.running:  # since the point was set
        conductor.fitting.join()
        conductor._drain()
    assert store.prediction.decode_s.median == pytest.approx(0.2, rel=0.03)
    assert store.calibration.posterior.basis == after["basis"]
    conductor.stop()


def test_imported_rows_count_under_every_name_of_their_machine():
    library = opened()
    library.remember_target("orin", HELLO)
    row = PI.partition(",")[2] + ",64,95,,,measured,,,,"
    table(imported_file(), f"orin,{row}", f"this,{row.replace('95', '50')}", PI + ",64,80,,,measured,,,,")

    def boards(machine):
        found = library.measurements(library.catalogue(), machine)[1]
        return [(m.point.board, m.output("decode_s").median) for m in found]

    pi = ("raspberry_pi_5", 0.08)
    assert boards(machine_key(HELLO)) == [("this", 0.095), ("orin", 0.095), pi]
    assert boards(this_machine()) == [("orin", 0.095), ("this", 0.05), pi]
    assert boards("another") == [("orin", 0.095), pi]


def test_an_attached_board_is_this_also_where_its_name_was_chosen(qapp):
    opened().remember_target("orin", HELLO)
    store = Store(CATALOGUE)
    board = AttachedBoard(store, opened())
    board.meet("", {"board": {"cpu": "another"}}, "")
    assert "orin" in store.catalogue.boards
    store.set("point.board", "orin")
    board.meet("orin", HELLO, "")
    assert store.point.board == "this"


def test_a_runtime_that_nobody_knows_counts_as_another_one(here):
    table = here / "imported.csv"
    line = "Raspberry Pi 5,cpu,MNN 3.0,Llama-3.2-1B,llama-3.2-1b,{},,1024,120,,,published,somebody,,,\n"
    table.write_text(HEADING + line.format("Q4_K - Medium") + line.format("FP16 or Q8_0"))
    (found,), notes = imported(table, CATALOGUE, {})
    assert (found.point.board, found.point.runtime, found.point.weights) == ("raspberry_pi_5", "other_cpu", "q4_k_m")
    assert len(notes) == 1
    assert "names formats of different bits" in notes[0]
