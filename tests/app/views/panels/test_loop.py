"""The Loop view: empty, steady, drifting."""

from dataclasses import replace

from app.library.calibration import fit
from app.model.store import Store
from app.views.panels.loop import LoopView
from app.views.widgets.theme import Theme
from tests.app.library.test_loop import CATALOGUE, HERE, seconds, series


def view_of(qtbot, store):
    view = LoopView(store, None, Theme())
    qtbot.addWidget(view)
    view.refresh()
    return view


def follow(store, measurements):
    found = fit(measurements, CATALOGUE, HERE, now_s=seconds(measurements[-1].time_utc))
    store.set_machine("m", measurements)
    store.set_calibration(found.calibration, found.proposal, found.loop)


def test_an_empty_view_says_what_to_do(qtbot):
    view = view_of(qtbot, Store(CATALOGUE))
    assert view.sentence.text() == view._store.not_measured_here
    assert all(part.isHidden() for part in (view.tables, view.charts, view.go))


def test_a_drift_is_shown_with_its_correction_and_next_measurement(qtbot):
    store = Store(CATALOGUE, replace(HERE))
    view = view_of(qtbot, store)
    follow(store, series(1.0, 1.0, 1.2, 1.2, 1.2, throttle="throttled"))
    view.refresh()
    assert "slower than calibrated" in view.sentence.text()
    assert view.sentence.property("role") == "bad"
    assert [labels[0].text() for labels in view.term_labels][:2] == ["memory bandwidth", "compute rate"]
    assert view.detector.chart.rules[0].name == "alarm"
    assert len(view.residuals.chart.points[0].x) + len(view.residuals.chart.points[1].x) == 25
    with qtbot.waitSignal(view.proposed) as asked:
        view.go.setEnabled(True)
        view.go.click()
    assert asked.args[0] == store.proposal[0]


def test_a_steady_board_raises_no_alarm(qtbot):
    store = Store(CATALOGUE, replace(HERE))
    view = view_of(qtbot, store)
    follow(store, series(1.0, 1.0, 1.0))
    view.refresh()
    assert view.sentence.text().startswith("No drift")
    assert view.sentence.property("role") != "bad"
