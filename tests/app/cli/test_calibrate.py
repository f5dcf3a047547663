import json
from contextlib import AbstractContextManager

import numpy as np
import pytest

from app.cli import calibrate as command
from app.cli import main
from app.client.blocking_session import LinkError
from app.library import board_library
from app.library.calibration import plan
from app.library.measurements import Measurement, append_measurement, load_measurements, measurements_file
from core.calibrate.fit import N_PLAN, PLAN_ROUNDS
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import OperatingPoint

HELLO = {
    "board": {"cpu": "a processor", "n_threads": 2},
    "can": {"measure": True, "bandwidth": True, "torch": "2"},
    "models": [{"file": "a.gguf", "byte": 1}],
}


def record(median, n=30):
    return {"median": median, "q05": 0.99 * median, "q95": 1.01 * median, "n": n, "provenance": "measured"}


class Board(AbstractContextManager):
    """An attached board whose runs take 1.4 times what is predicted without measurements, give or take 1 %."""

    def __init__(self, open_transport):
        self.hello = HELLO
        self.rng = np.random.default_rng(0)
        self.asked = []

    def __exit__(self, *error):
        return None

    def bandwidth(self, on_progress):
        return {"read_byte_s": record(40e9)}

    def measure(self, point, what, on_progress, *, model_file=None, options=None):
        on_progress(0.5, "generating tokens")
        self.asked.append(point)
        there = predict(OperatingPoint(**point), load_catalogue())
        slower = 1.4 * np.exp(self.rng.normal(0, 0.01, 2))
        conditions = {}
        if options == {"probed": 1}:
            left = np.exp(self.rng.normal(0, 0.1))
            slower[0] /= left**0.6
            conditions["read_byte_s"] = record(float(40e9 * left))
        if point["reselect_tokens"]:
            choice_s = there.parts_s["reselection"] * point["reselect_tokens"] * slower[0]
            conditions["choice_s"] = record(float(choice_s))
        return {
            "conditions": conditions,
            "decode_s": record(float(there.decode_s.median * slower[0])),
            "ttft_s": record(float(there.ttft_s.median * slower[1]), 1),
            "mean_kl": {**record(0.02), "n": 256},
            "top1_agreement": {**record(0.93), "n": 256},
        }


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(command, "AttachedBoard", Board)


