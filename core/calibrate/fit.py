"""Calibration: fit of the cost parameters to measurements of one board, runtime and power mode.

The parameters are those of `core.predict.parameters`, Gaussian in logarithms about the runtime's priors. Logarithms of
measured times have Student-t residuals with a fitted scale, so that outliers are flagged and get little weight
(`core.calibrate.robust`).

References
----------
docs/physics.md, M10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.calibrate import disturbance, robust
from core.calibrate.energy_fit import ENERGY_NAMES, energy_check, energy_fit, energy_prior
from core.calibrate.leave_one_out import CrossCheck, article_shape, leave_one_out
from core.calibrate.next_point import choose
from core.calibrate.observations import DECODE, TTFT, AccuracyRows, MeasuredPoint, Rows, excess_priors
from core.calibrate.reselection import check as check_reselections
from core.calibrate.reselection import fitted_cost, measured_reselections
from core.predict import conformal
from core.predict.parameters import Physical, extended, physical_parameters, prior, ratio_names, same_model
from core.spec import Catalogue, Estimate, OperatingPoint, Posterior, Provenance, ResolvedPoint
from core.spec.interval_scale import IntervalScale
from core.units import Z90

Floats = NDArray[np.float64]

OUTLIER_SCALES = 5.0  # residuals beyond this many scales are flagged: one in 130 by chance
IDENTIFIED_SHRINKAGE = 0.20  # least narrowing of an identified parameter
UNKNOWN_ENERGY_J_BYTE, UNKNOWN_ENERGY_LOG_SD = 5e-10, 1.0  # [prior] boards from 185 pJ/byte (a GPU rail) to 1240 (wall)
CALIBRATED, PREDICTED = Provenance.CALIBRATED, Provenance.PREDICTED

N_PLAN = 10  # two points of each weight format: a single one would be checked against the prior of its format only
PLAN_ROUNDS = 4
"""Repeats of the plan; the smallest time of each point counts, since other work slows a run by some per cent."""
PLAN_WEIGHTS = ("fp32", "bf16", "int8", "int4")
PLAN_KV = ("bf16", "int8")
PLAN_CONTEXT_TOKENS = (256, 1024, 2048)
PLAN_ALPHA = (0.0, 0.9)


@dataclass(frozen=True, slots=True)
class ParameterEstimate:
    """One physical parameter before and after the measurements."""

    key: str
    meaning: str
    label: str
    unit: str
    estimate: Estimate
    prior: Estimate
    shrinkage_frac: float  # 1 - posterior over prior standard deviation, in logarithms

    @property
    def identified(self) -> bool:
        """Whether the points narrow the parameter by at least `IDENTIFIED_SHRINKAGE`."""
        return self.shrinkage_frac >= IDENTIFIED_SHRINKAGE

    @property
    def verdict(self) -> str:
        """The narrowing by the points, in words."""
        if not self.identified:
            return "not identified by these points"
        return f"narrowed by {100 * self.shrinkage_frac:.0f} %"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Posterior of a calibration, with residuals and leave-one-out checks.

    Residuals are logarithms of measured over fitted times by point, NaN where the time was not measured.
    """

    points: tuple[MeasuredPoint, ...]
    posterior: Posterior
    parameters: tuple[ParameterEstimate, ...]
    decode_log_residual: Floats
    ttft_log_residual: Floats
    outlier: NDArray[np.bool_]  # by point; outliers stay in the fit with little weight
    condition_number: float  # largest over smallest precision of a combination of parameters, in prior units
    check: CrossCheck | None = None  # of decode_s
    ttft_check: CrossCheck | None = None
    article_check: CrossCheck | None = None  # of the article's formula on the same points, its constant fitted
    reselection_check: CrossCheck | None = None  # of KV token re-selection
    power_check: CrossCheck | None = None  # of power at the measured time, on the rail of the last energy

    @property
    def busy(self) -> str:
        """The warning that most points were disturbed by other programs, in a sentence; "" otherwise."""
        timed = [m for m in self.points if m.decode_s is not None or m.ttft_s is not None]
        return disturbance.sentence(sum(m.disturbed > disturbance.QUIET_DEGREE for m in timed), len(timed))


