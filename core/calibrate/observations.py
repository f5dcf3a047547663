"""Measured points as arrays, with predictions in logarithms and their Jacobian, as a fit needs them.

Times and accuracy share no parameter, so they are two sets of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.calibrate import bandwidth_drift, disturbance, robust
from core.physics import latency, quality
from core.predict import accuracy
from core.predict.decode import decode_costs
from core.predict.parameters import DECODE_FACTOR, PREFILL_FACTOR, ROW, ROWS, heavy_tailed, loadings
from core.predict.prefill import prefill_costs
from core.spec import PARAMETER_NAMES, Catalogue, OperatingPoint, Posterior, Prior
from core.units import Z90, check_range

Floats = NDArray[np.float64]

DECODE, TTFT = 0, 1  # kinds of observed times
KL, TOP1 = 0, 1  # kinds of observed accuracy
N_SCALE = 10.0  # [prior] weight of a runtime's prior scatter in points: one unusual format must not widen the others
MOST_LOG_EXCESS = 3.0  # of the logarithm of an excess in a step of the fit
REPEAT_DEGREE = 0.1  # repeats within this degree of the quietest one count


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """Measured outputs of one operating point (scalars only). None means that the output was not measured.

    `log_sd` and `ttft_log_sd` are the uncertainty of the measured value itself. The additional scatter between runs is
    fitted.
    """

    point: OperatingPoint
    decode_s: float | None
    log_sd: float = 0.0
    ttft_s: float | None = None
    ttft_log_sd: float = 0.0
    mean_kl: float | None = None  # mean Kullback-Leibler divergence from the reference [nat]
    kl_log_sd: float = 0.0
    top1_agreement: float | None = None
    n_scored: int = 0  # positions of the agreement
    energy_j: float | None = None  # of one token
    power_covers: str = ""  # rail of that energy
    idle_w: float | None = None  # power of the idle board on the same rail
    reselection_s: float | None = None  # of one KV token re-selection
    read_byte_s: float | None = None  # read bandwidth between the tokens of `decode_s`
    disturbed: float = 0.0  # degree of disturbance by other work, see `core.calibrate.disturbance`
    time_s: float | None = None  # when it was measured, seconds of any clock

    def __post_init__(self) -> None:
        for name in ("decode_s", "ttft_s", "energy_j", "reselection_s", "read_byte_s"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 0.0, np.inf, open_low=True, open_high=True)
        for name in ("log_sd", "ttft_log_sd", "kl_log_sd"):
            check_range(name, getattr(self, name), 0.0, open_high=True)
        check_range("disturbed", self.disturbed, 0.0, 1.0)
        if self.mean_kl is not None:
            check_range("mean_kl", self.mean_kl, 0.0, open_high=True)
        if self.top1_agreement is not None:
            check_range("top1_agreement", self.top1_agreement, 0.0, 1.0)
            check_range("n_scored", self.n_scored, 1)


def measured_point(point: OperatingPoint, body: Mapping[str, Any]) -> MeasuredPoint:
    """Return the measured outputs of a run from its record, ``{output: {median, q05, q95, n, ...}}``.

    Disturbed times are less certain than their spread shows, since other work slows all of them. ``conditions`` has
    what is known of it.
    """
    conditions = body.get("conditions", {})
    disturbed = disturbance.degree(conditions)
    decode_s, log_sd = _value(body.get("decode_s"), disturbance.OWN_LOG_SD * disturbed)
    ttft_s, ttft_log_sd = _value(body.get("ttft_s"), disturbance.OWN_LOG_SD * disturbed)
    mean_kl, kl_log_sd = _divergence(body.get("mean_kl"))
    agreement = body.get("top1_agreement") or {}
    top1, n_scored = (float(agreement["median"]), int(agreement.get("n", 1))) if "median" in agreement else (None, 0)
    power_w, _ = _value(body.get("power_w"), 0.0)
    energy_j = power_w * decode_s if power_w and decode_s else None
    idle_w, _ = _value(body.get("idle_power_w"), 0.0)
    covers = str(conditions.get("power_covers", ""))
    quality = mean_kl, kl_log_sd, top1, n_scored
    reselection_s, read_byte_s = (conditions.get(name, {}).get("median") for name in ("choice_s", "read_byte_s"))
    times = decode_s, log_sd, ttft_s, ttft_log_sd
    return MeasuredPoint(point, *times, *quality, energy_j, covers, idle_w, reselection_s, read_byte_s, disturbed)


def pooled(points: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    """Return one measured point for the repeats of each operating point, in the order of first occurrence.

    The time is the smallest of the n quietest repeats: other work on the machine only adds to a time, often for
    minutes, and the model predicts the undisturbed board. Its log-sd is that of one repeat over n, as for the smallest
    of n exponential delays. Accuracy and energy are those measured last. Times with a probed read bandwidth are first
    corrected to the usual bandwidth (`core.calibrate.bandwidth_drift`).
    """
    repeats: dict[OperatingPoint, list[MeasuredPoint]] = {}
    for measured in _at_usual_bandwidth(points):
        repeats.setdefault(measured.point, []).append(measured)
    return [_merged_repeats(of_point) for of_point in repeats.values()]


def _at_usual_bandwidth(points: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    """Return the points with their decode times corrected to the usual bandwidth, where a bandwidth was probed."""
    found = list(points)
    probed = [i for i, m in enumerate(found) if m.decode_s is not None and m.read_byte_s is not None]
    number = {point: n for n, point in enumerate(dict.fromkeys(m.point for m in found))}
    weights = {key: n for n, key in enumerate(sorted({m.point.weights for m in found}))}
    usual = bandwidth_drift.usual_log_time(
        np.log([found[i].decode_s or np.nan for i in probed]),
        np.log([found[i].read_byte_s or np.nan for i in probed]),
        np.array([number[found[i].point] for i in probed], dtype=np.intp),
        np.array([weights[found[i].point.weights] for i in probed], dtype=np.intp),
        np.array([found[i].disturbed <= disturbance.QUIET_DEGREE for i in probed], dtype=bool),
    )
    for i, log_s in zip(probed, usual, strict=True):
        found[i] = replace(found[i], decode_s=float(np.exp(log_s)))
    return found


def _merged_repeats(repeats: Sequence[MeasuredPoint]) -> MeasuredPoint:
    """Return one measured point for the repeats of an operating point."""
    merged = repeats[-1]
    timed = _quietest([m for m in repeats if m.decode_s is not None])
    probed = [m for m in timed if m.read_byte_s is not None]  # preferred: the others are not corrected
    decode = sorted((m.decode_s or np.nan, m.log_sd) for m in probed or timed)
    prompts = _quietest([m for m in repeats if m.ttft_s is not None])
    ttft = sorted((m.ttft_s or np.nan, m.ttft_log_sd) for m in prompts)
    if decode:
        merged = replace(merged, decode_s=decode[0][0], log_sd=decode[0][1] / len(decode))
    if ttft:
        merged = replace(merged, ttft_s=ttft[0][0], ttft_log_sd=ttft[0][1] / len(ttft))
    for least in (timed or prompts)[:1]:
        merged = replace(merged, disturbed=least.disturbed, time_s=least.time_s)
    merged = replace(
        merged, reselection_s=min((m.reselection_s for m in repeats if m.reselection_s is not None), default=None)
    )
    for names in (("mean_kl", "kl_log_sd"), ("top1_agreement", "n_scored"), ("energy_j", "power_covers", "idle_w")):
        last = next((m for m in reversed(repeats) if getattr(m, names[0]) is not None), None)
        if last is not None:
            merged = replace(merged, **{name: getattr(last, name) for name in names})
    return merged


def _quietest(repeats: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    """Return the repeats that are as quiet as the quietest one, that one first: quiet ones win at once."""
    ordered = sorted(repeats, key=lambda m: m.disturbed)
    return [m for m in ordered if m.disturbed <= ordered[0].disturbed + REPEAT_DEGREE]


def _divergence(record: Mapping[str, Any] | None) -> tuple[float | None, float]:
    """Return a recorded mean divergence, and its log-sd from the interval of the mean."""
    if not record or "median" not in record:
        return None, 0.0
    mean, above = float(record["median"]), float(record["q95"]) - float(record["median"])
    return mean, above / (Z90 * mean) if mean > 0.0 else 0.0


def _value(record: Mapping[str, Any] | None, busy_log_sd: float) -> tuple[float | None, float]:
    """Return a recorded median, and its log-sd from the quantiles of the repeats and from disturbance."""
    if not record or "median" not in record:
        return None, 0.0
    median, n = float(record["median"]), max(int(record.get("n", 1)), 1)
    spread = np.log(record["q95"] / record["q05"]) / (2.0 * Z90) if record["q05"] > 0 else 0.0
    return median, float(np.hypot(np.sqrt(np.pi / 2.0) * spread / np.sqrt(n), busy_log_sd))


@dataclass(frozen=True, slots=True)
class Rows:
    """Measured times as arrays: one row per decode time or time to first token."""

    observed: robust.Observed  # logarithms of the measured times
    owner: NDArray[np.intp]  # (n,), index of the measured point of each row
    group: NDArray[np.intp]  # (n,), number of the operating point of each row
    alpha: Floats  # (n,)
    excess: Floats  # (n, p), degree of disturbance at the excess of the row's session
    loading: Floats  # (len(ROWS), n, p)
    decode: latency.DecodeCosts  # fields of shape (n,)
    prefill: latency.PrefillCosts

    @classmethod
    def of(cls, points: Sequence[MeasuredPoint], catalogue: Catalogue, before: Posterior) -> Rows:
        """Return the rows of measured points; `before` gives the parameters and must have the ratios of all points."""
        settings = [catalogue.resolve(m.point) for m in points]
        entries = [(i, DECODE, m.decode_s, m.log_sd) for i, m in enumerate(points) if m.decode_s is not None]
        entries += [(i, TTFT, m.ttft_s, m.ttft_log_sd) for i, m in enumerate(points) if m.ttft_s is not None]
        owner = np.array([e[0] for e in entries], dtype=np.intp)
        observed = robust.Observed(
            np.log([e[2] for e in entries]),
            np.array([e[3] for e in entries], dtype=float),
            np.array([e[1] for e in entries], dtype=np.intp),
        )
        distinct = {m.point: k for k, m in enumerate(points)}
        group = np.array([distinct[points[i].point] for i in owner], dtype=np.intp)
        loading = np.array([loadings(before.names, points[i].point, settings[i]) for i in owner])
        bandwidths = [
            before.bandwidth_byte_s if m.point.bandwidth_byte_s is None else m.point.bandwidth_byte_s for m in points
        ]
        return cls(
            observed,
            owner,
            group,
            np.array([points[i].point.alpha for i in owner], dtype=float),
            _excess(points, owner, observed.kind, before.names),
            loading.reshape(len(owner), len(ROWS), len(before.names)).transpose(1, 0, 2),
            _stack(latency.DecodeCosts, [decode_costs(points[i].point, settings[i], bandwidths[i]) for i in owner]),
            _stack(latency.PrefillCosts, [prefill_costs(points[i].point, settings[i], bandwidths[i]) for i in owner]),
        )

    @property
    def disturbed(self) -> Floats:
        """Degree of disturbance of each row that has an excess."""
        degree: Floats = self.excess.sum(axis=1)
        return degree

    def parts(self, theta: Floats) -> tuple[latency.DecodeParts, latency.PrefillParts]:
        """Return the terms of the decode time and of the time to first token of each row [s]."""
        medians = np.exp((self.loading @ theta)[: len(PARAMETER_NAMES)])  # the first of `ROWS`
        parameters = latency.LatencyParameters(**dict(zip(PARAMETER_NAMES, medians, strict=True)))
        return latency.decode_parts(self.decode, parameters), latency.prefill_parts(self.prefill, parameters)

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the logarithms of the predicted times and their Jacobian."""
        logs = self.loading @ theta
        decode, prefill = self.parts(theta)
        is_decode = self.observed.kind == DECODE
        of_model, of_prefill = logs[ROW[DECODE_FACTOR]], logs[ROW[PREFILL_FACTOR]]
        predicted = np.where(is_decode, np.log(decode.total) + of_model, np.log(prefill.total) + of_prefill)
        of_decode = {**latency.decode_log_gradient(decode), DECODE_FACTOR: 1.0}
        of_ttft = {**latency.prefill_log_gradient(prefill), PREFILL_FACTOR: 1.0}
        slopes = [np.where(is_decode, of_decode.get(name, 0.0), of_ttft.get(name, 0.0)) for name in ROWS]
        jacobian = np.sum(np.array(slopes)[:, :, None] * self.loading, axis=0)
        if not self.excess.any():
            return predicted, jacobian
        longer = self.excess * np.exp(np.minimum(theta, MOST_LOG_EXCESS))
        return predicted + longer.sum(axis=1), jacobian + longer

    def fit(self, before: Posterior, start: Floats | None = None) -> robust.Fit:
        """Return the posterior of the parameters with the prior `before`."""
        scale = np.array([before.decode_log_sd, before.ttft_log_sd]) / robust.NORMAL_SD_PER_SCALE
        heavy = np.array([heavy_tailed(name) for name in before.names])
        heavy &= np.count_nonzero(before.log_cov, axis=1) == 1  # only independent parameters; a fit correlates them
        known = robust.Prior(before.log_mean, before.log_cov, scale, heavy, N_SCALE)
        return robust.fit(self.model, self.observed, known, start)

    def without(self, left_out: NDArray[np.bool_]) -> Rows:
        """Return the rows that are not in the mask `left_out`."""
        keep = ~left_out
        return Rows(
            robust.Observed(*(getattr(self.observed, f.name)[keep] for f in fields(robust.Observed))),
            self.owner[keep],
            self.group[keep],
            self.alpha[keep],
            self.excess[keep],
            self.loading[:, keep],
            latency.DecodeCosts(*(getattr(self.decode, f.name)[keep] for f in fields(latency.DecodeCosts))),
            latency.PrefillCosts(*(getattr(self.prefill, f.name)[keep] for f in fields(latency.PrefillCosts))),
        )


