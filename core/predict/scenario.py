"""Prediction of all outputs of an operating point, by the formulas of `core.physics`.

Intervals follow from the delta method in logarithms: the log-variance of an output is the quadratic form of its
gradient by the log parameters with their covariance, plus the scatter of a new measurement. Nothing is sampled, so one
point takes microseconds and an array of points one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.physics import latency, power
from core.predict import accuracy, conformal, options, validity
from core.predict.chunks import joined
from core.predict.correction import DECODE, TTFT, corrected, decode_shares, prefill_shares
from core.predict.decode import decode_costs, saved_frac
from core.predict.parameters import (
    DECODE_FACTOR,
    PREFILL_FACTOR,
    ROW,
    ROWS,
    extended,
    loadings,
    plain,
    prior,
    quadratic,
    ratio_names,
    same_model,
)
from core.predict.power_limit import limited
from core.predict.power_mode_transfer import transferred
from core.predict.prefill import prefill_costs
from core.spec import (
    NUMBERS,
    NUMERIC,
    PARAMETER_NAMES,
    Absent,
    Array,
    Catalogue,
    Estimate,
    OperatingPoint,
    Output,
    Posterior,
    Prediction,
    Provenance,
    ResolvedPoint,
)
from core.spec.interval_scale import IntervalScale
from core.units import Z90

IDLE_FRAC, IDLE_LOG_SD = 0.3, 0.4
"""[prior] idle over usual decoding power of a board in a power mode, without a known idle power: 0.15 to 0.58."""
ENERGY_PARAMETERS = ("energy_j_byte", "static_power_w")
CHUNK = 1 << 14  # points per pass: intermediate arrays fit in the processor's cache
LEAST_LOG_SD = 1e-3  # of a corrected prediction
BOUNDS = np.array(["compute", "memory", "power"])  # indexed by whether memory binds, or power


def initial_posterior(at: ResolvedPoint, catalogue: Catalogue) -> Posterior:
    """Return the posterior of a board, runtime and power mode before any measurement of the user.

    The board posterior of this power mode; else that of another mode of the board, transferred to this one; else the
    prior of the runtime.
    """
    same = catalogue.board_posteriors.get((at.board.key, at.runtime.key, at.mode.key))
    if same is not None:
        return same
    for mode in at.board.power_modes.values():
        other = catalogue.board_posteriors.get((at.board.key, at.runtime.key, mode.key))
        if other is not None:
            moved = transferred(other, mode, at.mode)
            return replace(moved, basis=f"{other.basis} in mode {mode.key}, moved to {at.mode.key}")
    return scaled_prior(at, catalogue)


def scaled_prior(at: ResolvedPoint, catalogue: Catalogue) -> Posterior:
    """Return the runtime's prior with the interval scale of held-out published boards."""
    decode, ttft = (
        conformal.factor(conformal.population(catalogue.held_out, at.runtime.key, quantity, "0"), np.zeros(0))
        for quantity in ("decode_s", "ttft_s")
    )
    return replace(prior(at), interval_scale=IntervalScale(decode, ttft, decode, ttft))


def predict(point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None = None) -> Prediction:
    """Predict all outputs of an operating point, or of an array of points.

    Parameters
    ----------
    point : OperatingPoint
        Its numeric fields may be arrays that broadcast; all outputs have the broadcast shape.
    catalogue : Catalogue
        Records of the point's keys.
    posterior : Posterior, optional
        Posterior of a calibration. One of another board, runtime or power mode is ignored, as the provenance of the
        outputs shows; the default is `initial_posterior`.

    Raises
    ------
    ValueError
        An unknown key, or a number outside its range; the message names it.

    References
    ----------
    docs/physics.md, M1 to M6 and M10.
    """
    at = catalogue.resolve(point)
    _check(point, at)
    if posterior is None or (posterior.board, posterior.runtime, posterior.power_mode) != (
        at.board.key,
        at.runtime.key,
        at.mode.key,
    ):
        posterior = initial_posterior(at, catalogue)
    if posterior.reselection is not None:
        at = replace(at, runtime=replace(at.runtime, reselection=posterior.reselection))
    known = _PointPosterior.of(posterior, point, at)
    numbers = _numbers(point)
    shape = np.broadcast_shapes(*(value.shape for value in numbers.values()))
    n = int(np.prod(shape))
    if n <= CHUNK:
        return _predict(replace(point, **numbers), at, known)
    flat = {name: np.broadcast_to(value, shape).reshape(-1) for name, value in numbers.items()}
    starts = range(0, n, CHUNK)
    pieces: list[Any] = [{name: value[i : i + CHUNK] for name, value in flat.items()} for i in starts]
    return joined((_predict(replace(point, **piece), at, known) for piece in pieces), CHUNK, shape)


