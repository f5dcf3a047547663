import math

import pytest

from kernels.machine.timing import MIN_QUIET_STEPS, Stopwatch, record


def test_record_holds_median_and_quantiles():
    got = record(range(1, 102))
    assert got == {"median": 51, "q05": 6, "q95": 96, "n": 101, "provenance": "measured"}


def test_record_of_one_sample_has_no_spread():
    assert record([2.0])["q05"] == record([2.0])["q95"] == 2.0


def test_record_of_nothing_raises():
    with pytest.raises(ValueError, match="samples: got none"):
        record([])


def test_disturbed_steps_are_counted_but_not_used():
    watch = Stopwatch([1.0] * MIN_QUIET_STEPS + [100.0], [True] * MIN_QUIET_STEPS + [False])
    assert watch.record()["q95"] == 1.0
    assert watch.quiet_share == pytest.approx(MIN_QUIET_STEPS / (MIN_QUIET_STEPS + 1))


def test_all_steps_are_used_when_too_few_were_quiet():
    watch = Stopwatch([1.0, 3.0], [True, False])
    assert watch.record()["n"] == 2


def test_time_runs_the_step_once():
    calls = []
    watch = Stopwatch()
    assert watch.time(lambda: calls.append(1)) > 0
    assert calls == [1]
    assert len(watch.durations_s) == len(watch.quiet) == 1
    assert math.isfinite(watch.quiet_share)
