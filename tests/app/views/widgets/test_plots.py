"""Axes, ticks, bands and symbols of a plot."""

import numpy as np
import pytest
from PySide6.QtCore import QPointF

from app.text.quantities import LATENCY
from app.views.widgets.curve_plot import CurvePlot
from app.views.widgets.live_card import TimePlot
from app.views.widgets.plots import TEXT_PX, Marks, TickAxis, log_ticks
from core.spec import Provenance


def test_logarithmic_ticks_are_round():
    tokens = log_ticks(64.0, 8192.0, "tokens")
    assert [10.0**at for at, _ in tokens] == pytest.approx([2.0**i for i in range(6, 14)])
    assert tokens[-1][1] == "8\u2009192"
    assert [text for _, text in log_ticks(1e9, 2e10, "byte/s")] == ["1", "2", "5", "10", "20"]


def test_an_axis_says_its_ticks_in_one_unit(qapp):
    def texts(unit, low, high):
        axis = TickAxis("left")
        axis.describe(unit, high)
        spacing, values = axis.tickValues(low, high, 200)[0]
        return axis.tickStrings(values, axis.scale, spacing)

    assert texts("s", 0.0, 0.012) == ["0", "2", "4", "6", "8", "10", "12"]
    assert texts("frac", 0.9, 1.0) == ["90", "92", "94", "96", "98", "100"]
    assert texts("s", -0.2, 0.1)[0].startswith("−")


@pytest.mark.parametrize("px", [30, 44, 60, 100, 200, 400])
@pytest.mark.parametrize(("low", "high"), [(3.3, 5.2), (0.0, 83.0), (0.0, 1.0), (58.0, 100.0), (2e-7, 9e-7)])
def test_texts_of_a_vertical_axis_do_not_touch(qapp, px, low, high):
    spacing, values = TickAxis("left").tickValues(low, high, px)[0]
    assert spacing * px / (high - low) >= TEXT_PX
    assert len(values) >= (2 if px >= 100 else 0)


def strips(band):
    return [polygon.boundingRect().getRect() for polygon in band.item.path().toSubpathPolygons()]


def test_a_band_breaks_where_it_is_not_finite(qtbot, theme):
    plot = CurvePlot(theme, LATENCY)
    qtbot.addWidget(plot)
    x, low = np.arange(5.0), np.array([1.0, 1.0, np.nan, 1.0, 1.0])
    plot.band.set_data(x, low, low + 2.0)
    assert strips(plot.band) == [(0.0, 1.0, 1.0, 2.0), (3.0, 1.0, 1.0, 2.0)]


def test_a_step_holds_until_the_next(qtbot, theme):
    plot = TimePlot(theme, LATENCY)
    qtbot.addWidget(plot)
    plot.line.setData(np.array([0.0, 1.0, 3.0]), np.array([5.0, 6.0, 7.0]))
    path = plot.line.getPath()
    corners = [(path.elementAt(i).x, path.elementAt(i).y) for i in range(path.elementCount())]
    assert corners[:4] == [(0.0, 5.0), (1.0, 5.0), (1.0, 6.0), (3.0, 6.0)]


SYMBOLIC = (Provenance.MEASURED, Provenance.PUBLISHED, Provenance.SIMULATED)


def test_each_provenance_has_its_own_symbol_in_a_plot(qtbot, theme):
    plot = CurvePlot(theme, LATENCY)
    qtbot.addWidget(plot)
    looks = set()
    for which in SYMBOLIC:
        opts = Marks(plot, which).dots.opts
        looks.add((opts["symbol"], opts["brush"].color().name() == theme.palette.panel))
    assert looks == {("o", False), ("o", True), ("d", True)}


def test_a_dot_has_the_colour_of_what_is_measured(qtbot, theme):
    plot = CurvePlot(theme, LATENCY)
    qtbot.addWidget(plot)
    plot.resize(300, 200)
    plot.show()
    plot.show_ranges((0.0, 1.0), (0.0, 1.0))
    one = np.array([0.5])
    plot.marks.set_data(one, one, one - 0.3, one + 0.3)
    at = plot.box.mapViewToScene(QPointF(0.5, 0.5)).toPoint()
    assert plot.grab().toImage().pixelColor(at).name() == theme.palette.measured