def _numbers(point: OperatingPoint) -> dict[str, Any]:
    """Return the numeric fields with array values, as arrays of floats."""
    given = {name: getattr(point, name) for name in NUMERIC}
    return {name: np.asarray(value, dtype=float) for name, value in given.items() if np.ndim(value)}


def _check(point: OperatingPoint, at: ResolvedPoint) -> None:
    highest = {"context_tokens": at.model.max_context_tokens}
    for field in NUMBERS:
        value = getattr(point, field.name)
        if value is not None:
            field.check(value, highest.get(field.name))


@dataclass(frozen=True, slots=True)
class _PointPosterior:
    """A posterior for one resolved point: latency parameters, factors of the model, and scaled covariances."""

    posterior: Posterior
    parameters: latency.LatencyParameters
    model_factor: Array
    prefill_factor: float
    decode_scale: float  # interval scales
    ttft_scale: float
    decode_log_var: float  # of a new measurement, without the parameters; multiplied by the squared interval scale
    ttft_log_var: float
    decode_log_cov: NDArray[np.float64]  # of the logarithms of `ROWS`, with the interval scale of decode times
    ttft_log_cov: NDArray[np.float64]  # the same with the interval scale of times to first token

    @classmethod
    def of(cls, posterior: Posterior, point: OperatingPoint, at: ResolvedPoint) -> _PointPosterior:
        seen, interval_scale = f"model.{same_model(at.model.key)}" in posterior.names, posterior.interval_scale
        decode, ttft = (
            (interval_scale.decode, interval_scale.ttft)
            if seen
            else (interval_scale.decode_other, interval_scale.ttft_other)
        )
        posterior = extended(posterior, ratio_names(at) | accuracy.ratios(point, at))
        rows = loadings(posterior.names, point, at)
        medians = dict(zip(ROWS, np.exp(rows @ posterior.log_mean).tolist(), strict=True))
        cov = rows @ posterior.log_cov @ rows.T
        return cls(
            posterior,
            latency.LatencyParameters(**{name: medians[name] for name in PARAMETER_NAMES}),
            model_factor=medians[DECODE_FACTOR],
            prefill_factor=medians[PREFILL_FACTOR],
            decode_scale=decode,
            ttft_scale=ttft,
            decode_log_var=(decode * posterior.decode_log_sd) ** 2,
            ttft_log_var=(ttft * posterior.ttft_log_sd) ** 2,
            decode_log_cov=decode**2 * cov,
            ttft_log_cov=ttft**2 * cov,
        )


def _estimate(median: Array, log_sd: Array, provenance: Provenance) -> Estimate:
    factor = np.exp(Z90 * np.asarray(log_sd))
    return Estimate(plain(median), plain(median / factor), plain(median * factor), provenance)


def _log_variance(gradient_s: Mapping[str, Array], total_s: Array, cov: NDArray[np.float64]) -> Array:
    """Return the variance of ln(time) from its gradient by name and the covariance of `ROWS`."""
    return quadratic({ROW[name]: slope_s for name, slope_s in gradient_s.items()}, cov) / np.square(total_s)


def _origin(n_points: int) -> Provenance:
    return Provenance.CALIBRATED if n_points else Provenance.PREDICTED


