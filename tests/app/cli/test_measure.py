"""The commands `measure` and `doctor`: what they print, what they refuse, and how they end."""

import importlib.util
import json
import re
import signal
import subprocess
import sys

import pytest

from app import LAUNCHER
from app.agent import board
from app.cli import main
from app.cli.doctor import examine
from app.cli.measure import _print
from app.library.measurements import Measurement, load_measurements
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import OperatingPoint, Provenance
from kernels.native.build import build
from tests.processes import running
from tests.tiny_gguf import write_tiny_gguf

KEYS = {
    *("decode_s", "ttft_s", "power_w", "energy_j_per_token", "perplexity_ratio", "top1_agreement"),
    *("tokens_per_s", "memory_byte", "mean_kl", "conditions"),
}
needs_local = pytest.mark.skipif(
    bool(board.why_no_measuring()) or not board.model_files(), reason="extra local missing"
)


@pytest.fixture(autouse=True)
def _data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))


def refused(capsys, *words):
    """Run a command that must refuse, and return its one sentence."""
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    last = captured.err.strip().splitlines()[-1]
    assert "Traceback" not in captured.err
    assert last.startswith(f"trilemma {words[0]}: ")
    return last


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--board", "toaster"), "toaster"),
        (("--model", "gpt-5"), "gpt-5"),
        (("--weights", "int7"), "int7"),
        (("--alpha", "1.0"), "alpha"),
        (("--alpha=-0.1",), "alpha"),
        (("--alpha", "abc"), "abc"),
        (("--context", "0"), "context"),
        (("--context", "1e9"), "context"),
        (("--policy", "luck"), "luck"),
    ],
)
def test_bad_points_are_refused_before_anything_starts(capsys, words, says):
    assert says in refused(capsys, "measure", *words)


@needs_local
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--board", "raspberry_pi_5"), "not attached"),
        (("--beta", "2"), "instruction set"),
        (("--bandwidth", "900GB/s"), "bandwidth"),
    ],
)
def test_what_this_machine_cannot_be_is_said(capsys, words, says):
    assert says in refused(capsys, "measure", *words)


@needs_local
def test_stages_are_printed_beside_what_the_model_says_of_them(capsys, tmp_path):
    file = str(write_tiny_gguf(tmp_path / "tiny.gguf"))
    words = ["measure", "--model-file", file, "--context", "128", "--stages"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["stages_s"]) == set(found["predicted_stages_s"])
    total_s = sum(value["median"] for value in found["stages_s"].values())
    assert total_s == pytest.approx(found["step_s"]["median"])
    assert found["request_stages_s"]["kv_build_s"]["provenance"] == "measured"
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "STAGE OF A TOKEN" in out
    assert re.search(r"peripheral +the decoder hands its tokens to nobody", out)


