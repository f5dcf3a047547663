"""Validation of the model on a table of published measurements.

Rows are grouped by board, unit, runtime, power mode and weight format. No method uses the row that it predicts:

=====================  ================================================================================================
``data_sheet``         bytes over 65 % of the peak bandwidth: the data sheet alone
``shipped``            the board posterior if there is one, else the runtime's prior
``leave_one_model_out``  calibrated on all rows of the board, runtime and mode except those of the row's model
``unseen_model``       the same with a prior without the model's factor from other boards
``k1``, ``k3``, ``k5``  calibrated on that many rows, of different models, chosen by the program; other models predicted
``same_model``         calibrated on all other models and one row of the model; its other formats and contexts predicted
``other_mode``         calibrated in another power mode with the model, and transferred to the row's mode
=====================  ================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.calibrate import robust
from core.calibrate.energy_fit import ENERGY_NAMES, energy_fit, energy_prior, log_energy
from core.calibrate.observations import MeasuredPoint
from core.predict.decode import decode_costs
from core.predict.parameters import same_model
from core.predict.scenario import initial_posterior
from core.spec import Catalogue
from core.tables import held_out
from core.tables.as_points import ComparedRow, Comparison
from core.tables.hierarchical_priors import groups_of
from core.tables.scores import Parts, Residuals, Score, Summary, predictions
from core.tables.splits import N_POINTS, SplitResiduals, TimeSplits

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

GROUP = ["board", "unit", "runtime", "power_mode", "weights", "outside"]
QUANTITIES = ("decode_s", "ttft_s", "energy_j_per_token")
METHODS = (
    "data_sheet",
    "shipped",
    "leave_one_model_out",
    "unseen_model",
    "k1",
    "k3",
    "k5",
    "same_model",
    "other_mode",
)
ENERGY_J_BYTE, ENERGY_LOG_SD, ENERGY_SCATTER = 5e-10, 1.0, 0.15  # [prior], as in core.calibrate.fit
FEW_MODELS = 4  # groups with fewer are weak evidence on other models


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The scores of one board, unit, runtime, power mode and weight format: quantity -> method -> score."""

    board: str
    unit: str
    runtime: str
    power_mode: str
    weights: str
    outside: str  # reason that the equations do not apply; "" where they do
    bandwidth_known: bool
    n_rows: Mapping[str, int]  # by quantity
    n_models: int
    scores: Mapping[str, Mapping[str, Score]]
    shipped: Mapping[str, Mapping[str, Score]]  # scores of the method "shipped" on the rows that each method predicts


@dataclass(frozen=True, slots=True)
class Report:
    """Result of `validate`; `groups` are in the order of the table."""

    groups: tuple[GroupReport, ...]
    predictions: pd.DataFrame  # columns of `core.tables.scores.predictions`; `row` is the number in the comparison
    unscaled: Parts  # the same predictions with unscaled intervals, one record per fit

    def summary(
        self, quantity: str, method: str, fewest_models: int = 1, *, by_shipped: bool = False
    ) -> Summary | None:
        """Return the summary of one method for one quantity, over the groups inside the model's range.

        Parameters
        ----------
        quantity, method : str
            One of `QUANTITIES` and of `METHODS`. Times count only for groups with a known bandwidth, so that all
            methods are compared on the same boards.
        fewest_models : int
            Least number of models of a group.
        by_shipped : bool
            Whether to score the method "shipped" on the rows that `method` predicts, which are fewer than all.
        """
        groups = [
            group
            for group in self.groups
            if not group.outside
            and group.n_models >= fewest_models
            and (group.bandwidth_known or quantity == "energy_j_per_token")
        ]
        found = [(group.board, (group.shipped if by_shipped else group.scores)[quantity]) for group in groups]
        having = [(board, scores[method]) for board, scores in found if method in scores]
        return Summary.of([score for _, score in having], [board for board, _ in having])


def validate(compared: Comparison, catalogue_of: Callable[[str], Catalogue] | None = None) -> Report:
    """Predict all rows by all methods.

    Parameters
    ----------
    compared : Comparison
    catalogue_of : callable, optional
        Returns the catalogue for a board in the table's words, such as one with priors fitted without its rows; that
        of the comparison by default.
    """
    found = SplitResiduals()
    number = {id(row): i for i, row in enumerate(compared.rows)}
    by_group = groups_of(compared.rows)
    catalogues = {board: catalogue_of(board) if catalogue_of else compared.catalogue for board, *_ in by_group}
    for key, rows in by_group.items():
        times = TimeSplits(rows, [number[id(row)] for row in rows], catalogues[key[0]])
        times.evaluate(found)
        _evaluate_energy(rows, [number[id(row)] for row in rows], times, found)
        for other, theirs in by_group.items():
            if other[:3] == key[:3] and other[3] != key[3]:
                times.evaluate_other_mode(
                    TimeSplits(theirs, [number[id(row)] for row in theirs], catalogues[key[0]]), found
                )
    scaled = held_out.scaled(found.parts, compared, leave_board_out=catalogue_of is not None)
    predicted = predictions(scaled)
    return Report(_reports(compared, predicted), predicted, found.parts)


