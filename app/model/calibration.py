"""The fit of the model to the measurements of one machine, and what to measure next. Runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from app.model import axes
from app.model.measurements import Measurement
from core.calibrate import PLAN_KV, PLAN_WEIGHTS, Calibration, calibrate
from core.explore import next_measurement
from core.measured import MeasuredPoint, measured_point, pooled
from core.spec import Catalogue, OperatingPoint

NEWEST = 400
"""Of more measurements, the newest are fitted: older ones say less of the machine as it is, and the fit stays quick."""
CANDIDATE_ALPHA = (0.0, 0.3, 0.6, 0.9)
CANDIDATE_CONTEXT_TOKENS = (256.0, 1024.0, 2048.0, 4096.0)


@dataclass(frozen=True, slots=True)
class Fit:
    """A calibration and the measurement that would narrow its predictions most, with the reason in a sentence."""

    calibration: Calibration
    proposal: tuple[OperatingPoint, str] | None


def fit(measurements: Sequence[Measurement], catalogue: Catalogue) -> Fit | None:
    """Fit the model to the measurements; None where none of them has a decode time.

    Raises
    ------
    ValueError
        The measurements cannot be fitted; one sentence.
    """
    points = measured_points(measurements, catalogue)
    if all(point.decode_s is None for point in points):
        return None
    calibration = calibrate(points, catalogue)
    return Fit(calibration, next_measurement(calibration, candidates(), catalogue))


def measured_points(measurements: Sequence[Measurement], catalogue: Catalogue) -> list[MeasuredPoint]:
    """Return what calibration needs of the newest measurements whose points the catalogue knows, repeats together."""
    known = [m for m in measurements if axes.exists(m.point, catalogue)]
    points = [measured_point(axes.canonical(m.point, catalogue), m.body) for m in known[-NEWEST:]]
    told = [p for p in points if (p.decode_s, p.ttft_s, p.mean_kl, p.top1_agreement) != (None, None, None, None)]
    return pooled(told)


def candidates() -> list[OperatingPoint]:
    """Return the points among which the next measurement is chosen."""
    grid = product(PLAN_WEIGHTS, PLAN_KV, CANDIDATE_CONTEXT_TOKENS, CANDIDATE_ALPHA)
    return [OperatingPoint(weights=w, kv=g, context_tokens=tokens, alpha=alpha) for w, g, tokens, alpha in grid]