def test_a_model_file_that_is_none_is_refused_by_name(capsys, tmp_path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(b"GGUF\3\0\0\0" + bytes(8))
    assert "none.gguf" in refused(capsys, "measure", "--model-file", str(tmp_path / "none.gguf"))
    assert "cut.gguf" in refused(capsys, "measure", "--model-file", str(cut))
    assert "cannot be combined" in refused(capsys, "measure", "--model-file", str(cut), "--model", "smollm2-135m")


@needs_local
def test_a_point_is_measured_printed_and_saved(tmp_path):
    """The whole way: command, session, agent, worker, torch and back. The reference point costs least."""
    argv = [sys.executable, str(LAUNCHER), "measure", "--json", "--weights", "fp32", "--kv", "fp32", "--context", "16"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document.keys() >= KEYS
    for key in KEYS - {"conditions", "power_w", "energy_j_per_token"}:
        assert document[key]["provenance"] == "measured"
        low, median, high = (document[key][name] for name in ("q05", "median", "q95"))
        assert low <= median * (1 + 1e-9) <= high * (1 + 2e-9)
    assert 1e-4 < document["decode_s"]["median"] < 30
    assert document["perplexity_ratio"]["median"] == pytest.approx(1)
    assert document["top1_agreement"]["median"] == 1
    for key in ("power_w", "energy_j_per_token"):
        assert document[key].get("absent") or document[key]["median"] > 0
    assert "decode_window_s" not in document["conditions"]
    assert document["point"]["context_tokens"] == 16
    assert "generating tokens" in done.stderr  # progress
    (line,) = (tmp_path / "data" / "measurements.jsonl").read_text().splitlines()
    saved, notes = load_measurements(tmp_path / "data" / "measurements.jsonl", json.loads(line)["machine"])
    assert notes == []
    assert saved[0].output("decode_s").median == document["decode_s"]["median"]
    assert saved[0].output("decode_s").provenance is Provenance.MEASURED


@needs_local
def test_a_condition_with_a_spread_is_printed_in_figures(capsys):
    choice = {"median": 0.3087, "q05": 0.3036, "q95": 0.3139, "n": 2, "provenance": "measured"}
    point = OperatingPoint()
    _print(
        Measurement(point, {"conditions": {"choice_s": choice, "threads": 2}}, "", ""),
        predict(point, load_catalogue()),
        [],
    )
    assert "Conditions: choice s 0.309 [0.304 – 0.314], threads 2." in capsys.readouterr().out


def test_ctrl_c_cancels_and_leaves_nothing_behind(tmp_path):
    argv = [sys.executable, str(LAUNCHER), "measure", "--context", "4096", "--weights", "fp32"]
    with running(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        first = command.stderr.readline()
        assert "starting torch" in first
        with open(f"/proc/{command.pid}/task/{command.pid}/children") as file:
            pids = file.read().split()
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=120)
    assert command.returncode == 130
    assert "Traceback" not in err
    assert err.strip().endswith("trilemma measure: stopped")
    assert out == ""
    for pid in pids:
        assert subprocess.run(["/bin/kill", "-0", pid], capture_output=True, check=False).returncode != 0
    assert not (tmp_path / "data" / "measurements.jsonl").exists()


def test_doctor_reports_everything_and_ends_well(capsys):
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["python"] == ".".join(map(str, sys.version_info[:3]))
    assert report["packages"]["needed"]["numpy"]
    assert report["board"]["n_threads"] >= 1
    assert report["native"]["absent"] if isinstance(report["native"], dict) else "built by" in report["native"]
    assert report["can"]["measure"] == {"available": True} or "pip install" in report["can"]["measure"]["absent"]
    assert isinstance(report["power"], list) or report["power"]["absent"]
    for channel in report["channels"]:
        assert channel["unit"]
        assert channel.get("absent", "present") != ""
    assert any(channel["unit"] == "W" for channel in report["channels"])


def test_doctor_in_words(capsys):
    assert main(["doctor"]) == 0
    words = capsys.readouterr().out
    for name in ("display", "agent log", "cpu.busy_frac", "power", "models", "C kernels"):
        assert f"\n{name}" in words
    assert "{" not in words


def test_doctor_says_why_there_is_no_c_library(monkeypatch):
    build.cache_clear()
    monkeypatch.setenv("TRILEMMA_NATIVE", "0")
    try:
        assert examine()["native"] == {"absent": "switched off by TRILEMMA_NATIVE=0"}
    finally:
        build.cache_clear()


def test_doctor_outlives_an_agent_that_cannot_start(monkeypatch, capsys):
    def refuse():
        raise OSError(8, "Exec format error")

    monkeypatch.setattr("app.cli.doctor.LocalTransport", refuse)
    assert examine()["agent"] == {"absent": "the agent cannot start: Exec format error"}
    assert main(["doctor"]) == 0
    assert "absent: the agent cannot start" in capsys.readouterr().out


def test_without_the_extra_the_way_to_get_it_is_named(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else real(name))
    assert (
        board.why_no_measuring()
        == "torch is not installed: make run installs it, or pip install '.[local]' in its folder"
    )
    monkeypatch.setattr(board, "CHECKOUT", False)  # as in a wheel
    assert board.why_no_measuring() == "torch is not installed: pip install 'trilemma[local]' installs it"


def test_an_agent_without_kernels_reads_sensors_only(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "kernels.workload" else real(name))
    if not board.why_no_measuring().startswith("torch"):
        assert "sensors only" in board.why_no_measuring()


def test_what_was_measured_is_printed_where_it_cannot_be_saved(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "file"))
    assert main(["measure", "--attach", "sim:raspberry_pi_5,accelerate=500", "--context", "64"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"^decode_s +\d.* simulated$", printed.out, re.MULTILINE)
    assert "Not saved: " in printed.out
    assert "measurements.jsonl: cannot be read: " in printed.err


def test_a_point_is_kept_as_the_board_runs_it_and_printed_as_it_was_asked_for(capsys, tmp_path):
    words = ["measure", "--attach", "sim:raspberry_pi_5,accelerate=500", "--context", "64", "--policy", "key_norm"]
    for _ in range(2):
        assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("\n}\n")[0] + "}")["point"]["policy"] == "key_norm"
    first, second = load_measurements(tmp_path / "data" / "measurements.jsonl", None)[0]
    assert first.point.policy == OperatingPoint().policy  # without pruning it means nothing
    assert first.time_utc < second.time_utc
    assert len(first.time_utc.partition(".")[2]) == len("123+00:00")
