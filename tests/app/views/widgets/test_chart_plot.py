"""A chart of points and series."""

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent

from app.model.commands import undo_stack
from app.model.store import Store
from app.text.chart import Chart, Points, Series
from app.views.panels.tradeoff import TradeOff
from app.views.widgets.chart_card import ChartCard
from app.views.widgets.theme import Theme
from core.spec import Provenance
from tests.app.views.parts import CATALOGUE, shown


@pytest.fixture
def store(qapp):
    return Store(CATALOGUE)


def test_a_chart_draws_on_logarithmic_axes_and_reads_plain_values(qtbot, qapp):
    x = np.geomspace(1, 1000, 31)
    chart = Chart(
        "t", ("a", "1"), ("b", "s"), (Series(x, x / 10, Provenance.PREDICTED),), points=(Points(x[:1], x[:1]),),
        x_range=(1, 1000), y_range=(0.1, 100), log=(True, True),
    )  # fmt: skip
    card = shown(qtbot, ChartCard(Theme("dark"), "c", "t"), (500, 300))
    card.show_chart(chart)
    card.make_plot()
    assert card.plot.box.viewRange()[0] == pytest.approx([0, 3])
    card.plot.pointed.emit(2.0)
    assert card._words.text() == "100  10.0 s"
    card.plot.pointed.emit(None)
    assert card._words.text() == "b in s against a"
    n_items = len(card.plot.plotItem.items)
    card.show_chart(chart)
    assert len(card.plot.plotItem.items) == n_items  # the old ones are gone


def test_a_chart_without_data_says_why(qtbot, qapp):
    card = shown(qtbot, ChartCard(Theme("light"), "c", "t"), (500, 300))
    card.make_plot()
    card.show_chart(Chart("t", ("a", "1"), ("b", "s"), message="Not predicted: no source"))
    assert card._space.message.text() == "Not predicted: no source"
    assert card.plot.accessibleDescription() == "Not predicted: no source"


def test_the_dot_under_the_pointer_says_which_mix_it_is(qtbot, store):
    view = shown(qtbot, TradeOff(store, undo_stack(), Theme("dark")))
    qtbot.waitUntil(lambda: view._trade is not None and view.card.plot is not None)
    axes, found, plot = view.card._words.text(), view._trade, view.card.plot

    def point_at(x, y):
        at = plot.box.mapViewToScene(QPointF(x, y))
        none = Qt.MouseButton.NoButton
        plot.mouseMoveEvent(QMouseEvent(QEvent.Type.MouseMove, at, at, none, none, Qt.KeyboardModifier(0)))

    index = int(np.flatnonzero(found.on_front)[0])
    point_at(*(found.found.outputs[n].median[index] for n in ("decode_s", "top1_agreement")))
    said = view.card._words.text()
    assert said.startswith(f"{view._name(found.points[index])}: ")
    assert said.count("predicted") == 2
    plot.pointed.emit(None)
    assert view.card._words.text() == axes


def test_families_of_points_are_named_and_no_name_is_written_over_another(qtbot, qapp, store):
    view = shown(qtbot, TradeOff(store, undo_stack(), Theme("dark")))
    qtbot.waitUntil(lambda: view._trade is not None and view.card.plot is not None)
    named = {text for *_, text in view.card.chart.words}
    assert len(named) == len({point.weights for point in view._trade.points})
    qapp.processEvents()
    shown_texts = [item for item in view.card.plot._texts.shown if item.isVisible()]
    assert {"here"} < {item.toPlainText() for item in shown_texts} <= named | {"here"}
    for width, height in ((1000, 700), (420, 320), (700, 500)):  # placed anew where the size changes
        view.resize(width, height)
        qapp.processEvents()
        shown_texts = [item for item in view.card.plot._texts.shown if item.isVisible()]
        boxes = [item.sceneBoundingRect().adjusted(1, 1, -1, -1) for item in shown_texts]
        assert boxes
        assert not any(a.intersects(b) for i, a in enumerate(boxes) for b in boxes[:i]), (width, height)
        ((x, y, _),) = view.card.plot._named
        here = view.card.plot.box.mapViewToScene(QPointF(x, y))
        assert not any(box.contains(here) for box in boxes), (width, height)
