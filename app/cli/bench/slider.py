"""``trilemma bench slider``: time from a slider's move to the painted picture in the dashboard."""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

from app.cli.shared.output import UserError

N_MOVES = 300
FRAME_S = 1.0 / 60.0
_SIZE = (1600, 1000)
_ALPHAS, _CONTEXTS = (0.0, 0.5, 0.9), (256.0, 2048.0)


def measure_slider(n_moves: int = N_MOVES) -> dict[str, Any]:
    """Drag the prune rate and the context over their ranges, offscreen at 1600 x 1000, and time each picture.

    Moves are due 60 times a second, even while the last picture is unfinished, so a slow picture delays the next ones.
    The point is calibrated and has measured dots, made from predictions; no board is attached.

    Returns
    -------
    dict
        ``slider_to_picture_ms``: wall time from when a move is due to its painted picture, as {median, min, max, p95,
        n}; ``slider_to_picture_cpu_ms``: CPU time of the GUI thread for it, likewise.
    """
    from app.gui import Options, open_dashboard
    from app.qt_platform import CannotStart

    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    try:
        dashboard = open_dashboard(Options(size=_SIZE))
    except CannotStart as error:
        raise UserError(str(error)) from error
    _calibrate(dashboard.store)
    dashboard.window.show()
    dashboard.window.curves.make_plots()
    _run_for(1.0)  # what a window does once after it is shown
    wall, cpu = zip(*_drag(dashboard.window.controls.sliders, n_moves), strict=True)
    return {"slider_to_picture_ms": _spread(wall), "slider_to_picture_cpu_ms": _spread(cpu)}


def _calibrate(store: Any) -> None:
    """Fill the store with measurements as from a board, and with their calibration."""
    from app.library.measurements import Measurement
    from core.calibrate.fit import calibrate
    from core.calibrate.observations import measured_point
    from core.spec import OperatingPoint

    measurements = []
    for alpha in _ALPHAS:
        for context in _CONTEXTS:
            point = OperatingPoint(alpha=alpha, context_tokens=context)
            decode = float(store.prediction_of(point).decode_s.median)
            value = {"median": decode, "q05": 0.98 * decode, "q95": 1.02 * decode, "n": 9, "provenance": "measured"}
            measurements.append(Measurement(point, {"decode_s": value}, "2026-01-01T00:00:00+00:00", "bench"))
    store.set_machine("bench", measurements, "")
    store.set_calibration(calibrate([measured_point(m.point, m.body) for m in measurements], store.catalogue), None)


def _drag(sliders: Any, n_moves: int) -> list[tuple[float, float]]:
    """Return (wall, CPU) seconds of each move."""
    from PySide6.QtWidgets import QApplication

    ranges = {"point.alpha": (0.0, 0.9), "point.context": (256.0, 4096.0)}
    found = []
    due_s = time.perf_counter()
    for path, (low, high) in ranges.items():
        line, n = sliders[path].line, n_moves // len(ranges)
        for i in range(n):
            _run_for(due_s - time.perf_counter())
            began_s = time.thread_time()
            line.move_to(low + (high - low) * i / (n - 1), new_drag=i == 0)
            QApplication.processEvents()
            found.append((time.perf_counter() - due_s, time.thread_time() - began_s))
            due_s += FRAME_S
    return found


def _run_for(seconds: float) -> None:
    """Run the event loop of the dashboard for a time."""
    from PySide6.QtWidgets import QApplication

    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        QApplication.processEvents()
        time.sleep(0.0005)


def _spread(seconds: tuple[float, ...]) -> dict[str, float]:
    ms = [1e3 * s for s in seconds]
    p95 = statistics.quantiles(ms, n=20, method="inclusive")[-1]
    return {"median": statistics.median(ms), "min": min(ms), "max": max(ms), "p95": p95, "n": len(ms)}