def _excess(
    points: Sequence[MeasuredPoint], owner: NDArray[np.intp], kind: NDArray[np.intp], names: tuple[str, ...]
) -> Floats:
    """Return the degree of disturbance of each row in the column of its session's excess."""
    found, of = np.zeros((len(owner), len(names))), disturbance.sessions([m.time_s for m in points])
    column = {name: j for j, name in enumerate(names)}
    for row, (i, which) in enumerate(zip(owner, kind, strict=True)):
        name = disturbance.excess_name(int(which), of[i])
        if points[i].disturbed and name in column:
            found[row, column[name]] = points[i].disturbed
    return found


def excess_priors(points: Sequence[MeasuredPoint]) -> dict[str, Prior]:
    """Return the priors of the excess of each kind of time in each session with disturbed points."""
    return {
        disturbance.excess_name(kind, session): disturbance.EXCESS
        for m, session in zip(points, disturbance.sessions([m.time_s for m in points]), strict=True)
        for kind, value in ((DECODE, m.decode_s), (TTFT, m.ttft_s))
        if m.disturbed and value is not None
    }


def _stack(kind: Any, costs: list[Any]) -> Any:
    """Return one record of arrays from scalar records."""
    return kind(*(np.array([getattr(c, f.name) for c in costs], dtype=float) for f in fields(kind)))


