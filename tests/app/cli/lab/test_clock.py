"""`trilemma lab clock`: the calculators of clocks, time stamps and votes, with their golden values and refusals."""

import json

import pytest

from app.cli import main
from tests.places import RESOURCES

EXAMPLES = RESOURCES / "examples"


def said(capsys, *words):
    assert main(["lab", "clock", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_offset_of_nothing_is_zero_in_spite_of_binary_fractions(capsys):
    assert said(capsys, "offset", "0.1", "0.2", "0.3", "0.4")["offset_s"] == 0.0
    assert main(["lab", "clock", "offset", "0.1", "0.2", "0.3", "0.4"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["offset", "0", "s"]


def test_offset_and_its_hard_bound(capsys):
    found = said(capsys, "offset", "100ms", "160ms", "165ms", "125ms")
    assert found["offset_s"] == pytest.approx(0.050)  # 50 and 10 of t = 100, 160, 165, 125
    assert found["error_at_most_s"] == pytest.approx(0.010)


def test_drift_is_recovered_and_queues_do_not_move_the_hull(capsys):
    found = said(capsys, "drift", str(EXAMPLES / "clock.csv"))
    assert found["hull_drift_ppm"] == pytest.approx(20.0, abs=1e-3)
    assert found["hull_offset_s"] == pytest.approx(0.005, abs=1e-8)
    assert found["drift_ppm"] == pytest.approx(20.0, abs=0.5)
    assert found["quickest_offset_s"] == pytest.approx(0.005, abs=1e-6)
    assert found["error_at_most_s"] == pytest.approx(0.0004)


def test_drift_without_delays_has_no_bound(capsys, tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("t_s,offset_s\n" + "".join(f"{t},{0.005 + 20e-6 * t}\n" for t in range(10)))
    found = said(capsys, "drift", str(path))
    assert found["drift_ppm"] == pytest.approx(20.0)
    assert "error_at_most_s" not in found


def test_a_network_of_clocks(capsys):
    found = said(capsys, "network", str(EXAMPLES / "clocks.csv"))
    assert list(found.values()) == pytest.approx([0.0, 0.003, -0.002], abs=1e-12)


def test_the_stamp_that_ticks_every_eighteen_minutes(capsys):
    found = said(capsys, "stamp", "2026-01-01T00:00:00Z")
    assert (found["time_ns"], found["dscp"]) == (1767225600000000000, 50)
    assert found["tick_s"] == pytest.approx(1099.511627776)
    assert found["first_moment"] < "2026-01-01T00:00:00" < found["last_moment"]


@pytest.mark.parametrize(("n", "faults", "votes"), [(4, 1, 3), (7, 2, 5), (10, 3, 7), (13, 4, 9)])
def test_consensus(capsys, n, faults, votes):
    found = said(capsys, "consensus", str(n), "--mean", "12ms")
    assert (found["faults_tolerated"], found["quorum"]) == (faults, votes)
    if n == 4:
        assert found["mean_time_of_quorum_s"] == pytest.approx(0.012 * 1.0833333333)


def test_text_names_values_without_their_unit_suffix(capsys):
    assert main(["lab", "clock", "offset", "0.1", "0.16", "0.165", "0.125"]) == 0
    out = capsys.readouterr().out
    assert "offset " in out
    assert "50.0000 ms" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("offset", "1", "2", "3"), "expected four"),
        (("offset", "2", "1", "1.5", "1"), "precedes its request"),
        (("offset", "0", "1", "9", "2"), "held for longer"),
        (("offset", "x", "1", "2", "3"), "t1"),
        (("drift", "none.csv"), "none.csv: cannot be read"),
        (("stamp", "now"), "expected a UTC time"),
        (("stamp", "1960-01-01"), "got the year 1960, expected 1970 to 2261"),
        (("stamp", "9999-12-31T23:59:59.9"), "got the year 9999"),
        (("consensus", "0"), "number of nodes"),
    ],
)
def test_what_is_wrong_is_one_sentence(capsys, words, says):
    assert main(["lab", "clock", *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("text", ["", "t_s\n1\n", "t_s,offset_s\n1,2\n", "t_s,offset_s\n1,x\n"])
def test_broken_tables_are_refused(capsys, tmp_path, text):
    path = tmp_path / "broken.csv"
    path.write_text(text)
    assert main(["lab", "clock", "drift", str(path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_network_that_does_not_connect_is_refused(capsys, tmp_path):
    path = tmp_path / "apart.csv"
    path.write_text("clock,other_clock,offset_s\n0,1,0.1\n2,3,0.1\n")
    assert main(["lab", "clock", "network", str(path)]) == 2
    assert "connect" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "says"), [("", "got no rows"), ("0,1e9,0.1\n", "from 0 to 1000"), ("0,-1,1\n", "from 0")]
)
def test_a_network_without_rows_or_of_too_many_clocks_is_refused(capsys, tmp_path, rows, says):
    path = tmp_path / "clocks.csv"
    path.write_text("clock,other_clock,offset_s\n" + rows)
    assert main(["lab", "clock", "network", str(path)]) == 2
    assert says in capsys.readouterr().err


def test_a_decision_waits_for_rounds_and_hops(capsys):
    one = said(capsys, "consensus", "1", "--mean", "8ms", "--p95", "15ms")
    assert one["mean_of_decision_s"] == pytest.approx(8e-3, rel=0.02)
    assert one["p95_of_decision_s"] == pytest.approx(15e-3, rel=0.03)
    many = said(capsys, "consensus", "1", "--mean", "8ms", "--p95", "15ms", "--rounds", "3", "--hops", "2")
    assert many["mean_of_decision_s"] == pytest.approx(48e-3, rel=0.02)
    assert many["provenance"] == "simulated"
    group = said(capsys, "consensus", "10", "--mean", "8ms", "--p95", "15ms")
    assert group["quorum"] == 7
    assert one["mean_of_decision_s"] < group["mean_of_decision_s"] < group["p99_of_decision_s"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--mean", "8ms", "--p95", "1ms"), "expected a mean above 0 and a P95 above it"),
        (("--mean", "8ms", "--p95", "1s"), "q95 / mean"),
        (("--rounds", "3"), "without --p95"),
        (("--mean", "8ms", "--p95", "9ms", "--hops", "0"), "n_hops"),
    ],
)
def test_a_decision_with_senseless_delays_is_refused(capsys, words, sentence):
    assert main(["lab", "clock", "consensus", "4", *words]) == 2
    assert sentence in capsys.readouterr().err
