"""The loop that follows a board: residuals of its measurements in time, their drift, alarms, and the correction now.

The residuals of a calibration are a Gaussian process (`core.predict.correction`). Shifts of the cost terms are
mean-reverting random walks of two time constants: hours (the fast loop) and a month (the slow loop, by which
measurements age). Their standard deviations are chosen from small sets that contain zero by the evidence, which is the
product of all one-step-ahead predictive densities; zero holds unless a drift is clearly better, so a steady board keeps
its calibration. A detector tests the one-step-ahead errors of the model without drift for shifts of their mean.

References
----------
.. [1] docs/physics.md M10
.. [2] rasmussen2006, kennedy2001, dawid1984, lai1995, docs/references.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from core.calibrate.disturbance import QUIET_DEGREE
from core.calibrate.observations import DECODE, TTFT, MeasuredPoint, Rows
from core.physics import drift
from core.predict.correction import N_TERMS, correlation, decode_shares, names_of, places, prefill_shares
from core.predict.parameters import extended, ratio_names
from core.spec import Catalogue, OperatingPoint, Posterior
from core.spec.correction import COST_TERMS, Anchors, Correction

Floats = NDArray[np.float64]

FAST_TAU_S, SLOW_TAU_S = 4 * 3600.0, 30 * 86400.0  # [prior] heat and other tenants; wear, updates, another supply
FAST_LOG_SD = (0.0, 0.03, 0.1, 0.2, 0.4)
SLOW_LOG_SD = (0.0, 0.1, 0.3)
"""Standard deviations of the shifts that the evidence chooses from."""

EVIDENCE_NAT = 3.0
"""Gain of evidence over no drift, from which on a drift is taken [nat]: odds of 20 to 1."""

REPEAT_LOG_SD, REPEAT_WEIGHT, LEAST_LOG_SD = 0.015, 4.0, 0.002  # [prior] of repeats of one point; weight; lower bound
OFFSET_LOG_SD = 0.015  # [prior] of a usual repeat above the least one, which the calibration is fitted to
DISTURBED_LOG_SD = 0.5  # [prior] of a fully disturbed time above its prediction: one-sided
SPIKE_SD, SPIKE_LOG = 4.0, 0.05  # distance to the nearest neighbour, from which on a measurement is a spike
WINDOW = 20
THRESHOLD = 4.5
"""Of the shift statistic: in steady noise it is exceeded once in 18,000 measurements (12 days at one a minute)."""

LEAST_SHIFT = 0.02
"""Least mean residual of an alarm: a smaller drift matters to nobody."""

NAMED_PROBABILITY = 0.8
"""Probability from which on one term is named as the one that moved."""


@dataclass(frozen=True, slots=True)
class TermShift:
    """The shift of the time of one cost term now, if it alone moved, and the probability of that among the terms."""

    key: str  # of `COST_TERMS`
    log_shift: float
    log_sd: float
    probability: float


@dataclass(frozen=True, slots=True)
class Followed:
    """A series of measurements followed in time; arrays have one element for each residual, oldest first."""

    owner: NDArray[np.intp]  # index of the measurement in the series
    kind: NDArray[np.intp]  # 0 decode time, 1 time to first token
    time_s: Floats
    shares: Floats  # (4, n), share of each time that goes with each of `COST_TERMS`
    residual: Floats  # ln measured - ln calibrated
    ahead: Floats  # the same against the prediction corrected by the measurements before it
    z: Floats  # standardised one-step-ahead error without drift
    statistic: Floats  # of a shift, over the newest `WINDOW`
    start: NDArray[np.intp]  # index of the residual at which that shift began
    spike: NDArray[np.bool_]  # isolated, not confirmed by another measurement
    fast_log_sd: float  # 0: no drift
    slow_log_sd: float
    evidence_nat: float  # of the drift over none
    terms: tuple[TermShift, ...]
    drift_log: Floats  # drift in each residual, smoothed
    correction: Correction

    @property
    def drifting(self) -> bool:
        """Whether the evidence is for a drift."""
        return self.fast_log_sd > 0.0 or self.slow_log_sd > 0.0

    @property
    def alarms(self) -> NDArray[np.bool_]:
        """Where the detector finds a shift."""
        mean = np.array([self.residual[s : i + 1].mean() - self._level(s) for i, s in enumerate(self.start)])
        found: NDArray[np.bool_] = (self.statistic > THRESHOLD) & (np.abs(mean) >= LEAST_SHIFT)
        return found

    def _level(self, start: int) -> float:
        """Return the median of the residuals before a shift, of which it is one."""
        return float(np.median(self.residual[:start])) if start else 0.0

    @property
    def moved(self) -> TermShift | None:
        """The term that moved; None where the measurements do not tell terms apart."""
        best = max(self.terms, key=lambda term: term.probability)
        return best if best.probability >= NAMED_PROBABILITY else None


def follow(posterior: Posterior, series: Sequence[MeasuredPoint], catalogue: Catalogue, now_s: float) -> Followed:
    """Follow a board through its measurements.

    Parameters
    ----------
    posterior : Posterior
        The calibration, without a correction.
    series : sequence of MeasuredPoint
        Repeats one by one, in the order in which they were made, at least one of them timed. A time before that of an
        earlier measurement counts as equal to it, as after a clock was set back.
    catalogue : Catalogue
    now_s : float
        Time of the correction, by the clock of `series` [s].
    """
    data = _Data.of(posterior, series, catalogue)
    noise = data.noise()
    spike = data.spikes()
    calm = np.where(spike, np.hypot(noise, data.distance()), noise)
    local = data.local()
    error, sd, without = drift.one_step_ahead(data.residual, local + np.diag(calm**2))
    newest = data.owner == data.owner[-1]  # a spike so far; an older one was not confirmed
    z = error / np.where(newest, np.sqrt(np.square(sd) - calm**2 + noise**2), sd)
    statistic, start = drift.shift_statistic(z, WINDOW)
    best, rates = without, (0.0, 0.0)
    every = data.shares.T @ data.shares
    fast, slow = (drift.ornstein_uhlenbeck(data.time_s, data.time_s, tau) for tau in (FAST_TAU_S, SLOW_TAU_S))
    for one in product(FAST_LOG_SD, SLOW_LOG_SD):
        if any(one):
            cov = every * (one[0] ** 2 * fast + one[1] ** 2 * slow)
            evidence = drift.one_step_ahead(data.residual, local + cov + np.diag(calm**2))[2]
            if evidence > max(best, without + EVIDENCE_NAT):
                best, rates = evidence, one
    in_time = rates[0] ** 2 * fast + rates[1] ** 2 * slow
    total = local + every * in_time + np.diag(calm**2)
    ahead = error if not any(rates) else drift.one_step_ahead(data.residual, total)[0]
    correction, solved = data.correction(total, rates, now_s)
    return Followed(
        data.owner,
        data.kind,
        data.time_s,
        data.shares,
        data.residual,
        ahead,
        z,
        statistic,
        start,
        spike,
        *rates,
        best - without,
        data.terms(local + np.diag(calm**2), rates, now_s),
        (every * in_time) @ solved,
        correction,
    )


@dataclass(frozen=True, slots=True)
class _Data:
    """Residuals in the order of their time."""

    posterior: Posterior
    points: tuple[OperatingPoint, ...]  # distinct
    own_byte_s: float
    owner: NDArray[np.intp]
    point: NDArray[np.intp]  # index into `points`
    kind: NDArray[np.intp]
    time_s: Floats
    residual: Floats
    measured_sd: Floats
    disturbed: Floats
    shares: Floats  # (4, n)

    @classmethod
    def of(cls, posterior: Posterior, series: Sequence[MeasuredPoint], catalogue: Catalogue) -> _Data:
        points = tuple(dict.fromkeys(m.point for m in series))
        rows = Rows.of([MeasuredPoint(p, 1.0, ttft_s=1.0) for p in points], catalogue, posterior)
        predicted, _ = rows.model(posterior.log_mean)
        decode, prefill = rows.parts(posterior.log_mean)
        n = len(points)
        shares = np.concatenate([decode_shares(decode)[:, :n], prefill_shares(prefill)[:, n:]], axis=1)
        number = {p: i for i, p in enumerate(points)}
        entries = []
        for i, m in enumerate(series):
            entries += [(i, number[m.point], DECODE, m.decode_s, m.log_sd)] if m.decode_s is not None else []
            entries += [(i, number[m.point], TTFT, m.ttft_s, m.ttft_log_sd)] if m.ttft_s is not None else []
        if not entries:
            raise ValueError("series has no measured time: expected at least one")
        owner, point, kind = (np.array([e[j] for e in entries], dtype=np.intp) for j in range(3))
        value, sd = (np.array([e[j] for e in entries], dtype=float) for j in (3, 4))
        times = np.maximum.accumulate([m.time_s or 0.0 for m in series])
        row = point + n * kind
        own = catalogue.resolve(points[0]).mode.bandwidth_byte_s
        disturbed = np.array([m.disturbed for m in series])[owner]
        residual = np.log(value) - predicted[row]
        return cls(posterior, points, own, owner, point, kind, times[owner], residual, sd, disturbed, shares[:, row])

    @property
    def sds(self) -> tuple[float, float]:
        """Scatter between points, of decode times and of times to first token."""
        return self.posterior.decode_log_sd, self.posterior.ttft_log_sd

    def repeat(self, kind: int) -> float:
        """Return the log-sd of quiet repeats of one point."""
        mine = (self.kind == kind) & (self.disturbed <= QUIET_DEGREE)
        own = drift.repeat_log_sd(self.residual[mine], self.point[mine], REPEAT_LOG_SD, REPEAT_WEIGHT)
        return max(own, LEAST_LOG_SD)

    def noise(self) -> Floats:
        """Return the log-sd of each measurement about the process; a disturbed one is one-sided."""
        repeat = np.array([self.repeat(kind) for kind in (DECODE, TTFT)])[self.kind]
        above = np.where(self.residual > 0.0, DISTURBED_LOG_SD * self.disturbed, 0.0)
        noise: Floats = np.sqrt(np.square(repeat) + np.square(self.measured_sd) + np.square(above))
        return noise

    def spikes(self) -> NDArray[np.bool_]:
        """Return which residuals no other one of their kind confirms."""
        found = np.zeros(len(self.kind), dtype=bool)
        for kind in (DECODE, TTFT):
            mine = self.kind == kind
            limits = (max(SPIKE_SD * sd, SPIKE_LOG) for sd in (self.repeat(kind), self.sds[kind]))
            found[mine] = drift.isolated(self.residual[mine], self.point[mine], *limits)
        return found

    def distance(self) -> Floats:
        """Return the distance of each residual from the median of its kind."""
        middle = np.array([np.median(self.residual[self.kind == k]) if np.any(self.kind == k) else 0.0 for k in (0, 1)])
        away: Floats = np.abs(self.residual - middle[self.kind])
        return away

    def local(self) -> Floats:
        """Return the covariance of the local residuals, and of the offset of usual repeats from the least ones."""
        place = np.array([places(p, self.own_byte_s) for p in self.points])
        names = [names_of(p, 0) for p in self.points]
        alike = np.array([[one == other for other in names] for one in names])
        between = correlation(place, place) * alike
        same_kind = self.kind[:, None] == self.kind[None, :]
        sd = np.array(self.sds)[self.kind]
        near = between[np.ix_(self.point, self.point)] * np.outer(sd, sd)
        found: Floats = same_kind * (near + OFFSET_LOG_SD**2)
        return found

    def correction(self, total: Floats, rates: tuple[float, float], now_s: float) -> tuple[Correction, Floats]:
        """Return the correction at a time, and the residuals solved with their covariance `total`."""
        here = np.array([max(now_s, self.time_s[-1])])
        fast, slow = (drift.ornstein_uhlenbeck(self.time_s, here, tau)[:, 0] for tau in (FAST_TAU_S, SLOW_TAU_S))
        to_terms = self.shares * (rates[0] ** 2 * fast + rates[1] ** 2 * slow)  # (4, n)
        sds = self.sds
        spots = sorted(set(zip(self.kind.tolist(), self.point.tolist(), strict=True)))
        place = np.array([places(self.points[p], self.own_byte_s) for _, p in spots])
        groups: dict[tuple[object, ...], list[int]] = {}
        for i, (kind, p) in enumerate(spots):
            groups.setdefault(names_of(self.points[p], kind), []).append(i)
        before = np.zeros((N_TERMS + len(spots),) * 2)
        before[range(N_TERMS), range(N_TERMS)] = rates[0] ** 2 + rates[1] ** 2
        anchors = {}
        for names, members in groups.items():
            index = np.array(members, dtype=np.intp)
            between = correlation(place[index], place[index])
            inverse: Floats = np.asarray(np.linalg.inv(between + JITTER * np.eye(len(index))), dtype=float)
            anchors[names] = Anchors(place[index], inverse, index + N_TERMS)
            before[np.ix_(index + N_TERMS, index + N_TERMS)] = between * sds[spots[members[0]][0]] ** 2
        kinds = np.array([kind for kind, _ in spots])
        before[N_TERMS:, N_TERMS:] += OFFSET_LOG_SD**2 * (kinds[:, None] == kinds)  # a usual repeat is predicted
        spot_of = {spot: i for i, spot in enumerate(spots)}
        column = np.array([spot_of[k, p] for k, p in zip(self.kind.tolist(), self.point.tolist(), strict=True)])
        cross = np.concatenate([to_terms, before[N_TERMS:, N_TERMS:][:, column]])
        solved = np.linalg.solve(total, np.concatenate([self.residual[:, None], cross.T], axis=1))
        cov = before - cross @ solved[:, 1:]
        return Correction(
            cross @ solved[:, 0], (cov + cov.T) / 2.0, sds, (self.repeat(DECODE), self.repeat(TTFT)), anchors
        ), solved[:, 0]

    def terms(self, rest: Floats, rates: tuple[float, float], now_s: float) -> tuple[TermShift, ...]:
        """Return the shift of each term now if it alone moved, and the probability of that from the evidence."""
        if not any(rates):
            return tuple(TermShift(key, 0.0, 0.0, 1.0 / N_TERMS) for key in COST_TERMS)
        here = np.append(self.time_s, max(now_s, self.time_s[-1]))
        in_time = np.zeros((len(here), len(here)))
        for rate, tau in zip(rates, (FAST_TAU_S, SLOW_TAU_S), strict=True):
            in_time += N_TERMS * rate**2 * drift.ornstein_uhlenbeck(here, here, tau)
        found, evidence = np.zeros((N_TERMS, 2)), np.zeros(N_TERMS)
        for k, share in enumerate(self.shares):
            cov, now = rest + np.outer(share, share) * in_time[:-1, :-1], share * in_time[:-1, -1]
            evidence[k] = drift.one_step_ahead(self.residual, cov)[2]
            solved = np.linalg.solve(cov, np.column_stack([self.residual, now]))
            found[k] = now @ solved[:, 0], np.sqrt(max(in_time[-1, -1] - now @ solved[:, 1], 0.0))
        odds = np.exp(evidence - evidence.max())
        return tuple(
            TermShift(key, float(found[k, 0]), float(found[k, 1]), float(odds[k] / odds.sum()))
            for k, key in enumerate(COST_TERMS)
        )


JITTER = 1e-6  # on the diagonal of correlations of nearly equal points


def most_telling(
    followed: Followed, posterior: Posterior, candidates: Sequence[OperatingPoint], catalogue: Catalogue
) -> tuple[OperatingPoint, float]:
    """Return the candidate whose drift now is least certain, and the log-sd of that drift.

    Its measurement tells most of which term moved, and by how much.
    """
    for point in candidates:
        posterior = extended(posterior, ratio_names(catalogue.resolve(point)))
    rows = Rows.of([MeasuredPoint(point, 1.0) for point in candidates], catalogue, posterior)
    shares = decode_shares(rows.parts(posterior.log_mean)[0])
    cov = followed.correction.cov[:N_TERMS, :N_TERMS]
    variance = np.einsum("in,ij,jn->n", shares, cov, shares)
    best = int(np.argmax(variance))
    return candidates[best], float(np.sqrt(max(variance[best], 0.0)))


def without_drift(series: Sequence[MeasuredPoint], followed: Followed) -> list[MeasuredPoint]:
    """Return the measurements with the smoothed drift taken out of their times: a calibration of the usual board.

    The drift contains that of the bandwidth, so the probed bandwidths are left out.
    """
    found = list(series)
    for i, kind, log in zip(followed.owner, followed.kind, followed.drift_log, strict=True):
        m = found[i]
        if kind == DECODE and m.decode_s is not None:
            found[i] = replace(m, decode_s=float(m.decode_s * np.exp(-log)), read_byte_s=None)
        elif m.ttft_s is not None:
            found[i] = replace(m, ttft_s=float(m.ttft_s * np.exp(-log)))
    return found