def calibrate(
    points: Sequence[MeasuredPoint],
    catalogue: Catalogue,
    *,
    at: OperatingPoint | None = None,
    known: Posterior | None = None,
    check: bool = True,
) -> Calibration:
    """Fit the cost parameters of one board, runtime and power mode to measurements.

    Parameters
    ----------
    points : sequence of MeasuredPoint
        Without points the posterior is the prior. Of energies on several power rails, only those on the rail of the
        last point are used; otherwise the order does not matter.
    catalogue : Catalogue
    at : OperatingPoint, optional
        Board, runtime and power mode where there are no points.
    known : Posterior, optional
        Prior of the fit, such as a board posterior; the runtime's prior by default.
    check : bool
        Whether to refit without each point and predict it from the others.

    Raises
    ------
    ValueError
        Points of different boards, runtimes or power modes, or with keys that the catalogue does not have.
    """
    board = _same_board(points, catalogue, at or OperatingPoint())
    before = known or prior(board)
    for measured in points:
        before = extended(before, ratio_names(catalogue.resolve(measured.point)))
    before = extended(before, excess_priors(points))
    rows, timed = Rows.of(points, catalogue, before), before
    fitted = rows.fit(timed)
    accuracy_rows = AccuracyRows.of(points, catalogue)
    before = extended(before, dict(zip(accuracy_rows.names, accuracy_rows.prior_sd, strict=True)))
    posterior = _posterior(before, fitted, rows, accuracy_rows)
    condition_number = _condition_number(before, posterior)
    posterior, power_check = _with_energy(posterior, points, catalogue, board, check=check)
    reselections = (
        []
        if board.runtime.reselection is None
        else measured_reselections(points, catalogue, posterior.bandwidth_byte_s)
    )
    if board.runtime.reselection is not None and reselections:
        posterior = replace(posterior, reselection=fitted_cost(board.runtime.reselection, reselections))
    parameters = [
        which
        for which in physical_parameters(
            [m.point for m in points],
            with_ttft=posterior.n_ttft > 0,
            with_accuracy=posterior.n_quality > 0,
            rate_known=board.mode.compute_op_s is not None,
        )
        if not set(which.names).isdisjoint(before.names)  # without policies whose accuracy was not measured
    ]
    posterior, checks = _scaled(posterior, rows, timed, points, catalogue, check=check)
    return Calibration(
        tuple(points),
        posterior,
        tuple(_parameter_estimate(which, before, posterior) for which in parameters),
        *_residuals(rows, fitted, len(points)),
        condition_number,
        checks.get(DECODE),
        checks.get(TTFT),
        article_shape(rows) if check else None,
        check_reselections(board.runtime.reselection, reselections)
        if check and board.runtime.reselection is not None
        else None,
        power_check,
    )


def calibration_plan(
    catalogue: Catalogue, point: OperatingPoint | None = None, *, n: int = N_PLAN
) -> list[OperatingPoint]:
    """Return a greedy plan of `n` points that together narrow the predictions most within about a minute of measuring.

    Parameters
    ----------
    catalogue : Catalogue
    point : OperatingPoint, optional
        Board, runtime, power mode, model, policy and layout of all points. Its formats are candidates beside
        `PLAN_WEIGHTS` and `PLAN_KV`.
    n : int
        Number of points.

    Returns
    -------
    list of OperatingPoint
        Most informative first.
    """
    point = replace(point or OperatingPoint(), beta=1.0, bandwidth_byte_s=None)
    at = catalogue.resolve(point)
    contexts = [n for n in PLAN_CONTEXT_TOKENS if n <= at.model.max_context_tokens] or [at.model.max_context_tokens]
    candidates = [
        replace(point, weights=w, kv=g, context_tokens=float(tokens), alpha=alpha)
        for w in dict.fromkeys((point.weights, *PLAN_WEIGHTS))
        for g in dict.fromkeys((point.kv, *PLAN_KV))
        for tokens in contexts
        for alpha in PLAN_ALPHA
        if w in catalogue.weight_formats and g in catalogue.kv_formats
    ]
    return [chosen_point.point for chosen_point in choose(prior(at), candidates, catalogue, n=n)]


