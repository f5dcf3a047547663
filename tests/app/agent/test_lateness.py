"""Lateness of a cyclic timer: every wake-up counts, the load ends, and each mistake is one sentence."""

import json
import math

import pytest

from app.agent import lateness
from app.agent.lateness import Lateness, measured
from app.cli import main
from tests.places import RESOURCES


def test_every_wake_up_counts_and_none_is_early():
    found = measured(1e-3, 0.05)
    assert len(found.late_s) == 50
    assert found.late_s == sorted(found.late_s)
    assert found.late_s[0] >= 0
    assert found.n_load == 0


def test_a_moment_that_has_passed_is_late_by_the_time_since_it(monkeypatch):
    clock = iter([0, 0, 0, 5_000_000, 6_000_000, 7_000_000, 8_000_000])
    monkeypatch.setattr(lateness.time, "monotonic_ns", lambda: next(clock))
    monkeypatch.setattr(lateness.time, "sleep", lambda _: next(clock))
    late, n_missed = lateness._wake_ups(1_000_000, 2)  # due at 1 ms and 2 ms; awake at 5 ms, then at 7 ms
    assert late == pytest.approx([4e-3, 5e-3])
    assert n_missed == 1


def test_quantiles_need_enough_wake_ups():
    found = Lateness([i / 1e3 for i in range(100)], 0, 0)
    assert found.quantile_s(0.5) == 0.05
    assert found.quantile_s(0.99) == 0.099
    assert found.quantile_s(0.999) is None


def test_the_load_runs_while_it_measures_and_ends(monkeypatch):
    started = []
    start = lateness._started
    monkeypatch.setattr(lateness, "_started", lambda n, s: started.append(start(n, s)) or started[0])
    measured(1e-3, 0.02, 1)
    assert [process.poll() is not None for process in started[0]] == [True]


def test_the_command_prints_both_runs_beside_the_analysis(capsys):
    path = str(RESOURCES / "examples" / "realtime.toml")
    assert main(["lab", "realtime", path, "--measure", "--period", "2ms", "--seconds", "40ms", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    timer = found["lateness"]
    assert (timer["provenance"], timer["unloaded"]["n"], timer["loaded"]["n"]) == ("measured", 20, 20)
    assert math.isfinite(timer["loaded"]["most_s"])
    assert "1000 wake-ups" in timer["loaded"]["p99_9_s"]["absent"]
    assert [row["task"] for row in timer["jitter"]] == [row["name"] for row in found["tasks"]]
    assert main(["lab", "realtime", "--measure", "--period", "2ms", "--seconds", "10ms", "--load", "1"]) == 0
    assert "load on 1 processor" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "expected one, or --measure"),
        (["--measure", "--period", "1"], "expected a number and its unit"),
        (["--measure", "--period", "1us"], "expected 100 µs to 1 s"),
        (["--measure", "--period", "nan"], "expected a number"),
        (["--measure", "--seconds", "1h"], "seconds"),
        (["--measure", "--seconds", "100s"], "60 s"),
        (["--measure", "--load", "0"], "load: got 0"),
        (["--measure", "--load", "100000"], "load: got 100000"),
    ],
)
def test_a_mistake_is_one_sentence(words, said, capsys):
    assert main(["lab", "realtime", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