def _reports(compared: Comparison, predicted: pd.DataFrame) -> tuple[GroupReport, ...]:
    about = [
        (*row.group, row.weights, row.outside, same_model(row.decode.model), row.bandwidth_known)
        for row in compared.rows
    ]
    rows = pd.DataFrame(about, columns=[*GROUP, "model", "bandwidth_known"])
    for quantity in QUANTITIES:
        rows[quantity] = [_has(row, quantity) for row in compared.rows]
    predicted = predicted.join(rows[GROUP], on="row")
    shipped = predicted[predicted["method"] == "shipped"].drop(columns="method")
    same_rows = shipped.merge(predicted[["quantity", "method", "row"]].drop_duplicates(), on=["quantity", "row"])
    scores, by_shipped = (_scores(one, rows["model"].tolist()) for one in (predicted, same_rows))
    return tuple(
        GroupReport(
            **dict(zip(GROUP, key, strict=True)),
            bandwidth_known=bool(mine["bandwidth_known"].all()),
            n_rows={quantity: int(mine[quantity].sum()) for quantity in QUANTITIES},
            n_models=mine["model"].nunique(),
            scores={quantity: _of_methods(scores, key, quantity) for quantity in QUANTITIES},
            shipped={quantity: _of_methods(by_shipped, key, quantity) for quantity in QUANTITIES},
        )
        for key, mine in rows.groupby(GROUP, sort=False)
    )


def _scores(predicted: pd.DataFrame, models: Sequence[str]) -> dict[tuple[str, ...], Score | None]:
    """Return the score of each group, quantity and method."""
    by = predicted.groupby([*GROUP, "quantity", "method"], sort=False)[["row", "log_error", "log_sd"]]
    return {key: Score.of(Residuals(*(of[name].to_numpy() for name in of)), models) for key, of in by}


def _of_methods(
    scores: Mapping[tuple[str, ...], Score | None], group: tuple[str, ...], quantity: str
) -> dict[str, Score]:
    found = {method: scores.get((*group, quantity, method)) for method in METHODS}
    return {method: score for method, score in found.items() if score is not None}


def _has(row: ComparedRow, quantity: str) -> bool:
    return getattr(row.row, quantity) is not None


def _evaluate_energy(
    rows: Sequence[ComparedRow], number: Sequence[int], times: TimeSplits, found: SplitResiduals
) -> None:
    """Predict energies per token from energies of other models on the same rail."""
    rails = dict[str, list[int]]()
    for i, row in enumerate(rows):
        if row.row.energy_j_per_token is not None and not row.outside:
            rails.setdefault(row.row.text["power_rail"], []).append(i)
    for rail, mine in rails.items():
        points = [
            MeasuredPoint(rows[i].decode, rows[i].row.decode_s, energy_j=rows[i].row.energy_j_per_token) for i in mine
        ]
        model = np.array([same_model(rows[i].decode.model) for i in mine])
        _Energies(rail, points, model, [number[i] for i in mine], *times.decode_without_model(mine)).evaluate(
            found, times.catalogue
        )


class _Energies:
    """The energies of one board, unit, runtime, power mode and rail."""

    def __init__(
        self,
        rail: str,
        points: Sequence[MeasuredPoint],
        model: NDArray[np.str_],
        number: Sequence[int],
        log_s: Floats,
        log_sd: Floats,
    ) -> None:
        self.rail, self.points, self.model = rail, points, model
        self.number = np.array(number, dtype=np.intp)
        self.log_s, self.log_sd = log_s, log_sd  # of decode times, predicted without the model
        self.log_j = np.log([float(p.energy_j or np.nan) for p in points])

    def evaluate(self, found: SplitResiduals, catalogue: Catalogue) -> None:
        """Predict the energies by all methods that apply."""
        at = catalogue.resolve(self.points[0].point)
        costs = [decode_costs(p.point, catalogue.resolve(p.point), 1.0) for p in self.points]
        self.byte = np.array([float(c.weight_byte + c.kv_byte) for c in costs])
        self.before = energy_prior(self.rail, at.mode.bandwidth_byte_s, ENERGY_J_BYTE, ENERGY_LOG_SD)
        known = initial_posterior(at, catalogue)
        if known.n_energy and known.power_covers == self.rail:
            index = [known.names.index(name) for name in ENERGY_NAMES]
            everything = np.ones(len(self.points), dtype=bool)
            cov = known.log_cov[np.ix_(index, index)]
            self._add(found, "shipped", everything, known.log_mean[index], cov, known.energy_log_sd)
        for name in dict.fromkeys(self.model):
            if (self.model != name).any():
                self._fit(found, "leave_one_model_out", self.model != name, self.model == name, catalogue)
        for n in N_POINTS:
            chosen = self._spread(n)
            others = ~np.isin(self.model, self.model[chosen])
            if others.any():
                self._fit(found, f"k{n}", np.isin(np.arange(len(self.model)), chosen), others, catalogue)

    def _spread(self, n: int) -> list[int]:
        """Return one row of each of `n` models, evenly spaced in the order of the bytes that a token moves."""
        first = {name: int(np.flatnonzero(self.model == name)[0]) for name in dict.fromkeys(self.model)}
        ordered = sorted(first.values(), key=lambda i: self.byte[i])
        picked = {int((j + 0.5) / n * len(ordered)) for j in range(n)}
        return [ordered[j] for j in sorted(picked)]

    def _fit(self, found: SplitResiduals, method: str, in_fit: Mask, others: Mask, catalogue: Catalogue) -> None:
        given = [point for point, use in zip(self.points, in_fit, strict=True) if use]
        fit = energy_fit(given, catalogue, self.before, ENERGY_SCATTER)
        self._add(found, method, others, fit.mean, fit.cov, float(fit.scale[0] * robust.NORMAL_SD_PER_SCALE))

    def _add(self, found: SplitResiduals, method: str, rows: Mask, mean: Floats, cov: Floats, scatter: float) -> None:
        log_j, slopes = log_energy(mean, self.byte[rows], np.exp(self.log_s[rows]))
        variance = np.sum(slopes @ cov * slopes, axis=1) + scatter**2
        log_sd = np.sqrt(variance + np.square(slopes[:, 1] * self.log_sd[rows]))
        found.add("energy_j_per_token", method, self.number[rows].tolist(), log_j - self.log_j[rows], log_sd)