@dataclass(frozen=True, slots=True)
class AccuracyRows:
    """Measured accuracy as arrays: one row per divergence or top-1 agreement, both in logarithms."""

    names: tuple[str, ...]
    prior_sd: Floats  # (p,)
    observed: robust.Observed
    medians: tuple[Floats, Floats, Floats]  # degradations before measurements, (n,) each
    log_mass: Floats  # (n,)
    loading: Floats  # (5, n, p)

    @classmethod
    def of(cls, points: Sequence[MeasuredPoint], catalogue: Catalogue) -> AccuracyRows:
        """Return the rows of measured points.

        Points that equal the reference are left out, since their logarithm is -inf, and compensated ones, whose
        degradation is not that of their format.
        """
        plain = [m for m in points if m.point.compensation == "none"]
        degraded = [m for m in plain if sum(map(np.sum, accuracy.causes(m.point, catalogue.resolve(m.point)).medians))]
        found = [(m, KL, np.log(m.mean_kl), m.kl_log_sd) for m in degraded if m.mean_kl]
        for m in degraded:
            if m.top1_agreement is not None and m.mean_kl != 0.0:
                n_differing = (1.0 - m.top1_agreement) * m.n_scored + 0.5
                log_share = np.log(-np.log1p(-n_differing / (m.n_scored + 1.0)))
                found.append((m, TOP1, log_share, 1.0 / np.sqrt(n_differing)))
        settings = [catalogue.resolve(m.point) for m, *_ in found]
        prior_sd: dict[str, float] = {}
        for (m, *_), at in zip(found, settings, strict=True):
            prior_sd |= accuracy.ratios(m.point, at)
        causes = [accuracy.causes(m.point, at) for (m, *_), at in zip(found, settings, strict=True)]
        medians = np.array([c.medians for c in causes], dtype=float).reshape(len(found), 3)
        loading = [[[float(n == own) for n in prior_sd] for own in accuracy.names(m.point)] for m, *_ in found]
        return cls(
            tuple(prior_sd),
            np.array(list(prior_sd.values())),
            robust.Observed(
                np.array([value for _, _, value, _ in found], dtype=float),
                np.array([sd for _, _, _, sd in found], dtype=float),
                np.array([kind for _, kind, _, _ in found], dtype=np.intp),
            ),
            (medians[:, 0], medians[:, 1], medians[:, 2]),
            np.array([c.log_mass for c in causes], dtype=float),
            np.array(loading).reshape(len(found), 5, len(prior_sd)).transpose(1, 0, 2),
        )

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the predicted logarithms and their Jacobian."""
        own = self.loading @ theta
        log_d, gradient = accuracy.log_degradation(self.medians, self.log_mass, own)
        is_top1 = self.observed.kind == TOP1
        predicted = np.where(
            is_top1, accuracy.log_disagreement(log_d) + own[4], np.log(quality.KL_PER_DEGRADATION) + log_d
        )
        per_degradation = np.where(is_top1, quality.TOP1_POWER, 1.0)
        slopes = np.array([*(per_degradation * g for g in gradient), is_top1.astype(float)])
        return predicted, np.sum(slopes[:, :, None] * self.loading, axis=0)

    def fit(self, before: Posterior) -> robust.Fit:
        """Return the posterior of the accuracy parameters about their priors."""
        scale = np.array([before.degradation_log_sd, before.top1_log_sd]) / robust.NORMAL_SD_PER_SCALE
        prior = robust.Prior(np.zeros(len(self.names)), np.diag(np.square(self.prior_sd)), scale)
        return robust.fit(self.model, self.observed, prior)
