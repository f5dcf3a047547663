"""`trilemma lab fit`: curves through two columns of a table, by values that are known, and its refusals."""

import json
import math

import pytest

from app.cli import main


@pytest.fixture
def table(tmp_path):
    def write(heading, rows):
        path = tmp_path / "t.csv"
        path.write_text("\n".join([heading, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
        return str(path)

    return write


def fitted(capsys, *words):
    assert main(["lab", "fit", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_knee_is_found_where_it_is(table, capsys):
    path = table("alpha,ppl", [(i / 10, 12 + 8 * max(i / 10 - 0.5, 0) + 0.01 * (-1) ** i) for i in range(9)])
    found = fitted(capsys, path)
    assert (found["x"], found["y"], found["n_points"]) == ("alpha", "ppl", 9)
    assert found["knee"]["q05"] < 0.5 < found["knee"]["q95"]
    assert found["knee"]["x"] == pytest.approx(0.5, abs=0.01)
    assert found["knee"]["slope_after"] == pytest.approx(8.0, abs=0.1)
    assert main(["lab", "fit", path]) == 0
    assert "Knee: 0.5" in capsys.readouterr().out


def test_a_decay_and_a_polynomial_are_recovered_at_any_place(table, capsys):
    def curve(x):
        return 1 + 2 * x - x**2 + 0.5 * math.exp(-3 * x)

    path = table("name,y,x", [("a", curve(i / 8), i / 8) for i in range(9)])
    found = fitted(capsys, path, "--x", "x", "--y", "y", "--at", "0.3", "--ridge", "0")
    assert found["decay"]["rate"] == pytest.approx(3.0, rel=1e-5)
    assert found["decay"]["amplitude"] == pytest.approx(0.5, rel=1e-4)
    assert found["decay"]["y_at"] == pytest.approx(curve(0.3), rel=1e-6)
    assert found["polynomial"]["y_at"] == pytest.approx(curve(0.3), rel=1e-3)
    assert found["polynomial"]["extrapolated"] is False
    assert fitted(capsys, path, "--x", "x", "--y", "y", "--at", "2")["decay"]["extrapolated"] is True


def test_few_points_tell_neither_a_knee_nor_an_error(table, capsys):
    found = fitted(capsys, table("x,y", [(60.0, 12.39), (62.3, 12.41), (65.0, 13.23)]), "--degree", "2", "--ridge", "0")
    assert "3 points" in found["knee"]["absent"]
    assert "3 points" in found["decay"]["absent"]
    assert "no point tells its error" in found["polynomial"]["leave_one_out_rmse"]["absent"]


@pytest.mark.parametrize(
    ("heading", "rows", "words", "sentence"),
    [
        ("x,y", [], (), "x: got 0 different values, expected at least 2"),
        ("x,y", [(1, 2), (1, 3)], (), "x: got 1 different values, expected at least 2"),
        ("x", [(1,), (2,)], (), "got columns x, expected at least two"),
        ("x,y", [(1, 2), (2, "nan")], (), "line 3"),
        ("x,y", [(1, 2), (2, 3)], ("--y", "z"), "expected one named z"),
        ("x,y", [(1, 2), (2, 3)], ("--degree", "0"), "degree"),
        ("x,y", [(1, 2), (2, 3)], ("--ridge", "nan"), "ridge: got nan, expected a finite number"),
        ("x,y", [(1, 2), (2, 3)], ("--ridge", "-1"), "ridge"),
    ],
)
def test_a_table_that_cannot_be_fitted_is_refused_in_one_sentence(table, capsys, heading, rows, words, sentence):
    assert main(["lab", "fit", table(heading, rows), *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert len(err.splitlines()) == 1