def next_measurement(
    calibration: Calibration, candidates: Sequence[OperatingPoint], catalogue: Catalogue
) -> tuple[OperatingPoint, str] | None:
    """Return the candidate whose measurement narrows the predictions of all candidates most, with the reason.

    Parameters
    ----------
    calibration : Calibration
    candidates : sequence of OperatingPoint
        Scalars only; measured points are skipped.
    catalogue : Catalogue

    Returns
    -------
    (point, sentence) or None
        None where no candidate narrows the predictions by 1 % or more.
    """
    measured = {m.point for m in calibration.points if m.disturbed <= disturbance.QUIET_DEGREE}
    new = [point for point in candidates if point not in measured]
    chosen = choose(calibration.posterior, new, catalogue, n=1, matters=candidates)
    if not chosen or chosen[0].narrowing_frac < 0.01:
        return None
    chosen_point = chosen[0]
    best, meaning = max(
        (1.0 - which.log_sd(chosen_point.after) / which.log_sd(chosen_point.before), which.meaning)
        for which in physical_parameters([chosen_point.point], with_ttft=False)
    )
    p = chosen_point.point
    return p, (
        f"{p.weights} weights, {p.kv} KV, alpha {float(p.alpha):g}, context {float(p.context_tokens):g} narrows the "
        f"{meaning} by {100 * best:.0f} % and the predictions by {100 * chosen_point.narrowing_frac:.0f} %"
    )


def _same_board(points: Sequence[MeasuredPoint], catalogue: Catalogue, at: OperatingPoint) -> ResolvedPoint:
    settings = [catalogue.resolve(measured.point) for measured in points] or [catalogue.resolve(at)]
    found = sorted({(s.board.key, s.runtime.key, s.mode.key) for s in settings})
    if len(found) > 1:
        raise ValueError(
            "points = measurements of " + " and ".join("/".join(key) for key in found) + "; expected one board, "
            "runtime and power mode"
        )
    return settings[0]


