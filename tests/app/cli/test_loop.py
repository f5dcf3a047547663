"""``trilemma loop``: the state of a board that is followed, and rounds of measurements."""

import json

from app.cli import main


def test_rounds_are_measured_and_followed(capsys):
    target = "sim:raspberry_pi_5,accelerate=200"
    assert main(["loop", "--attach", target, "--json"]) == 0
    assert "nothing to follow" in json.loads(capsys.readouterr().out)["absent"]
    assert main(["loop", "--attach", target, "--rounds", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["rounds"]) == 3
    assert found["n_measurements"] == 3
    assert (found["alarm"], found["drifting"]) == (None, False)
    assert set(found["terms"]) == {"bandwidth", "compute", "launch", "clock"}
    assert all(abs(one["error_after_frac"]) < 0.05 for one in found["rounds"])
    assert main(["loop", "--attach", target]) == 0
    assert capsys.readouterr().out.startswith("No drift: the board runs as calibrated; 3 measurements followed.")


def test_wrong_numbers_are_refused(capsys):
    for argv in (["--rounds", "-1"], ["--every", "nan"], ["--every", "-2"], ["--every", "1e308"]):
        assert main(["loop", *argv]) == 2
        assert "expected 0 or more" in capsys.readouterr().err
