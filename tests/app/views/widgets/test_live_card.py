"""Traces over time."""

import numpy as np

from app.text.quantities import POWER
from app.views.widgets.curve_data import within_reach
from app.views.widgets.live_card import Past, TimePlot
from core.spec import Estimate, Provenance


def test_a_long_trace_keeps_its_extremes(qtbot, theme):
    plot = TimePlot(theme, POWER)
    qtbot.addWidget(plot)
    plot.resize(600, 200)
    plot.show()
    t, y = np.linspace(-60.0, 0.0, 100_000), np.random.default_rng(1).normal(size=100_000)
    y[12_345] = 9.0
    plot.show_ranges((-60.0, 0.0), (-10.0, 10.0))
    plot.trace.setData(t, y)
    drawn = plot.trace.curve.getData()[1]
    assert len(drawn) < 10_000
    assert drawn.max() == 9.0
    assert drawn.min() == y.min()


def test_the_past_holds_the_last_value_until_now_and_merges_what_follows_at_once():
    past = Past()
    past.add(1.0, Estimate(2.0, 1.0, 3.0, Provenance.PREDICTED))
    past.add(1.01, Estimate(2.5, 1.0, 3.0, Provenance.CALIBRATED))
    rows = past.arrays(5.0)
    assert rows[0].tolist() == [1.01, 5.0]
    assert rows[1].tolist() == [2.5, 2.5]
    assert past.provenance is Provenance.CALIBRATED


def test_old_bands_and_long_bars_do_not_flatten_what_came_after_them():
    values = (np.array([9.0, 9.2, 9.1]), np.array([9.5]))
    held, bound = within_reach(values, (np.array([3.0, 8.7]), np.array([60.0, 9.6, np.nan])))
    assert sorted(held) == [9.0, 9.1, 9.2, 9.5]
    assert np.nanmin(bound) >= 9.0 - 0.5 * 9.5
    assert np.nanmax(bound) <= 9.5 + 0.5 * 9.5
    assert bound[1] == 8.7  # what lies near is held as it is
    assert within_reach((np.array([np.nan]),), (np.array([1.0]),))[1].tolist() == [1.0]
