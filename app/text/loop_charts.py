"""Charts of the loop that follows a board: residuals and drift, and the statistic of its detector, over time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.library.loop import Loop
from app.text.chart import Chart, Points, Rule, Series
from app.text.format import counted
from core.calibrate.disturbance import QUIET_DEGREE, degree
from core.calibrate.follow import THRESHOLD
from core.spec import Provenance

SESSION_GAP_S = 3600.0
"""Time without a measurement, after which the charts begin again [s]."""

LEAST_SPAN_S, LEAST_FRAC = 60.0, 0.05


def shown(loop: Loop) -> NDArray[np.intp]:
    """Return the residuals of decode times since the last pause; of times to first token where there is none."""
    f = loop.followed
    kind = 0 if np.any(f.kind == 0) else 1
    mine = np.flatnonzero(f.kind == kind)
    breaks = np.flatnonzero(np.diff(f.time_s[mine]) > SESSION_GAP_S)
    return mine[breaks[-1] + 1 :] if len(breaks) else mine


def residual_chart(loop: Loop) -> Chart:
    """Return measured over calibrated times, and the drift that the loop sees in them."""
    f, index = loop.followed, shown(loop)
    time_s = f.time_s[index] - f.time_s[index[0]]
    residual, drift = np.expm1(f.residual[index]), np.expm1(f.drift_log[index])
    disturbed = np.array([degree(loop.measurements[i].body.get("conditions", {})) for i in f.owner[index]])
    doubtful = (disturbed > QUIET_DEGREE) | f.spike[index]
    most = max(LEAST_FRAC, 1.15 * float(np.max(np.abs(np.concatenate([residual, drift])))))
    low, high = min(0.0, *residual, *drift), max(0.0, *residual, *drift)
    margin = max(LEAST_FRAC / 2.0, 0.12 * (high - low))
    return Chart(
        "Residual",
        ("time", "s"),
        ("difference", "frac"),
        series=(Series(time_s, drift, Provenance.CALIBRATED, "drift"),),
        rules=(Rule("y", 0.0),),
        points=(
            Points(time_s[~doubtful], residual[~doubtful], "measured"),
            Points(time_s[doubtful], residual[doubtful], "measured", hollow=True),
        ),
        x_range=_span(time_s),
        y_range=(low - margin, high + margin),
        description=f"{counted(len(index), 'measurement')} within {100 * most:.0f} % of the calibration; hollow: "
        "disturbed by other programs or not confirmed.",
    )


def detector_chart(loop: Loop) -> Chart:
    """Return the statistic of the detector and its threshold."""
    f, index = loop.followed, shown(loop)
    time_s, statistic = f.time_s[index] - f.time_s[index[0]], f.statistic[index]
    alarms = f.alarms[index]
    top = 1.2 * max(THRESHOLD, float(statistic.max()))
    return Chart(
        "Detector",
        ("time", "s"),
        ("shift in standard deviations", "1"),
        series=(Series(time_s, statistic, Provenance.CALIBRATED),),
        rules=(Rule("y", THRESHOLD, "alarm", "bad"),),
        points=(
            Points(time_s[~alarms], statistic[~alarms], "accent", size_px=5),
            Points(time_s[alarms], statistic[alarms], "bad", size_px=7),
        ),
        x_range=_span(time_s),
        y_range=(0.0, top),
        description=f"The newest value is {statistic[-1]:.1f}, the alarm begins at {THRESHOLD:g}: largest mean of the "
        "newest errors, one step ahead, in standard deviations of that mean.",
    )


def _span(time_s: NDArray[np.float64]) -> tuple[float, float]:
    span = max(float(time_s[-1]), LEAST_SPAN_S)
    return -0.02 * span, 1.02 * span
