"""The fit of the model to the measurements of one board, runtime and power mode, and the next one to make."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from app.library import axes
from app.library.axes import exists
from app.library.loop import Loop, seconds
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
from core.calibrate.follow import follow, without_drift
from core.calibrate.observations import MeasuredPoint, measured_point, pooled
from core.predict.options import explains
from core.spec import Catalogue, Estimate, OperatingPoint, Posterior

NEWEST = 400
"""Largest number of fitted measurements, the newest ones: the fit stays fast, and older ones say less about today."""
MOST_REPEATS = 40
"""Largest number of fitted repeats of one point, the newest ones: a point that is watched does not displace others."""
DECODER = OperatingPoint().runtime
ANSWERS = ("decode_s", "ttft_s", "mean_kl", "top1_agreement")
"""The outputs that a calibration is fitted to."""
_QUANTILES = ("median", "q05", "q95")
CANDIDATE_ALPHA = (0.0, 0.3, 0.6, 0.9)
CANDIDATE_CONTEXT_TOKENS = (256.0, 1024.0, 2048.0, 4096.0)


@dataclass(frozen=True, slots=True)
class Fit:
    """A calibration, the loop that follows the board, and the next measurement to make, with the reason in a sentence.

    The posterior of the calibration has the correction by the newest measurements.
    """

    calibration: Calibration
    proposal: tuple[OperatingPoint, str] | None
    loop: Loop | None = None  # None where no time was measured


def fit(
    measurements: Sequence[Measurement], catalogue: Catalogue, at: OperatingPoint, now_s: float | None = None
) -> Fit | None:
    """Fit the model to the measurements of a point's board, runtime and power mode; None without any.

    The posterior of published measurements is the prior. The basis of the result names imported measurements and those
    of a board that is not attached; the points of the attached board are in the plots.

    Parameters
    ----------
    measurements : sequence of Measurement
        In the order in which they were made.
    catalogue : Catalogue
    at : OperatingPoint
    now_s : float, optional
        Time that the board is followed to, in seconds since 1970; now by default.

    Raises
    ------
    ValueError
        The measurements cannot be fitted; one sentence.
    """
    found = _followed(measurements, catalogue, at, time.time() if now_s is None else now_s)
    if found is None:
        return None
    calibration, loop = found
    proposal = None if loop is None else loop.proposal(calibration.posterior, candidates(at), catalogue)
    return Fit(calibration, proposal or next_measurement(calibration, candidates(at), catalogue), loop)


def calibration_of(
    measurements: Sequence[Measurement], catalogue: Catalogue, at: OperatingPoint, now_s: float | None = None
) -> Calibration | None:
    """Return the calibration of `fit` alone."""
    found = _followed(measurements, catalogue, at, time.time() if now_s is None else now_s)
    return None if found is None else found[0]


def _followed(
    measurements: Sequence[Measurement], catalogue: Catalogue, at: OperatingPoint, now_s: float
) -> tuple[Calibration, Loop | None] | None:
    near = [m for m in measurements if share_calibration(m.point, at, catalogue)]
    counted = _counted(near, catalogue)
    if not counted:
        return None
    series, known = [point for _, point in counted], known_before(at, catalogue)
    timed = [(m, point) for m, point in counted if point.decode_s is not None or point.ttft_s is not None]
    calibration, loop = calibrate(pooled(series), catalogue, known=known), None
    if timed:
        repeats = [point for _, point in timed]
        followed = follow(calibration.posterior, repeats, catalogue, now_s)
        if followed.drifting:  # the calibration is that of the usual board
            calibration = calibrate(pooled(without_drift(series, followed)), catalogue, known=known)
            followed = follow(calibration.posterior, repeats, catalogue, now_s)
        loop = Loop(followed, tuple(m for m, _ in timed))
    posterior = replace(calibration.posterior, correction=None if loop is None else loop.followed.correction)
    own = [m for m in near if m.machine]
    if at.board != THIS or len(own) != len(near):
        posterior = replace(posterior, basis=basis(near, len(measured_points(own, catalogue)), posterior.basis))
    return replace(calibration, posterior=posterior), loop


def calibrated_boards(measurements: Sequence[Measurement], catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return a record of each board, runtime and power mode with measurements for `calibration_of`.

    Its ``n_points`` is the number of points of that calibration.
    """
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for measurement in measurements:
        if exists(measurement.point, catalogue):
            at = catalogue.resolve(measurement.point)
            groups.setdefault((at.board.key, at.runtime.key, at.mode.key), []).append(measurement)
    found = []
    for key, group in sorted(groups.items()):
        if counted := _counted(group, catalogue):
            n_points = len(pooled([point for _, point in counted]))
            found.append(_record(catalogue.boards[key[0]].name, key, [m for m, _ in counted], n_points))
    return found


def _record(name: str, key: tuple[str, str, str], measurements: Sequence[Measurement], n_points: int) -> dict[str, Any]:
    origin = {_origin(m) + ("" if m.machine else ", imported") for m in measurements}
    return {
        **dict(zip(("board", "runtime", "power_mode"), key, strict=True)),
        "name": name,
        "n_points": n_points,
        "n_measurements": len(measurements),
        "models": sorted({m.point.model for m in measurements}),
        "last_utc": max(m.time_utc for m in measurements) or {"absent": "the imported table does not tell"},
        "provenance": sorted(origin),
    }


