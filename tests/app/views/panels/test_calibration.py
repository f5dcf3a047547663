"""The calibration's errors and its proposed point."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QWidget,
)

from app.library.measurements import Measurement
from core.calibrate.fit import calibrate
from core.calibrate.observations import measured_point
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import OperatingPoint
from tests.app.views.silent_session import attach

CATALOGUE = load_catalogue()


def calibrated(store):
    attach(store)
    points = [OperatingPoint(alpha=a, context_tokens=n) for a in (0.0, 0.5, 0.9) for n in (256.0, 2048.0)]
    measurements = []
    for i, point in enumerate(points):
        t = 0.7 * predict(point, CATALOGUE).decode_s.median * (1 + 0.01 * (-1) ** i)
        body = {"decode_s": {"median": t, "q05": 0.99 * t, "q95": 1.01 * t, "n": 9, "provenance": "measured"}}
        power = {"median": 5.0 + i, "q05": 5.0 + i, "q95": 5.0 + i, "n": 9, "provenance": "measured"}
        body |= {"power_w": power, "conditions": {"power_covers": "the package"}}
        measurements.append(Measurement(point, body, "2026-01-01T00:00:00+00:00", store.machine))
    store.set_machine(store.machine, measurements, "")
    calibration = calibrate([measured_point(m.point, m.body) for m in measurements], CATALOGUE)
    store.set_calibration(calibration, (points[0], "alpha 0, context 256 narrows the cost per layer by 20 %"))
    return calibration


def test_calibration_puts_the_error_first_and_r2_last(window, qtbot):
    calibration = calibrated(window._store)
    panel = window.docks["calibration"].findChild(QWidget, "calibration")
    qtbot.waitUntil(lambda: "Leave-one-out" in panel._error.text())
    assert f"{100 * calibration.check.median_error_frac:.1f} %" in panel._error.text()
    assert panel._coverage.text().index("covers") < panel._coverage.text().index("R²")
    assert "published formula" in panel._published.text()
    error = 100 * calibration.power_check.median_error_frac
    assert panel._power.text().startswith(f"Power (the package), each point left out: median {error:.1f} %")
    assert panel._power.isVisibleTo(panel)
    words = [w.text() for w in panel.findChildren(QWidget) if hasattr(w, "text")]
    assert "not identified" in words
    assert panel._next.text().startswith("Next: ")
    assert panel._go.isVisibleTo(panel)
    before = list(panel._rows)
    panel._refresh()
    assert panel._rows == before  # the same labels: a fit a second must not make the panel flicker
    window._store.set_calibration(None)
    qtbot.waitUntil(lambda: not any(part.isVisibleTo(panel) for rows in before for part in rows))
    calibrated(window._store)
    assert window.curves.cards[0].plot.curve.opts["pen"].style() == Qt.PenStyle.SolidLine


def test_the_proposed_point_is_one_step_of_undo(window, qtbot):
    calibrated(window._store)
    panel = window.docks["calibration"].findChild(QWidget, "calibration")
    qtbot.waitUntil(lambda: panel._next_point is not None)
    window._store.set("point.alpha", 0.7)
    panel._go.click()
    assert window._store.point == panel._next_point
    window._stack.undo()
    assert window._store.point.alpha == 0.7
