"""Splits of published times into fitted and predicted rows, and the errors of each. See `core.tables.validation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from core.calibrate import robust
from core.calibrate.leave_one_out import FEWEST, leave_one_out
from core.calibrate.next_point import most_informative
from core.calibrate.observations import DECODE, TTFT, MeasuredPoint, Rows
from core.predict import conformal
from core.predict.parameters import FACTORS, extended, prior, ratio_names, same_model
from core.predict.power_mode_transfer import transferred
from core.predict.scenario import initial_posterior
from core.spec import Catalogue, Posterior, Prior
from core.tables.as_points import ComparedRow
from core.tables.hierarchical_priors import points_of, subsampled
from core.tables.scores import Residuals

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

N_POINTS = (1, 3, 5)
DATA_SHEET_SHARE = 0.65  # of the peak bandwidth (docs/physics.md, M1)


@dataclass(slots=True)
class SplitResiduals:
    """Residuals of all groups by quantity and method."""

    parts: dict[tuple[str, str], list[Residuals]] = field(default_factory=dict)

    def add(
        self,
        quantity: str,
        method: str,
        row: Sequence[int],
        log_error: Floats,
        log_sd: Floats,
        *,
        own: Floats | None = None,
        of: str = "",
    ) -> None:
        """Add residuals of rows, with own scores and bucket for their interval scale."""
        own = np.zeros(0) if own is None else own
        part = Residuals(np.asarray(row, dtype=np.intp), np.asarray(log_error), np.asarray(log_sd), own, of)
        self.parts.setdefault((quantity, method), []).append(part)


class TimeSplits:
    """The times of one board, unit, runtime and power mode; their arrays serve all splits."""

    def __init__(self, rows: Sequence[ComparedRow], number: Sequence[int], catalogue: Catalogue) -> None:
        self.rows, self.catalogue = rows, catalogue
        self.at = catalogue.resolve(rows[0].decode)
        owners = [(i, row) for i, row in enumerate(rows) for _ in points_of([row])]
        points = points_of(rows)
        self.points = points
        self.before = _extended(prior(self.at), points, catalogue)
        self.observations = Rows.of(points, catalogue, self.before)
        self.kind = self.observations.observed.kind
        owner = np.array([owners[i][0] for i in self.observations.owner], dtype=np.intp)
        self.number = np.array([number[i] for i in owner], dtype=np.intp)
        self.model = np.array([same_model(rows[i].decode.model) for i in owner], dtype=str)
        self.inside = np.array([not rows[i].outside for i in owner], dtype=bool)
        kept = {id(row) for row in subsampled([row for row in rows if not row.outside])}
        self.in_fit = np.array([id(rows[i]) in kept for i in owner], dtype=bool)  # rows that fits may use
        self.owner = owner

    def evaluate(self, found: SplitResiduals) -> None:
        """Predict the times by all methods except "other_mode"."""
        self._evaluate_data_sheet(found)
        if self.rows[0].bandwidth_known:
            self._evaluate_shipped(found)
        self._evaluate_left_out("leave_one_model_out", self.before, found)
        self._evaluate_left_out("unseen_model", _without_model_factors(self.before, self.points, self.catalogue), found)
        for model in dict.fromkeys(self.model):
            self._evaluate_same_model(self.model == model, found)
        for n, kind in product(N_POINTS, (DECODE, TTFT)):
            chosen = self._chosen(n, kind)
            others = ~np.isin(self.model, self.model[chosen]) & (self.kind == kind)
            if len(chosen) == n and others.any():
                in_fit = np.isin(self.owner, self.owner[chosen])
                own = {kind: self._left_out_scores(in_fit, kind)} if n >= FEWEST else None
                self._add(found, f"k{n}", others, *self._fitted(in_fit), own=own, of=conformal.bucket(n))

    def _evaluate_left_out(self, method: str, before: Posterior, found: SplitResiduals) -> None:
        """Predict each model from all others; their scores, found in the same way, give its interval scale."""
        log_s, log_sd = np.full((2, len(self.number)), np.nan)
        for model in dict.fromkeys(self.model):
            mine = self.model == model
            if not mine.all() and (self.in_fit & ~mine).any():
                in_fit = self.in_fit & ~mine
                of_fit = self._fitted(in_fit, before)
                predictable = mine & self._predictable(int(np.count_nonzero(self.kind[in_fit] == TTFT)))
                log_s[predictable], log_sd[predictable] = of_fit[0][predictable], of_fit[1][predictable]
        known = np.isfinite(log_sd)
        score = np.abs(log_s - self.observations.observed.value) / log_sd
        of = conformal.bucket(len(set(self.model[self.in_fit])) - 1) if known.any() else ""
        for model in dict.fromkeys(self.model[known]):
            mine = known & (self.model == model)
            own = {kind: score[known & ~mine & self.in_fit & (self.kind == kind)] for kind in (DECODE, TTFT)}
            self._add(found, method, mine, log_s, log_sd, own=own, of=of)

    def _predictable(self, n_ttft: int) -> Mask:
        """Return the mask of predictable times: those to first token need a known compute rate or measured ones."""
        predictable: Mask = (self.kind == DECODE) | self.rows[0].compute_known | (n_ttft > 0)
        return predictable

    def decode_without_model(self, rows: Sequence[int]) -> tuple[Floats, Floats]:
        """Return predictions of ln(decode time) of rows without the rows' models, and their log-sd.

        They are those of the prior where the board has no other rows.
        """
        log_s, log_sd = np.full((2, len(rows)), np.nan)
        fitted = dict[str, tuple[Floats, Floats]]()
        for j, i in enumerate(rows):
            mine = np.flatnonzero((self.owner == i) & (self.kind == DECODE))
            if not mine.size:
                continue
            model = str(self.model[mine[0]])
            if model not in fitted:
                fitted[model] = self._fitted(self.in_fit & (self.model != model))
            log_s[j], log_sd[j] = (of[mine[0]] for of in fitted[model])
        return log_s, log_sd

    def _left_out_scores(self, in_fit: Mask, kind: int) -> Floats:
        rows = self.observations.without(~in_fit)
        check = leave_one_out(rows, self.before, self.before.log_mean, self.model[in_fit]).get(kind)
        return np.zeros(0) if check is None else check.score

    def evaluate_other_mode(self, other: TimeSplits, found: SplitResiduals) -> None:
        """Predict the times of this mode from rows of the same models in another mode."""
        if not (self.rows[0].bandwidth_known and other.rows[0].bandwidth_known and other.in_fit.any()):
            return
        if self.at.mode.key == other.at.mode.key:
            return
        fit = other.observations.without(~other.in_fit).fit(other.before)
        known = _posterior(other.before, fit)
        known = _extended(transferred(known, other.at.mode, self.at.mode), self.points, self.catalogue)
        mine = np.isin(self.model, other.model[other.in_fit]) & self.inside
        self._add(found, "other_mode", mine, *_predicted(self._observations(known), known), of=conformal.SEEN)

    def _evaluate_shipped(self, found: SplitResiduals) -> None:
        """Predict by the board posterior with its interval scale where there is one, else by the runtime's prior."""
        shipped = initial_posterior(self.at, self.catalogue)
        known = _extended(shipped, self.points, self.catalogue)
        log_s, log_sd = _predicted(self._observations(known), known)
        fitted = shipped.n_decode + shipped.n_ttft > 0
        if fitted:
            seen = np.array([f"model.{model}" in shipped.names for model in self.model])
            interval_scale = shipped.interval_scale
            decode, ttft = (
                np.where(seen, a, b)
                for a, b in (
                    (interval_scale.decode, interval_scale.decode_other),
                    (interval_scale.ttft, interval_scale.ttft_other),
                )
            )
            log_sd = log_sd * np.where(self.kind == DECODE, decode, ttft)
        self._add(
            found, "shipped", self._predictable(shipped.n_ttft), log_s, log_sd, of="" if fitted else conformal.bucket(0)
        )

    def _observations(self, known: Posterior) -> Rows:
        return Rows.of(self.points, self.catalogue, known)

    def _fitted(self, in_fit: Mask, before: Posterior | None = None) -> tuple[Floats, Floats]:
        before = before or self.before
        return _predicted(self.observations, _posterior(before, self.observations.without(~in_fit).fit(before)))

    def _evaluate_data_sheet(self, found: SplitResiduals) -> None:
        decode = self.kind == DECODE
        costs = self.observations.decode
        log_s = np.log(np.asarray(costs.weight_byte) / (DATA_SHEET_SHARE * np.asarray(costs.bandwidth_byte_s)))
        if self.rows[0].bandwidth_known:
            self._add(found, "data_sheet", decode, log_s, np.full(len(log_s), np.nan))

    def _evaluate_same_model(self, mine: Mask, found: SplitResiduals) -> None:
        """Predict a model's other formats and contexts from its row of median time and the rows of other models."""
        of_model = np.flatnonzero(mine & self.in_fit & (self.kind == DECODE))
        if not of_model.size:
            return
        middle = of_model[np.argsort(self.observations.observed.value[of_model], kind="stable")[of_model.size // 2]]
        here = self.rows[self.owner[middle]].decode
        other = np.array([self.rows[i].decode != here for i in self.owner]) & mine & (self.kind == DECODE)
        if other.any():
            in_fit = (self.in_fit & ~mine) | (np.arange(len(mine)) == middle)
            self._add(found, "same_model", other, *self._fitted(in_fit), of=conformal.SEEN)

    def _chosen(self, n: int, kind: int) -> list[int]:
        """Return the indices of up to `n` times of a kind, of different models, that narrow all predictions most."""
        first = dict[tuple[str, str], int]()
        for i in np.flatnonzero(self.in_fit & (self.kind == kind)):
            first.setdefault((self.model[i], self.rows[self.owner[i]].weights), int(i))
        left = list(first.values())
        gradient = self.observations.model(self.before.log_mean)[1]
        aims = gradient[left]
        cov, chosen = self.before.log_cov, list[int]()
        while left and len(chosen) < n:
            scatter = np.hypot(
                (self.before.decode_log_sd, self.before.ttft_log_sd)[kind], self.observations.observed.noise_sd[left]
            )
            best, cov = most_informative(gradient[left], aims, cov, scatter)
            chosen.append(left[best])
            left = [i for i in left if self.model[i] != self.model[chosen[-1]]]
        return chosen

    def _add(
        self,
        found: SplitResiduals,
        method: str,
        rows: Mask,
        log_s: Floats,
        log_sd: Floats,
        *,
        own: Mapping[int, Floats] | None = None,
        of: str = "",
    ) -> None:
        for kind, quantity in ((DECODE, "decode_s"), (TTFT, "ttft_s")):
            mine = rows & (self.kind == kind)
            error = log_s[mine] - self.observations.observed.value[mine]
            mine_own = (own or {}).get(kind)
            found.add(quantity, method, self.number[mine].tolist(), error, log_sd[mine], own=mine_own, of=of)


def _extended(posterior: Posterior, points: Sequence[MeasuredPoint], catalogue: Catalogue) -> Posterior:
    for point in points:
        posterior = extended(posterior, ratio_names(catalogue.resolve(point.point)))
    return posterior


def _without_model_factors(before: Posterior, points: Sequence[MeasuredPoint], catalogue: Catalogue) -> Posterior:
    """Return the prior without factors of models from other boards."""
    bare = {key: replace(runtime, model_factor={}, prompt_factor={}) for key, runtime in catalogue.runtimes.items()}
    mean, cov = before.log_mean.copy(), before.log_cov.copy()
    for point in points:
        for name, log_sd in ratio_names(replace(catalogue, runtimes=bare).resolve(point.point)).items():
            if name.startswith(FACTORS) and not isinstance(log_sd, Prior):
                i = before.names.index(name)
                mean[i], cov[i, i] = 0.0, log_sd**2
    return replace(before, log_mean=mean, log_cov=cov)


def _posterior(before: Posterior, fit: robust.Fit) -> Posterior:
    decode_log_sd, ttft_log_sd = (float(scale) for scale in fit.scale * robust.NORMAL_SD_PER_SCALE)
    return replace(before, log_mean=fit.mean, log_cov=fit.cov, decode_log_sd=decode_log_sd, ttft_log_sd=ttft_log_sd)


def _predicted(rows: Rows, known: Posterior) -> tuple[Floats, Floats]:
    """Return the logarithms of predicted times, and the log-sds of new measurements as uncertain as each row."""
    log_s, jacobian = rows.model(known.log_mean)
    scatter = np.array([known.decode_log_sd, known.ttft_log_sd])[rows.observed.kind]
    variance = np.sum(jacobian @ known.log_cov * jacobian, axis=1) + np.square(scatter)
    return log_s, np.sqrt(variance + np.square(rows.observed.noise_sd))