def calibrated(capsys, *words):
    assert main(["calibrate", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_measures_a_handful_and_says_how_good_it_is(capsys):
    found = calibrated(capsys)
    assert 6 <= len(found["points"]) <= 10
    assert found["bandwidth_byte_s"] == 40e9
    check = found["leave_one_out"]
    assert check.keys() == {"n", "median_error_frac", "p90_error_frac", "coverage_frac", "r2"}
    assert 0 < check["median_error_frac"] < 0.5
    assert found["parameters"]["t_layer_s"]["unit"] == "s"
    for parameter in found["parameters"].values():
        assert parameter["q05"] <= parameter["median"] <= parameter["q95"]
        assert parameter["verdict"]
    assert found["next"]["point"]["board"] == "this"
    assert "narrows" in found["next"]["why"]


def test_measurements_are_kept_and_used_again(capsys):
    first = calibrated(capsys)
    second = calibrated(capsys)
    assert len(second["points"]) == len(first["points"])  # repeats stand for one point
    assert len(calibrated(capsys, "--fresh")["points"]) == len(first["points"])
    before = measurements_file().read_bytes()
    assert len(calibrated(capsys, "--fit-only")["points"]) == len(first["points"])
    assert measurements_file().read_bytes() == before
    machine = "a processor, 2 threads, torch 2, a.gguf of 1 byte"
    assert len(load_measurements(measurements_file(), machine)[0]) == 3 * PLAN_ROUNDS * len(first["points"])


def test_grid_shows_the_published_formula_beside(capsys):
    found = calibrated(capsys, "--grid", "--fresh")
    assert len(found["points"]) == len(found["modes"]["1 thread"]["points"]) == 32
    assert found["leave_one_out_all_modes"]["n"] == 64
    assert found["leave_one_out_all_modes"]["median_error_frac"] < 0.03
    assert found["leave_one_out_all_modes"]["p90_error_frac"] < 0.08
    assert found["leave_one_out_reselection"]["n"] == 12  # of those of one mode that choose anew
    assert found["leave_one_out_reselection"]["median_error_frac"] < 0.1
    assert found["published_formula_fitted"]["n"] == 32
    assert found["published_formula_fitted"]["median_error_frac"] > 0.3


def test_grid_keeps_no_answer_to_what_it_did_not_ask(capsys):
    calibrated(capsys, "--grid")
    machine = "a processor, 2 threads, torch 2, a.gguf of 1 byte"
    for measurement in load_measurements(measurements_file(), machine)[0]:
        assert "median" in measurement.body["decode_s"]
        assert not {"ttft_s", "top1_agreement"} & measurement.body.keys()


def test_text_names_parameters_errors_and_the_next_point(capsys):
    assert main(["calibrate"]) == 0
    captured = capsys.readouterr()
    for words in ("effective bandwidth of int8 weights", "published formula", "IN 90 % INTERVAL", "Next: "):
        assert words in captured.out
    assert "run 1 of" in captured.err


def test_nothing_measured_yet_is_one_sentence(capsys):
    assert main(["calibrate", "--fit-only"]) == 2
    assert capsys.readouterr().err == (
        "trilemma calibrate: nothing was measured on this machine yet: expected a run without --fit-only first\n"
    )


def test_contradictory_options_are_one_sentence(capsys):
    assert main(["calibrate", "--fit-only", "--fresh"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        (
            {**HELLO, "can": {"measure": {"absent": "torch is not installed"}, "bandwidth": True}},
            "torch is not installed",
        ),
        ({**HELLO, "can": {"measure": True, "bandwidth": {"absent": "no memory"}}}, "no memory"),
    ],
)
def test_a_board_that_cannot_measure_says_why(capsys, monkeypatch, hello, said):
    monkeypatch.setattr(command, "AttachedBoard", lambda transport: _with_hello(Board(transport), hello))
    assert main(["calibrate"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def _with_hello(board, hello):
    board.hello = hello
    return board


def test_a_lost_link_is_one_sentence_and_keeps_what_was_measured(capsys, monkeypatch):
    class Breaks(Board):
        def measure(self, point, what, on_progress, *, model_file=None, options=None):
            if len(self.asked) == 2:
                raise LinkError("link", "the link to the board was lost before this was finished")
            return super().measure(point, what, on_progress, options=options)

    monkeypatch.setattr(command, "AttachedBoard", Breaks)
    assert main(["calibrate"]) == 2
    assert capsys.readouterr().err.endswith("the link to the board was lost before this was finished\n")
    monkeypatch.setattr(command, "AttachedBoard", Board)
    assert len(calibrated(capsys, "--fit-only")["points"]) == 2


def test_a_full_disk_does_not_lose_what_was_measured(capsys, monkeypatch):
    kept, real = [], board_library.append_measurement

    def once(path, measurement):
        if kept:
            raise command.FileError("measurements.jsonl: cannot be written: no space left on device")
        kept.append(measurement)
        real(path, measurement)

    monkeypatch.setattr(board_library, "append_measurement", once)
    assert main(["calibrate", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert len(found["points"]) == N_PLAN  # all but one of them in memory only
    assert len(load_measurements(measurements_file(), None)[0]) == 1
    assert "no space left on device; later measurements are in this fit only" in err


def test_two_repeats_within_a_second_both_count(capsys):
    at, machine = OperatingPoint(), "a processor, 2 threads, torch 2, a.gguf of 1 byte"
    for seconds in (0.010, 0.012):  # as `measure` stamped them before it stamped milliseconds
        body = {"decode_s": record(seconds)}
        append_measurement(measurements_file(), Measurement(at, body, "2026-01-01T00:00:00+00:00", machine))
    (point,) = calibrated(capsys, "--fit-only")["points"]
    assert point["decode_s"] == 0.010  # of repeats the least counts


def test_a_run_that_fails_is_one_sentence_and_keeps_what_was_measured(capsys, monkeypatch):
    class Fails(Board):
        def measure(self, point, what, on_progress, *, model_file=None, options=None):
            if len(self.asked) == 2:
                raise LinkError("failed", "the measuring process was killed")
            return super().measure(point, what, on_progress, options=options)

    monkeypatch.setattr(command, "AttachedBoard", Fails)
    assert main(["calibrate"]) == 2
    assert capsys.readouterr().err.endswith("trilemma calibrate: the measuring process was killed\n")
    assert len(load_measurements(measurements_file(), None)[0]) == 2


def test_the_plan_is_that_of_the_data_sheet_whatever_bandwidth_was_measured(capsys):
    found = calibrated(capsys)
    asked = [OperatingPoint(**row["point"]) for row in found["points"]]
    assert set(asked) == set(plan(OperatingPoint(), load_catalogue()))