def _predict(point: OperatingPoint, at: ResolvedPoint, known: _PointPosterior) -> Prediction:
    bandwidth = known.posterior.bandwidth_byte_s if point.bandwidth_byte_s is None else point.bandwidth_byte_s
    costs = decode_costs(point, at, bandwidth)
    perplexity_ratio, top1_agreement = accuracy.predicted(point, at, known.posterior)
    unknown = options.unknown_accuracy(point)
    if unknown is not None:
        perplexity_ratio = top1_agreement = unknown
    held = options.memory_byte(point, at, point.context_tokens, 1.0 - np.asarray(saved_frac(point, at)))
    memory_byte = Estimate(plain(held), plain(held), plain(held), Provenance.PREDICTED)
    outside = validity.outside(point, at)
    if at.weights.accuracy_only:
        no = Absent(
            f"{at.weights.key} exists for its accuracy only: no kernel multiplies it, so its speed is not known"
        )
        return Prediction(no, no, no, no, perplexity_ratio, top1_agreement, memory_byte, {}, "", outside)
    parts = latency.decode_parts(costs, known.parameters)
    gradient_s = {**latency.decode_gradient_s(parts), DECODE_FACTOR: parts.total}
    variance = _log_variance(gradient_s, parts.total, known.decode_log_cov)
    if at.runtime.reselection is not None:
        variance = variance + (at.runtime.reselection.log_sd * parts.reselection / parts.total) ** 2
    variance = variance + known.decode_log_var
    if known.posterior.correction is not None:
        shift, added = corrected(known.posterior.correction, DECODE, point, at, decode_shares(parts))
        known = replace(known, model_factor=known.model_factor * np.exp(shift))
        variance = np.maximum(variance + known.decode_scale**2 * added, LEAST_LOG_SD**2)
    decode_s = _estimate(parts.total * known.model_factor, np.sqrt(variance), _origin(known.posterior.n_decode))
    energy_j, power_w = _energy(point, at, known, costs, parts, decode_s, variance)
    limit_binds: Array | NDArray[np.bool_] = False
    free_s, ttft_s = decode_s.median, _ttft(point, at, known, bandwidth)
    idle_w = rest_power_w(at, known.posterior)
    if isinstance(energy_j, Estimate) and isinstance(power_w, Estimate):
        own = limited(point, at, known.posterior, decode_s, energy_j, power_w, ttft_s, idle_w)
        decode_s, energy_j, power_w, ttft_s = own.decode_s, own.energy_j, own.power_w, own.ttft_s
        outside += own.outside
        limit_binds = own.binds
    waits_s = np.subtract(decode_s.median, free_s)
    return Prediction(
        decode_s=decode_s,
        ttft_s=ttft_s,
        power_w=power_w,
        energy_j_per_token=energy_j,
        perplexity_ratio=perplexity_ratio,
        top1_agreement=top1_agreement,
        memory_byte=memory_byte,
        parts_s=_parts_s(parts, known.model_factor) | {"power": plain(waits_s)},
        binding=_binding(parts, limit_binds),
        outside=outside,
    )


def _energy(
    point: OperatingPoint,
    at: ResolvedPoint,
    of: _PointPosterior,
    costs: latency.DecodeCosts,
    parts: latency.DecodeParts,
    decode_s: Estimate,
    decode_log_var: Array,
) -> tuple[Output, Output]:
    """Return energy and mean power of a token, on the rail of the energy per byte.

    The energy per byte is that at the board's own bandwidth and beta. At other values the decode time differs, and with
    it the energy of the idle power.
    """
    known = of.posterior
    if known.n_energy and "static_power_w" in known.names:
        return _measured_energy(at, known, costs.dram_byte, decode_s, decode_log_var)
    if known.n_energy:
        i = known.names.index("energy_j_byte")
        per_byte = float(np.exp(known.log_mean[i]))
        energy_log_sd = float(np.sqrt(known.log_cov[i, i] + known.energy_log_sd**2))
    elif at.board.system_energy_j_byte is not None:
        per_byte, energy_log_sd = at.board.system_energy_j_byte, at.board.system_energy_log_sd
    else:
        missing = Absent(f"no source states the energy per byte of {at.board.name}")
        return missing, missing
    energy_j = power.decode_energy_j(costs.dram_byte, per_byte)
    if np.any(point.on_chip_frac):
        energy_j = np.maximum(energy_j, rest_power_w(at, known) * np.asarray(decode_s.median))
    energy_var: Array = energy_log_sd**2
    if point.bandwidth_byte_s is not None or np.any(np.not_equal(point.beta, 1.0)):
        own_s = latency.own_pace_s(parts, costs, known.bandwidth_byte_s) * of.model_factor
        idle_w = np.minimum(rest_power_w(at, known), energy_j / own_s)
        idle_log_sd = IDLE_LOG_SD if idle_power_w(at, known) is None else 0.0
        paced_j = power.paced_energy_j(energy_j, own_s, decode_s.median, idle_w)
        if idle_log_sd:
            energy_var = energy_var + np.square(idle_log_sd * (1.0 - energy_j / paced_j))
        energy_j = paced_j
    power_w = power.mean_power_w(energy_j, decode_s.median)
    origin = _origin(known.n_energy)
    return (
        _estimate(energy_j, np.sqrt(energy_var), origin),
        _estimate(power_w, np.sqrt(energy_var + decode_log_var), origin),
    )


