import os

import pytest

from app.agent.runtimes.interrupts import interrupt_record, interrupt_ticks

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("whole", "ticks"),
    [("cpu  10 0 5 900 3 40 2 0 0 0\ncpu0 1 1\n", 42), ("cpu 1 2\n", -1), ("", -1), ("cpu a b c d e f g h\n", -1)],
)
def test_ticks_are_those_of_both_sorts_of_interrupts(tmp_path, whole, ticks):
    path = tmp_path / "stat"
    path.write_text(whole)
    assert interrupt_ticks(str(path)) == ticks
    assert interrupt_ticks(str(tmp_path / "none")) == -1


def test_the_time_of_a_request_is_known_to_a_tick():
    found = interrupt_record([(100, 103), (103, 106)])
    assert found["median"] == pytest.approx(3 * TICK_S)
    assert (found["q05"], found["q95"]) == pytest.approx((2.5 * TICK_S, 3.5 * TICK_S))
    assert interrupt_record([(100, 100)])["q95"] == pytest.approx(TICK_S)


@pytest.mark.parametrize("windows", [[], [(-1, 5)], [(0, 0)]])
def test_a_time_that_nothing_tells_is_absent(windows):
    assert "absent" in interrupt_record(windows)
