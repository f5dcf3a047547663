"""The fit of the model to the measurements of one machine, and what to measure next. Runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from app.library import axes
from app.library.measurements import Measurement
from app.library.other_boards import basis
from app.library.registry import THIS
from core.calibrate.fit import (
    PLAN_CONTEXT_TOKENS,
    PLAN_KV,
    PLAN_WEIGHTS,
    Calibration,
    calibrate,
    calibration_plan,
    next_measurement,
)
from core.calibrate.observations import MeasuredPoint, measured_point, pooled
from core.spec import Catalogue, OperatingPoint, Posterior

NEWEST = 400
"""Of more measurements, the newest are fitted: older ones say less of the machine as it is, and the fit stays quick."""
DECODER = OperatingPoint().runtime
_QUANTILES = ("median", "q05", "q95")
CANDIDATE_ALPHA = (0.0, 0.3, 0.6, 0.9)
CANDIDATE_CONTEXT_TOKENS = (256.0, 1024.0, 2048.0, 4096.0)


@dataclass(frozen=True, slots=True)
class Fit:
    """A calibration and the measurement that would narrow its predictions most, with the reason in a sentence."""

    calibration: Calibration
    proposal: tuple[OperatingPoint, str] | None


def fit(measurements: Sequence[Measurement], catalogue: Catalogue, at: OperatingPoint) -> Fit | None:
    """Fit the model to the measurements of a point's board, runtime and power mode; None where none has a decode time.

    Raises
    ------
    ValueError
        The measurements cannot be fitted; one sentence.
    """
    near = [m for m in measurements if kin(m.point, at, catalogue)]
    points = measured_points(near, catalogue)
    if all(point.decode_s is None for point in points):
        return None
    calibration = calibrate(points, catalogue, known=known_before(at, catalogue))
    if at.board != THIS:  # of the attached one the points themselves are on the screen
        posterior = calibration.posterior
        told = basis_of(near, catalogue, posterior.basis)
        calibration = replace(calibration, posterior=replace(posterior, basis=told))
    return Fit(calibration, next_measurement(calibration, candidates(at), catalogue))


def basis_of(measurements: Sequence[Measurement], catalogue: Catalogue, before: str) -> str:
    """Return in words what a calibration rests on: these measurements, and what was known `before` them."""
    own = measured_points([measurement for measurement in measurements if measurement.machine], catalogue)
    return basis(measurements, len(own), before)


def known_before(at: OperatingPoint, catalogue: Catalogue) -> Posterior | None:
    """Return what published measurements of a point's board, runtime and power mode taught, None where there are none.

    Measurements of the user's add to that; where nothing is published, to the runtime's prior.
    """
    where = catalogue.resolve(at)
    return catalogue.published.get((where.board.key, where.runtime.key, where.mode.key))


def measured_points(measurements: Sequence[Measurement], catalogue: Catalogue) -> list[MeasuredPoint]:
    """Return what calibration needs of the newest measurements whose points the catalogue knows, repeats together.

    A run whose bandwidth was held down had fewer threads too, so it says nothing of the board as it is.
    """
    free = [m for m in measurements if "bandwidth_how" not in m.body.get("conditions", {})]
    known = [m for m in free if axes.exists(m.point, catalogue)]
    points = [measured_point(*_without_choices(axes.canonical(m.point, catalogue), m.body)) for m in known[-NEWEST:]]
    told = [p for p in points if (p.decode_s, p.ttft_s, p.mean_kl, p.top1_agreement) != (None, None, None, None)]
    return pooled(told)


def _without_choices(point: OperatingPoint, body: Mapping[str, Any]) -> tuple[OperatingPoint, Mapping[str, Any]]:
    """Return a measurement without the time of choosing tokens anew, which no parameter of a calibration explains."""
    every, choice = float(point.reselect_tokens), body.get("conditions", {}).get("choice_s")
    if not every or not choice or "median" not in body.get("decode_s", {}):
        return point, body
    added_s = choice["median"] / every
    decode_s = {name: value - added_s if name in _QUANTILES else value for name, value in body["decode_s"].items()}
    return replace(point, reselect_tokens=0.0), {**body, "decode_s": decode_s}


def plan(at: OperatingPoint, catalogue: Catalogue) -> list[OperatingPoint]:
    """Return the handful of points that calibrate a point's runtime.

    Trilemma's own decoder runs what teaches most, whatever the point. Another runtime runs its own file in its own
    formats: there the context is what can be varied.
    """
    if at.runtime == DECODER:
        return [axes.canonical(point, catalogue) for point in calibration_plan(catalogue)]
    most = catalogue.models[at.model].max_context_tokens
    plain = replace(at, alpha=0.0, beta=1.0, bandwidth_byte_s=None)
    contexts = [float(n) for n in PLAN_CONTEXT_TOKENS if n <= most] or [float(most)]
    return [axes.canonical(replace(plain, context_tokens=n), catalogue) for n in contexts]


def options_again(at: OperatingPoint) -> dict[str, int] | None:
    """Return what a run that measures the speed of a point again asks for besides.

    Trilemma's own decoder probes the read bandwidth between its tokens, which costs the run its energy.
    """
    return {"probed": 1} if at.runtime == DECODER else None


def candidates(at: OperatingPoint) -> list[OperatingPoint]:
    """Return the points among which the next measurement of a point's runtime is chosen."""
    if at.runtime != DECODER:
        plain = replace(at, alpha=0.0, beta=1.0, bandwidth_byte_s=None)
        return [replace(plain, context_tokens=tokens) for tokens in CANDIDATE_CONTEXT_TOKENS]
    grid = product(PLAN_WEIGHTS, PLAN_KV, CANDIDATE_CONTEXT_TOKENS, CANDIDATE_ALPHA)
    return [OperatingPoint(weights=w, kv=g, context_tokens=tokens, alpha=alpha) for w, g, tokens, alpha in grid]


def kin(point: OperatingPoint, at: OperatingPoint, catalogue: Catalogue) -> bool:
    """Whether one calibration holds for two points of boards in the catalogue; "" is the default power mode."""
    if (point.board, point.runtime) != (at.board, at.runtime) or at.board not in catalogue.boards:
        return False
    first = next(iter(catalogue.boards[at.board].power_modes))
    return (point.power_mode or first) == (at.power_mode or first)