def _measured_energy(
    at: ResolvedPoint, known: Posterior, moved_byte: Array, decode_s: Estimate, decode_log_var: Array
) -> tuple[Output, Output]:
    """Return energy and mean power of a token from the fitted energy per byte and static power."""
    i, j = known.names.index("energy_j_byte"), known.names.index("static_power_w")
    per_byte, static_w = np.exp(known.log_mean[[i, j]])
    static_w = max(float(static_w), idle_power_w(at, known) or 0.0)
    energy_j = power.mixed_energy_j(moved_byte, decode_s.median, per_byte, static_w)
    share = static_w * decode_s.median / energy_j
    cov = known.log_cov
    variance = (1.0 - share) ** 2 * cov[i, i] + 2.0 * share * (1.0 - share) * cov[i, j] + share**2 * cov[j, j]
    variance = variance + known.energy_log_sd**2
    origin = _origin(known.n_energy)
    return (
        _estimate(energy_j, np.sqrt(variance + share**2 * decode_log_var), origin),
        _estimate(
            power.mean_power_w(energy_j, decode_s.median),
            np.sqrt(variance + (1.0 - share) ** 2 * decode_log_var),
            origin,
        ),
    )


def idle_power_w(at: ResolvedPoint, known: Posterior) -> float | None:
    """Return the idle power on the rail of the energies [W]: the measured one, or else the board's own."""
    if known.idle_power_w is not None:
        return known.idle_power_w
    same_rail = not known.n_energy or known.power_covers in ("", at.board.power_rail)
    return at.board.idle_power_w if same_rail else None


def rest_power_w(at: ResolvedPoint, known: Posterior) -> float:
    """Return the power of the board at rest in a power mode [W], the same for all of its points.

    The idle power where it is known, else a prior share of the usual decoding power.
    """
    idle_w = idle_power_w(at, known)
    if idle_w is not None:
        return idle_w
    if known.n_energy and "static_power_w" in known.names:
        per_byte, static_w = np.exp(known.log_mean[[known.names.index(name) for name in ENERGY_PARAMETERS]])
        usual_w = per_byte * power.USUAL_READ_SHARE * known.bandwidth_byte_s + static_w
        return float(min(static_w, IDLE_FRAC * usual_w))
    if known.n_energy:
        per_byte = float(np.exp(known.log_mean[known.names.index("energy_j_byte")]))
    else:
        per_byte = at.board.system_energy_j_byte or 0.0
    return IDLE_FRAC * per_byte * power.USUAL_READ_SHARE * known.bandwidth_byte_s


def _ttft(point: OperatingPoint, at: ResolvedPoint, known: _PointPosterior, bandwidth: Array) -> Output:
    if at.mode.compute_op_s is None and not known.posterior.n_ttft:
        return Absent(f"no source states the compute rate of {at.board.name}, and no prompt was measured on it")
    parts = latency.prefill_parts(prefill_costs(point, at, bandwidth), known.parameters)
    gradient_s = {**latency.prefill_gradient_s(parts), PREFILL_FACTOR: parts.total}
    variance = _log_variance(gradient_s, parts.total, known.ttft_log_cov) + known.ttft_log_var
    factor: Array = known.prefill_factor
    if known.posterior.correction is not None:
        shift, added = corrected(known.posterior.correction, TTFT, point, at, prefill_shares(parts))
        factor, variance = factor * np.exp(shift), np.maximum(variance + known.ttft_scale**2 * added, LEAST_LOG_SD**2)
    return _estimate(parts.total * factor, np.sqrt(variance), _origin(known.posterior.n_ttft))


def _parts_s(parts: latency.DecodeParts, factor: Array) -> dict[str, Array]:
    excess = np.maximum(parts.compute - parts.memory, 0.0)
    terms = {name: getattr(parts, name) for name in latency.TERMS} | {"compute": excess}
    return {name: plain(term * factor) for name, term in terms.items()}


def _binding(parts: latency.DecodeParts, limit_binds: Array | NDArray[np.bool_]) -> NDArray[np.str_] | str:
    by_memory = np.greater_equal(parts.memory, parts.compute).astype(int)
    named = BOUNDS.take(np.where(limit_binds, 2, by_memory))
    return named if named.ndim else str(named)
