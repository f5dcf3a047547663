"""The numbers beside those of the pinned point."""

from dataclasses import replace

from app.text.quantities import LATENCY
from app.views.widgets.numbers import NumbersPanel


def test_the_table_keeps_room_for_a_only_where_a_is_pinned(store, qtbot):
    panel = NumbersPanel(store)
    qtbot.addWidget(panel)
    panel.resize(panel.minimumSizeHint())
    panel.show()
    cell = panel._cells[LATENCY][2]
    assert not cell.isVisible()
    store.set("pinned", replace(store.point, alpha=0.9))
    panel.refresh()
    panel.resize(panel.minimumSizeHint())
    qtbot.waitUntil(lambda: cell.isVisible() and cell.width() >= 50)


def test_the_table_compares_with_the_pinned_point(qtbot, store):
    panel = NumbersPanel(store)
    qtbot.addWidget(panel)
    store.set("pinned", store.point)
    store.set("point.alpha", 0.9)
    panel.refresh()
    assert panel._cells[LATENCY][2].text().startswith("−")
    assert panel._cells[LATENCY][0].text() == "–"
    assert panel._cells[LATENCY][0].accessibleDescription() == store.measured("decode_s").reason
