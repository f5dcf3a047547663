"""`bench kernels` and `bench decoder`: a process of their own, options where they mean something, honest tables."""

import json
import subprocess
import sys

import pytest

from app.cli import main
from app.cli.bench.decoder import show_decoder
from app.cli.bench.kernels import measure_kernels, show_kernels
from tests.places import ROOT

ABSENT = {"absent": "not quiet enough: something else ran during 60% of the repeats"}
ROW = {
    "name": "linear int8", "variant": "native", "shape": [4096, 4096], "dtype": "int8", "us": 688.1, "gb_s": 24.4,
    "read_share": 0.941, "quiet": 1.0, "goal": 0.9, "holds": True,
}  # fmt: skip


def trilemma(*words, **environment):
    import os

    return subprocess.run(
        [sys.executable, str(ROOT / "trilemma.py"), *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_a_name_that_is_none_ends_the_child_and_the_command_with_one_sentence():
    done = trilemma("bench", "kernels", "nonsense", "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("trilemma bench: names: got nonsense, expected some of ")
    assert "linear" in line


def test_a_subject_comes_back_from_the_child_as_one_document():
    done = trilemma("bench", "kernels", "prefill/int4", "--quick", "--json", TRILEMMA_AUTOTUNE="0")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert rows
    for row in rows:
        assert {"name", "variant", "shape", "dtype", "us", "gb_s", "read_share", "quiet", "goal", "holds"} <= set(row)
        assert row["us"]["absent"] if isinstance(row["us"], dict) else row["us"] > 0
    assert {row["dtype"] for row in rows} == {"int4"}
    assert "product of a prompt" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["bench", "engine", "--quick"], "engine: got --quick, expected no such option"),
        (["bench", "decoder", "linear"], "decoder: got linear, expected no such option"),
        (["bench", "decoder", "--device", "cuda"], "decoder: got --device, expected no such option"),
        (["bench", "kernels", "--against-llama"], "kernels: got --against-llama, expected no such option"),
    ],
)
def test_options_of_another_subject_are_refused(words, says, capsys):
    assert main(words) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--quick", "linear", "prefill"], ["linear", "prefill", "--quick"], ["linear", "--quick", "prefill"]]
)
def test_options_stand_before_between_and_after_the_names(words, monkeypatch, capsys):
    monkeypatch.setattr(
        "app.cli.bench.kernels.measure_kernels", lambda names, quick, device: [{"names": names, "quick": quick}]
    )
    assert main(["bench", "kernels", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"names": ["linear", "prefill"], "quick": True}]


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("gpu", "got 'gpu', expected cpu, cuda or cuda:N"),
        ("cuda:", "got 'cuda:', expected cpu, cuda or cuda:N"),
        ("cuda:99", "got cuda:99, expected "),
    ],
)
def test_a_device_that_is_not_there_is_one_sentence(device, says, monkeypatch, capsys):
    monkeypatch.setenv("TRILEMMA_BENCH_CHILD", "1")  # here, not in a process of its own
    assert main(["bench", "kernels", "linear", "--device", device]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"trilemma bench: device: {says}")


@pytest.mark.parametrize(("device", "is_kept"), [(None, True), ("cpu", True), ("cuda:1", False)])
def test_only_what_the_cpu_reaches_becomes_the_prior_of_this_machine(device, is_kept, monkeypatch, tmp_path):
    started = []
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    monkeypatch.setattr("app.cli.bench.kernels.in_own_process", lambda words, measure: started.append(words) or [ROW])
    assert measure_kernels(["linear"], quick=True, device=device) == [ROW]
    assert started == [["bench", "kernels", "linear", "--device", device or "cpu", "--quick"]]
    assert (tmp_path / "boards").exists() == is_kept


def test_missing_packages_are_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr("app.agent.board.why_no_measuring", lambda: "torch is not installed: make run installs it")
    assert main(["bench", "kernels"]) == 2
    assert capsys.readouterr().err == "trilemma bench: torch is not installed: make run installs it\n"


def test_the_table_of_kernels(capsys):
    absent = {
        **ROW,
        "variant": "torch",
        "us": ABSENT,
        "gb_s": ABSENT,
        "read_share": ABSENT,
        "quiet": 0.4,
        "holds": None,
    }
    trap = {**ROW, "variant": "torch mv", "goal": None, "holds": None, "trap": True}
    faster = {**ROW, "name": "pruned attention", "goal": 2.37, "speedup": 2.1, "holds": False}
    show_kernels([ROW, absent, trap, faster])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == "linear int8 native 4096x4096 688.1 24.4 94% 100% 90% holds"
    assert lines[2] == "linear int8 torch 4096x4096 absent absent absent 40% 90%"
    assert lines[3] == "linear int8 torch mv 4096x4096 688.1 24.4 94% 100% trap"
    assert lines[4] == "pruned attention native 4096x4096 688.1 24.4 94% 100% 2.37x, is 2.10x missed"
    assert lines[-1] == f"linear int8, torch, 4096x4096: {ABSENT['absent']}."


def test_the_table_of_tokens(capsys):
    record = {"median": 0.005, "q05": 0.004, "q95": 0.006, "n": 48, "provenance": "measured"}
    rows = [{"who": who, "context_tokens": 256, "decode_s": record, "quiet": 1.0} for who in ("ours", "llama.cpp")]
    perplexity = {"ours": 17.62, "llama.cpp": 17.55}
    show_decoder({"rows": rows, "perplexity": perplexity, "conditions": {"weights": "int4", "threads": 2}})
    out = capsys.readouterr().out
    assert " ".join(out.splitlines()[1].split()) == "ours 256 5.00 4.00 6.00 200.0 48"
    assert "Perplexity 17.6200, llama.cpp 17.5500, ratio 1.0040." in out
    assert "Conditions: weights int4, threads 2." in out
