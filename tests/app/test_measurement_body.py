"""The schema of a measurement: what a board or a file says is a measurement, or one sentence that says why not."""

import math

import pytest

from app.measurement_body import BodyError, check_body
from app.simulator.board import SimulatedBoard
from app.simulator.runs import measure


def value(median, q05=None, q95=None, provenance="measured", **more):
    ends = {"q05": median if q05 is None else q05, "q95": median if q95 is None else q95}
    return {"median": median, **ends, "provenance": provenance, **more}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (5, "the result: got 5, expected an object"),
        ({}, "the result: expected decode_s, a value or absent with a reason"),
        ({"decode_s": 5}, "decode_s: got 5, expected an object"),
        ({"decode_s": {}}, "decode_s: object missing required field median"),
        ({"decode_s": value(-1.0)}, "decode_s.median: got -1, expected 1e-09 to"),
        ({"decode_s": value(0)}, "decode_s.median: got 0, expected"),
        ({"decode_s": value("x")}, "decode_s.median: expected number, got text"),
        ({"decode_s": value(True)}, "decode_s.median: expected number, got true or false"),
        ({"decode_s": value(math.nan)}, "decode_s.median: got nan, expected"),
        ({"decode_s": value(math.inf)}, "decode_s.median: got inf, expected"),
        ({"decode_s": value(1e308)}, r"decode_s.median: got 1e\+308, expected"),
        ({"decode_s": value(10**400)}, "decode_s.median: number out of range"),
        ({"decode_s": value(1.0, 5.0, 0.1)}, "decode_s.median: got 1, expected a value in its interval 5 to 0.1"),
        ({"decode_s": value(1.0, n=0)}, "decode_s.n: expected whole number >= 1"),
        ({"decode_s": value(1.0, provenance="made up")}, "decode_s.provenance: got 'made up', expected measured"),
        ({"decode_s": value(1.0, provenance="predicted")}, "decode_s.provenance: got 'predicted', expected measured"),
        ({"decode_s": value(1.0), "ttft_s": {"absent": 5}}, "ttft_s.absent: expected text"),
        ({"decode_s": value(1.0), "top1_agreement": value(1.5)}, "top1_agreement.median: got 1.5, expected 0 to 1"),
        ({"decode_s": value(1.0), "rails": []}, r"rails: got \[\], expected an object"),
        ({"decode_s": value(1.0), "rails": {"a": {"power_w": value("x")}}}, "rails.a.power_w.median: expected number"),
        ({"decode_s": value(1.0), "compensation": 5}, "compensation: expected object, got whole number"),
        ({"decode_s": value(1.0), "compensation": {"kind": "both"}}, "compensation: object missing required field"),
        ({"decode_s": value(1.0), "notes": "n"}, "notes: expected array, got text"),
        ({"decode_s": value(1.0), "notes": [5]}, r"notes\[0\]: expected text"),
        ({"decode_s": value(1.0), "conditions": {"quiet_share": "x"}}, "conditions.quiet_share: expected number"),
        ({"decode_s": value(1.0), "conditions": {"x": [math.nan]}}, "conditions.x: got nan, expected a finite number"),
        ({"decode_s": value(1.0), "conditions": {"choice_s": value(1, 2, 3)}}, "conditions.choice_s.median"),
        ({"decode_s": value(1.0), "spans": [{"stage": "x", "start_s": 1e308, "end_s": 0}]}, r"spans\[0\].start_s"),
        ({"decode_s": value(1.0), "applied": {"a": [1]}}, "applied.*expected number or text or nothing, got array"),
    ],
)
def test_what_is_no_measurement_is_named_with_its_field_and_the_expectation(body, says):
    with pytest.raises(BodyError, match=says):
        check_body(body, ("measured",), ("decode_s",))


def test_what_a_simulated_board_measures_is_sound():
    check_body(_finished(), ("simulated",), ("decode_s",))


def _finished():
    board = SimulatedBoard("raspberry_pi_5")
    run = measure(board, {"what": ["decode", "ttft", "quality"], "point": {}}, board._noise)
    try:
        while True:
            board.step(next(run).load_frac)
    except StopIteration as end:
        return end.value


def test_what_is_not_listed_stays():
    check_body({"decode_s": {"absent": "no"}, "new": [{"x": 1}], "conditions": {"new": "x"}}, ())