def _origin(measurement: Measurement) -> str:
    outputs = (measurement.output(name) for name in ANSWERS)
    return next(output.provenance.value for output in outputs if isinstance(output, Estimate))


def known_before(at: OperatingPoint, catalogue: Catalogue) -> Posterior | None:
    """Return the posterior of published measurements for a point's board, runtime and power mode; None without any.

    The user's measurements update it, or the prior of the runtime if nothing is published.
    """
    where = catalogue.resolve(at)
    return catalogue.board_posteriors.get((where.board.key, where.runtime.key, where.mode.key))


def measured_points(measurements: Sequence[Measurement], catalogue: Catalogue) -> list[MeasuredPoint]:
    """Return the newest valid measurements as calibration input, repeats together."""
    return pooled([point for _, point in _counted(measurements, catalogue)])


def _counted(measurements: Sequence[Measurement], catalogue: Catalogue) -> list[tuple[Measurement, MeasuredPoint]]:
    """Return the newest valid measurements, each with its calibration input.

    They have one of `ANSWERS`, at a point of the catalogue. A run with limited bandwidth also had fewer threads, so it
    says nothing about the board itself and is left out; so is one with an option whose effect no parameter explains.
    """
    free = [m for m in measurements if "bandwidth_how" not in m.body.get("conditions", {}) and explains(m.point)]
    known = _newest([m for m in free if exists(m.point, catalogue)])
    pairs = [(m, _measured_point(m, catalogue)) for m in known]
    return [(m, p) for m, p in pairs if any(getattr(p, name) is not None for name in ANSWERS)]


def _newest(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the newest `NEWEST`, of each point the newest `MOST_REPEATS`, in their order."""
    n_of = Counter[OperatingPoint]()
    kept = []
    for measurement in reversed(measurements):
        n_of[measurement.point] += 1
        if n_of[measurement.point] <= MOST_REPEATS:
            kept.append(measurement)
        if len(kept) == NEWEST:
            break
    return kept[::-1]


def _measured_point(measurement: Measurement, catalogue: Catalogue) -> MeasuredPoint:
    point = measured_point(*_without_choices(axes.canonical(measurement.point, catalogue), measurement.body))
    return replace(point, time_s=seconds(measurement.time_utc))


def _without_choices(point: OperatingPoint, body: Mapping[str, Any]) -> tuple[OperatingPoint, Mapping[str, Any]]:
    """Return a measurement without the time of token re-selection, which no parameter of a calibration explains."""
    every, choice = float(point.reselect_tokens), body.get("conditions", {}).get("choice_s")
    if not every or not choice or "median" not in body.get("decode_s", {}):
        return point, body
    added_s = choice["median"] / every
    decode_s = {name: value - added_s if name in _QUANTILES else value for name, value in body["decode_s"].items()}
    return replace(point, reselect_tokens=0.0), {**body, "decode_s": decode_s}


def plan(at: OperatingPoint, catalogue: Catalogue) -> list[OperatingPoint]:
    """Return a handful of points that calibrate a point's runtime.

    Trilemma's own decoder runs the most informative points, whatever the point. Another runtime has its own file and
    formats: there only the context varies.
    """
    if at.runtime == DECODER:
        return [axes.canonical(point, catalogue) for point in calibration_plan(catalogue)]
    most = catalogue.models[at.model].max_context_tokens
    plain = replace(at, alpha=0.0, beta=1.0, bandwidth_byte_s=None)
    contexts = [float(n) for n in PLAN_CONTEXT_TOKENS if n <= most] or [float(most)]
    return [axes.canonical(replace(plain, context_tokens=n), catalogue) for n in contexts]


def options_again(at: OperatingPoint) -> dict[str, int] | None:
    """Return the additional options of a repeated speed measurement.

    Trilemma's own decoder probes the read bandwidth between its tokens, so the run has no energy.
    """
    return {"probed": 1} if at.runtime == DECODER else None


def candidates(at: OperatingPoint) -> list[OperatingPoint]:
    """Return the candidates for the next measurement of a point's runtime."""
    if at.runtime != DECODER:
        plain = replace(at, alpha=0.0, beta=1.0, bandwidth_byte_s=None)
        return [replace(plain, context_tokens=tokens) for tokens in CANDIDATE_CONTEXT_TOKENS]
    grid = product(PLAN_WEIGHTS, PLAN_KV, CANDIDATE_CONTEXT_TOKENS, CANDIDATE_ALPHA)
    return [OperatingPoint(weights=w, kv=g, context_tokens=tokens, alpha=alpha) for w, g, tokens, alpha in grid]


def share_calibration(point: OperatingPoint, at: OperatingPoint, catalogue: Catalogue) -> bool:
    """Return True if one calibration holds for two points of boards in the catalogue; "" is the default power mode."""
    if (point.board, point.runtime) != (at.board, at.runtime) or at.board not in catalogue.boards:
        return False
    first = next(iter(catalogue.boards[at.board].power_modes))
    return (point.power_mode or first) == (at.power_mode or first)
