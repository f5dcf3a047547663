"""Where the panels are, at first and while the window changes its size."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMainWindow

from app.views.docks import NARROW_PX, WIDE_PX, DockLayout, column_px
from app.views.widgets.common import Dock, label


class Window(QMainWindow):
    def __init__(self):
        super().__init__()
        self.docks = {key: Dock(key, key, label(key)) for key in ("controls", "numbers", "board", "calibration", "log")}
        self.setCentralWidget(label("centre"))
        self.columns = DockLayout(self, self.docks)

    def resizeEvent(self, event):
        super().resizeEvent(event)
        self.columns.fit_later()

    def widths(self):
        return self.docks["controls"].width(), self.docks["numbers"].width()


@pytest.fixture
def window(qtbot):
    def make(width, height):
        made = Window()
        qtbot.addWidget(made)
        made.resize(width, height)
        made.columns.reset()
        made.show()
        qtbot.waitExposed(made)
        return made

    return make


def test_columns_grow_with_the_window_between_two_widths():
    narrowest, widest = column_px(NARROW_PX), column_px(WIDE_PX)
    assert column_px(700) == narrowest
    assert column_px(3000) == widest
    between = column_px((NARROW_PX + WIDE_PX) // 2)
    assert all(a < b < c for a, b, c in zip(narrowest, between, widest, strict=True))
    assert NARROW_PX - sum(narrowest) > 0.5 * NARROW_PX - 40  # the centre has most of it


def test_columns_follow_the_window_both_ways(window, qtbot):
    made = window(1600, 1000)
    for width in (1100, 1250, 1600):
        made.resize(width, 900)
        qtbot.waitUntil(lambda w=width: made.widths() == column_px(w))


def test_columns_that_a_person_has_sized_stay(window, qtbot):
    made = window(1600, 1000)
    made.resizeDocks([made.docks["controls"]], [420], Qt.Orientation.Horizontal)
    qtbot.waitUntil(lambda: made.widths()[0] == 420)
    made.resize(1250, 900)
    qtbot.wait(50)
    assert made.widths()[0] == 420


def test_a_low_window_puts_the_panels_at_right_in_tabs_and_a_tall_one_below_each_other(window):
    low, tall = window(1280, 760), window(1600, 1000)
    assert set(low.tabifiedDockWidgets(low.docks["board"])) == {low.docks["calibration"], low.docks["log"]}
    assert tall.tabifiedDockWidgets(tall.docks["board"]) == [tall.docks["log"]]
    for made in (low, tall):
        assert not made.docks["board"].visibleRegion().isEmpty()


def test_the_numbers_take_no_more_height_than_they_have(window):
    made = window(1600, 1000)
    assert made.docks["numbers"].height() <= made.docks["numbers"].sizeHint().height()