def _residuals(rows: Rows, fitted: robust.Fit, n_points: int) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return the residuals of decode times and of times to first token by point, and which points are outliers."""
    decode, ttft = np.full((2, n_points), np.nan)
    outlier = np.zeros(n_points, dtype=bool)
    spread = np.sqrt(np.square(fitted.scale[rows.observed.kind]) + np.square(rows.observed.noise_sd))
    for kind, of_points in ((DECODE, decode), (TTFT, ttft)):
        mine = rows.observed.kind == kind
        of_points[rows.owner[mine]] = fitted.residual[mine]
        outlier[rows.owner[mine]] |= (np.abs(fitted.residual) > OUTLIER_SCALES * spread)[mine]
    return decode, ttft, outlier


def _posterior(before: Posterior, fitted: robust.Fit, rows: Rows, accuracy_rows: AccuracyRows) -> Posterior:
    """Return the joint posterior of times and accuracy, which share no parameter."""
    accuracy = accuracy_rows.fit(before)
    cov = before.log_cov.copy()
    n = len(fitted.mean)
    cov[:n, :n], cov[n:, n:] = fitted.cov, accuracy.cov
    decode_sd, ttft_sd = fitted.scale * robust.NORMAL_SD_PER_SCALE
    degradation_sd, top1_sd = accuracy.scale * robust.NORMAL_SD_PER_SCALE
    return replace(
        before,
        log_mean=np.concatenate([fitted.mean, accuracy.mean]),
        log_cov=cov,
        decode_log_sd=float(decode_sd),
        ttft_log_sd=float(ttft_sd),
        degradation_log_sd=float(degradation_sd),
        top1_log_sd=float(top1_sd),
        moved_from="" if np.any(rows.observed.kind == DECODE) else before.moved_from,
        n_decode=int(np.sum(rows.observed.kind == DECODE)),
        n_ttft=int(np.sum(rows.observed.kind == TTFT)),
        n_quality=len(accuracy_rows.observed.value),
    )


def _with_energy(
    posterior: Posterior, points: Sequence[MeasuredPoint], catalogue: Catalogue, at: ResolvedPoint, *, check: bool
) -> tuple[Posterior, CrossCheck | None]:
    """Return the posterior with the fit of the energies, and its check; of several rails, that of the last energy."""
    rail = next((m.power_covers for m in reversed(points) if m.energy_j is not None), None)
    if rail is None:
        return posterior, None
    same = [m for m in points if m.energy_j is not None and m.power_covers == rail]
    stated = at.board.system_energy_j_byte
    before = (
        (UNKNOWN_ENERGY_J_BYTE, UNKNOWN_ENERGY_LOG_SD) if stated is None else (stated, at.board.system_energy_log_sd)
    )
    prior = energy_prior(rail, at.mode.bandwidth_byte_s, *before)
    fitted = energy_fit(same, catalogue, prior, posterior.energy_log_sd)
    known = extended(posterior, dict.fromkeys(ENERGY_NAMES, 1.0))
    index = [known.names.index(name) for name in ENERGY_NAMES]
    mean, cov = known.log_mean.copy(), known.log_cov.copy()
    mean[index], cov[np.ix_(index, index)] = fitted.mean, fitted.cov
    scatter = float(fitted.scale[0] * robust.NORMAL_SD_PER_SCALE)
    idle = next((m.idle_w for m in reversed(same) if m.idle_w is not None), None)
    found = replace(
        known,
        log_mean=mean,
        log_cov=cov,
        energy_log_sd=scatter,
        power_covers=rail,
        n_energy=len(same),
        idle_power_w=idle,
    )
    return found, energy_check(same, catalogue, prior, posterior.energy_log_sd) if check else None


def _scaled(
    posterior: Posterior,
    rows: Rows,
    before: Posterior,
    points: Sequence[MeasuredPoint],
    catalogue: Catalogue,
    *,
    check: bool,
) -> tuple[Posterior, dict[int, CrossCheck]]:
    """Return the posterior with its interval scale, and the leave-one-out checks by kind of observation.

    The scale follows from the scores of published boards and, with `check`, from those of the board's own points.
    """
    model = np.array([same_model(points[i].point.model) for i in rows.owner], dtype=str)
    of_other = conformal.bucket(len(np.unique(model)))
    board_scores = {
        (kind, of): conformal.population(catalogue.held_out, posterior.runtime, quantity, of)
        for kind, quantity in ((DECODE, "decode_s"), (TTFT, "ttft_s"))
        for of in (conformal.SEEN, of_other)
    }
    start = posterior.log_mean[: len(before.names)]
    by_kind = {kind: board_scores[kind, conformal.SEEN] for kind in (DECODE, TTFT)}
    checks = leave_one_out(rows, before, start, board_scores=by_kind) if check else {}
    several = check and len(np.unique(model)) > 1
    others = leave_one_out(rows, before, start, model) if several else checks

    def factor(kind: int, of: str, found: dict[int, CrossCheck]) -> float:
        alone = conformal.factor(board_scores[kind, of], np.zeros(0))
        if kind not in found:
            return alone
        quiet = rows.disturbed[rows.observed.kind == kind] <= disturbance.QUIET_DEGREE
        if not quiet.any():  # disturbed points can only widen intervals
            return max(alone, conformal.factor(board_scores[kind, of], found[kind].score))
        return conformal.factor(board_scores[kind, of], found[kind].score[quiet])

    interval_scale = IntervalScale(
        *(factor(kind, conformal.SEEN, checks) for kind in (DECODE, TTFT)),
        *(factor(kind, of_other, others) for kind in (DECODE, TTFT)),
    )
    own = checks[DECODE].score.tolist() if DECODE in checks else []
    return replace(
        posterior, interval_scale=interval_scale, interval_scale_basis=conformal.sentence(interval_scale, own)
    ), checks


def _condition_number(before: Posterior, posterior: Posterior) -> float:
    root = np.linalg.cholesky(before.log_cov)
    precision = root.T @ np.linalg.inv(posterior.log_cov) @ root
    eigenvalues = np.linalg.eigvalsh(precision)
    return float(eigenvalues[-1] / eigenvalues[0])


def _parameter_estimate(which: Physical, before: Posterior, posterior: Posterior) -> ParameterEstimate:
    """Return the estimate of a parameter before and after the fit."""
    first, now = (_estimate(which, of, origin) for of, origin in ((before, PREDICTED), (posterior, CALIBRATED)))
    shrinkage = 1.0 - which.log_sd(posterior) / which.log_sd(before)
    return ParameterEstimate(which.key, which.meaning, which.label, which.unit, now, first, shrinkage)


def _estimate(which: Physical, of: Posterior, provenance: Provenance) -> Estimate:
    median, factor = which.median(of), float(np.exp(Z90 * which.log_sd(of)))
    return Estimate(median, median / factor, median * factor, provenance)
