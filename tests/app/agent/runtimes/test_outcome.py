"""The record of a run."""

import math
from itertools import pairwise

import pytest

from app.agent.runtimes.outcome import Failed, applied, record, speed_of
from app.agent.runtimes.values import count, number
from tests.app.agent.runtimes.stand import entry, run_of, timeline


@pytest.mark.parametrize("prefill_s", [0.5, 5.0, math.nan])
def test_spans_follow_each_other_and_sum_to_the_whole_request(prefill_s):
    line = timeline()
    spans = line.spans(prefill_s)
    assert spans[0]["start_s"] == line.start_s
    assert spans[-1]["end_s"] == line.end_s
    assert all(a["end_s"] == b["start_s"] for a, b in pairwise(spans))
    assert sum(span["end_s"] - span["start_s"] for span in spans) == pytest.approx(line.end_s - line.start_s)
    assert all(span["end_s"] > span["start_s"] for span in spans)


def test_a_record_is_the_quantiles_of_its_samples():
    assert record([3.0, 1.0, 2.0]) == {"median": 2.0, "q05": 1.1, "q95": 2.9, "n": 3, "provenance": "measured"}
    assert record([5.0])["q95"] == 5.0


def test_knobs_that_are_not_applied_are_said_and_the_point_that_ran_is_told():
    run = run_of(alpha=0.5, beta=2.0, bandwidth_byte_s=5e9, kv="int8", compensation="both")
    fields, notes = applied(entry(kv="fp16"), run, {"weights": "q4_1"})
    assert fields == {"alpha": 0.0, "beta": 1.0, "bandwidth_byte_s": None, "compensation": "none", "kv": "fp16"}
    assert len(notes) == 4
    assert applied(entry(kv="fp16"), run_of(), {"weights": "q4_1"}) == ({}, [])


def test_options_without_a_setting_are_said_and_left_out_of_the_point_that_ran():
    given = {"activation_keep": 0.5, "kv_layout": "blocked", "weight_sparsity": 0.5, "on_chip_frac": 0.1}
    fields, notes = applied(entry(), run_of(**given, adapter_rank=16.0), {"weights": "q4_1"})
    left = {"activation_keep": 1.0, "kv_layout": "", "weight_sparsity": 0.0, "on_chip_frac": 0.0, "adapter_rank": 0.0}
    assert {name: fields[name] for name in left} == left
    assert sum("was not applied" in note for note in notes) == 5


@pytest.mark.parametrize("samples", [[], [-1.0], [math.nan, 1.0], [1.0, math.inf]])
def test_what_is_no_measurement_is_not_recorded(samples):
    with pytest.raises(Failed, match="expected finite ones of at least 0"):
        record(samples)


def test_a_token_of_no_time_has_no_speed():
    with pytest.raises(Failed, match="a time of 0 s for a token"):
        speed_of(record([0.0]))


@pytest.mark.parametrize("value", [10**400, -1, math.nan, math.inf, "3", True, None, [1]])
def test_a_number_that_a_runtime_cannot_mean_is_none(value):
    assert math.isnan(number({"n": value}, "n"))
    assert count({"n": value}, "n") is None


def test_counts_are_whole_and_exact():
    assert [count({"n": value}, "n") for value in (3, 3.0, 3.5, 2**53, 2**53 + 2, 1e300)] == [
        3,
        3,
        None,
        2**53,
        None,
        None,
    ]
