"""Priors of runtimes from published measurements of many boards: hierarchical model, empirical Bayes.

Each group of rows (a board, runtime of the catalogue and power mode) has its own logarithms of the cost parameters::

    group ~ N(runtime, S)    runtime ~ N(class, F)    class ~ N(prior, C)

rho and the share of the compute rate are relative to their shift by the board's data sheet
(`core.predict.parameters.data_sheet_shift`). S, diagonal and common to all groups, is the variance between boards; the
variance of assumed rates of a board (`core.predict.parameters.data_sheet_log_sd`) is added. Means and S follow by
expectation maximisation: each group is fitted under the current priors (`core.calibrate.observations`), then runtimes
and classes are averaged with shrinkage. A runtime with few boards is shrunk to its class, and a class to the prior, so
an unmeasured board is predicted from other boards of its runtime or class.

References
----------
docs/physics.md, M10.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.calibrate.observations import MeasuredPoint, Rows
from core.predict.parameters import (
    DECODE_FACTOR,
    FACTORS,
    PREFILL_FACTOR,
    data_sheet_log_sd,
    data_sheet_shift,
    extended,
    prior,
    ratio_names,
)
from core.spec import PARAMETER_NAMES, PARAMETERS, Catalogue, Posterior, Prior, Runtime
from core.tables.as_points import ComparedRow
from core.tables.model_effects import MODEL_LOG_SD, Factor, Key, expected_factors, scatter

Floats = NDArray[np.float64]

PRIOR = np.log([p.median for p in PARAMETERS])
"""[prior] of every class, except for the share of the compute rate."""
COMPUTE_SHARE: Mapping[str, float] = {"npu": 0.15, "cpu": 0.3, "gpu": 0.25, "compiled_gpu": 0.4}
"""[prior] share of the peak compute rate that prefill reaches, least on NPUs (docs/physics.md, M2)."""
CLASS_SD, RUNTIME_SD, FIRST_BOARD_SD, LEAST_BOARD_SD = (
    np.array([getattr(p.spread, of) for p in PARAMETERS]) for of in ("classes", "runtimes", "boards", "least_boards")
)
UNINFORMATIVE_LOG_SD = 10.0  # of a share of an unknown compute rate, which does not inform other boards
N_ROUNDS = 8
MOST_ROWS = 40  # of a group: more rows of the same models add no information
MOST_FOLDS, N_FIT_FOLDS, FEWEST_FOLDS = 32, 640, 4
"""More boards than the first are left out in folds, fewer of them the more boards there are to fit."""

SIZE_LOG_SD = 0.10  # [prior] of the effect common to models of similar size
REPEAT_LOG_SD = 0.04  # [prior] of a new run; tables of one board and model differ by 3 to 10 %


def prior_of(name: str) -> Floats:
    """Return the prior mean of a class of runtimes, in the order of `core.spec.PARAMETERS`."""
    mean = PRIOR.copy()
    mean[PARAMETER_NAMES.index("eta_compute")] = np.log(COMPUTE_SHARE[name])
    return mean


class Normal(NamedTuple):
    """Independent normal distributions of logarithms, in the order of `core.spec.PARAMETERS`."""

    mean: Floats
    sd: Floats

    @classmethod
    def of_either(cls, either: Sequence[Normal]) -> Normal:
        """Return the normal distribution with the mean and variance of an equal mixture."""
        mean = np.mean([one.mean for one in either], axis=0)
        variance = np.mean([np.square(one.sd) + np.square(one.mean - mean) for one in either], axis=0)
        return cls(mean, np.sqrt(variance))


@dataclass(frozen=True, slots=True)
class Population:
    """The fitted hierarchical model, in logarithms in the order of `core.spec.PARAMETERS`."""

    runtimes: Mapping[str, Normal]  # predictive distribution of a new board, by key of the runtime
    classes: Mapping[str, Normal]  # the same for a runtime without rows, by class
    n_groups: int
    n_rows: int
    model_log_sd: Mapping[Key, float] = field(default_factory=dict)  # by runtime and kind of factor
    factors: Mapping[Key, Mapping[str, Prior]] = field(default_factory=dict)  # then by model

    def applied(self, runtime: Runtime) -> Runtime:
        """Return the runtime with these priors; a runtime without rows has those of its possible classes."""
        known = self.runtimes.get(runtime.key) or Normal.of_either([self.classes[c] for c in runtime.possible_classes])
        priors = {
            name: Prior(float(np.exp(mean)), float(sd)) for name, mean, sd in zip(PARAMETER_NAMES, *known, strict=True)
        }
        scatter: dict[str, Any] = {
            "model_log_sd": self.model_log_sd.get((runtime.key, DECODE_FACTOR), MODEL_LOG_SD),
            "prompt_log_sd": self.model_log_sd.get((runtime.key, PREFILL_FACTOR), MODEL_LOG_SD),
            "model_factor": self.factors.get((runtime.key, DECODE_FACTOR), {}),
            "prompt_factor": self.factors.get((runtime.key, PREFILL_FACTOR), {}),
            "size_log_sd": SIZE_LOG_SD,
            "repeat_log_sd": REPEAT_LOG_SD,
        }
        return replace(runtime, priors=priors, **scatter)


def points_of(rows: Iterable[ComparedRow]) -> list[MeasuredPoint]:
    """Return the times of rows as measured points; decode time and time to first token have different contexts."""
    points = []
    for row in rows:
        if row.row.decode_s is not None:
            points.append(MeasuredPoint(row.decode, row.row.decode_s, row.log_sd))
        if row.row.ttft_s is not None:
            points.append(MeasuredPoint(row.prefill, None, ttft_s=row.row.ttft_s, ttft_log_sd=row.log_sd))
    return points


def subsampled(rows: Sequence[ComparedRow], most: int = MOST_ROWS) -> list[ComparedRow]:
    """Return at most `most` rows, or one of each sort if there are more sorts.

    A sort is a model with the kinds of its measured times. Each sort has the same upper limit of rows, which are evenly
    spaced over the sort.
    """
    sorts = dict[tuple[str, bool, bool], list[ComparedRow]]()
    for row in rows:
        sort = row.decode.model, row.row.decode_s is not None, row.row.ttft_s is not None
        sorts.setdefault(sort, []).append(row)
    counts = [len(of_sort) for of_sort in sorts.values()]
    share = max((n for n in range(1, most + 1) if sum(min(n, count) for count in counts) <= most), default=1)
    return [one for of_sort in sorts.values() for one in of_sort[:: -(-len(of_sort) // share)]]


def groups_of(rows: Iterable[ComparedRow]) -> dict[tuple[str, str, str, str], list[ComparedRow]]:
    """Return rows by board, unit, runtime and power mode."""
    groups = dict[tuple[str, str, str, str], list[ComparedRow]]()
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return groups


def boards_of(rows: Iterable[ComparedRow]) -> dict[tuple[str, str, str, str], list[ComparedRow]]:
    """Return rows by board, unit, runtime of the catalogue and power mode; programs of a runtime are one sample."""
    boards = dict[tuple[str, str, str, str], list[ComparedRow]]()
    for row in rows:
        board, unit, _, mode = row.group
        boards.setdefault((board, unit, row.decode.runtime, mode), []).append(row)
    return boards


@dataclass(slots=True)
class _Group:
    """The rows of one group, and the posterior of its parameters under the current priors."""

    board: str  # in the table's words
    runtime: str
    n_rows: int
    before: Posterior
    rows: Rows
    shift: Floats  # of the means, by the board's data sheet
    assumed: Floats  # variance of assumed rates of the board
    theta: Floats | None = None
    mean: Floats | None = None
    variance: Floats | None = None
    cov: Floats | None = None

    def fit(self, centre: Floats, board_sd: Floats, model_log_sd: Mapping[Key, float]) -> None:
        index = [self.before.names.index(name) for name in PARAMETER_NAMES]
        mean, cov = self.before.log_mean.copy(), self.before.log_cov.copy()
        mean[index] = centre + self.shift
        cov[index, index] = np.square(board_sd) + self.assumed
        for kind in FACTORS:
            mine = [i for i, name in enumerate(self.before.names) if name.startswith(kind)]
            cov[mine, mine] = model_log_sd.get((self.runtime, kind), MODEL_LOG_SD) ** 2 + self.shape_var(mine)
        found = self.rows.fit(replace(self.before, log_mean=mean, log_cov=cov), self.theta)
        self.theta, self.cov = found.mean, found.cov
        board_var = np.square(board_sd)
        share = board_var / (board_var + self.assumed)  # of the deviation by the board, not by its assumed rates
        self.mean = centre + share * (found.mean[index] - self.shift - centre)
        self.variance = np.square(share) * np.diag(found.cov)[index] + share * self.assumed

    def factors(self) -> Iterator[Factor]:
        """Yield the posteriors of the models' factors."""
        for i, name in enumerate(self.before.names):
            kind = next((kind for kind in FACTORS if name.startswith(kind)), "")
            if kind and self.theta is not None and self.cov is not None:
                found = float(self.theta[i]), float(self.cov[i, i]), float(self.shape_var([i])[0])
                yield Factor(self.runtime, self.board, kind, name.removeprefix(kind), *found)

    def shape_var(self, factors: Sequence[int]) -> Floats:
        """Return the variances that estimated shapes add to factors of models."""
        return np.maximum(np.diag(self.before.log_cov)[factors] - MODEL_LOG_SD**2, 0.0)


class Learner:
    """Fits the hierarchical priors to rows. The arrays are built once, so refits without one board are cheap.

    Parameters
    ----------
    rows : sequence of ComparedRow
        Rows outside the model's range, or of boards with unknown bandwidth, are ignored.
    catalogue : Catalogue
        With the records of the rows.
    """

    def __init__(self, rows: Sequence[ComparedRow], catalogue: Catalogue) -> None:
        usable = [row for row in rows if row.bandwidth_known and not row.outside and points_of([row])]
        runtimes = {
            key: replace(
                one,
                model_log_sd=MODEL_LOG_SD,
                model_factor={},
                prompt_log_sd=MODEL_LOG_SD,
                prompt_factor={},
                size_log_sd=0.0,
                repeat_log_sd=REPEAT_LOG_SD,
            )
            for key, one in catalogue.runtimes.items()
        }
        catalogue = replace(catalogue, runtimes=runtimes)
        self._groups = [_group_of(of_group, catalogue) for of_group in boards_of(usable).values()]
        self._class_of = {key: one.possible_classes[0] for key, one in runtimes.items()}

    @property
    def boards(self) -> set[str]:
        """The boards of the fit, in the table's words."""
        return {group.board for group in self._groups}

    def fold_of(self, board: str) -> frozenset[str]:
        """Return the boards that are left out together with a board: itself, or of very many boards a share of them.

        None where the board is not in the fit.
        """
        boards = sorted(self.boards)
        if board not in boards:
            return frozenset()
        n_folds = len(boards) if len(boards) <= MOST_FOLDS else max(N_FIT_FOLDS // len(boards), FEWEST_FOLDS)
        return frozenset(boards[boards.index(board) % n_folds :: n_folds])

    def learn(self, without: Collection[str] = ()) -> Population:
        """Return the fitted model, without the boards that `without` has."""
        groups = [group for group in self._groups if group.board not in without]
        means = {key: prior_of(self._class_of[key]) for key in sorted({group.runtime for group in groups})}
        classes = {name: prior_of(name) for name in COMPUTE_SHARE}
        board_sd, model_log_sd = FIRST_BOARD_SD, dict[Key, float]()
        factors = dict[Key, dict[str, Prior]]()
        for _ in range(N_ROUNDS if groups else 0):
            for group in groups:
                group.fit(means[group.runtime], board_sd, model_log_sd)
            means, classes = _averaged(groups, means, classes, board_sd, self._class_of)
            board_sd = _spread(groups, means)
            found = [factor for group in groups for factor in group.factors()]
            factors = expected_factors(
                found, {key: model_log_sd.get(key, MODEL_LOG_SD) for key in scatter(found, model_log_sd)}
            )
            model_log_sd = scatter(found, model_log_sd)
        n_rows = sum(group.n_rows for group in groups)
        predictive = _predictive(groups, means, classes, board_sd, self._class_of)
        return Population(*predictive, len(groups), n_rows, model_log_sd, factors)


def _group_of(rows: Sequence[ComparedRow], catalogue: Catalogue) -> _Group:
    at = catalogue.resolve(rows[0].decode)
    points = points_of(subsampled(rows))
    before = prior(at)
    for point in points:
        before = extended(before, ratio_names(catalogue.resolve(point.point)))
    shift, assumed = (
        np.array([by_name.get(name, 0.0) for name in PARAMETER_NAMES])
        for by_name in (data_sheet_shift(at), data_sheet_log_sd(at))
    )
    if at.mode.compute_op_s is None:
        assumed[PARAMETER_NAMES.index("eta_compute")] = UNINFORMATIVE_LOG_SD
    observations = Rows.of(points, catalogue, before)
    return _Group(rows[0].group[0], at.runtime.key, len(rows), before, observations, shift, np.square(assumed))


def _averaged(
    groups: Sequence[_Group],
    means: Mapping[str, Floats],
    classes: Mapping[str, Floats],
    board_sd: Floats,
    class_of: Mapping[str, str],
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the means of runtimes and classes given those of the groups, each shrunk to its parent."""
    per_board, per_runtime, per_class = 1 / board_sd**2, 1 / RUNTIME_SD**2, 1 / CLASS_SD**2
    means, classes = dict(means), dict(classes)
    for _ in range(20):  # alternating means of a Gaussian tree converge fast
        for key in means:
            own = np.array([group.mean for group in groups if group.runtime == key])
            above = classes[class_of[key]]
            means[key] = (own.sum(axis=0) * per_board + above * per_runtime) / (len(own) * per_board + per_runtime)
        for name in classes:
            own = np.array([mean for key, mean in means.items() if class_of[key] == name])
            classes[name] = (own.sum(axis=0) * per_runtime + prior_of(name) * per_class) / (
                len(own) * per_runtime + per_class
            )
    return means, classes


def _predictive(
    groups: Sequence[_Group],
    means: Mapping[str, Floats],
    classes: Mapping[str, Floats],
    board_sd: Floats,
    class_of: Mapping[str, str],
) -> tuple[dict[str, Normal], dict[str, Normal]]:
    """Return the predictive distributions of a new board: by runtime, and by class for a runtime without rows.

    A board counts by the share by which its rows narrow its prior, since few boards identify all parameters. The result
    is exact for a Gaussian tree of such boards.
    """
    board_var = np.square(board_sd)
    n_boards = dict.fromkeys(means, np.zeros(len(PARAMETERS)))
    for group in groups:
        n_boards[group.runtime] = n_boards[group.runtime] + np.maximum(
            1.0 - np.asarray(group.variance) / board_var, 0.0
        )

    def class_var(name: str, without: str = "") -> Floats:
        precisions = [
            n / (n * RUNTIME_SD**2 + board_var)
            for key, n in n_boards.items()
            if key != without and class_of[key] == name
        ]
        return np.asarray(1.0 / (1.0 / CLASS_SD**2 + sum(precisions)))

    def runtime_var(key: str) -> Floats:
        return 1.0 / (n_boards[key] / board_var + 1.0 / (RUNTIME_SD**2 + class_var(class_of[key], without=key)))

    return (
        {key: Normal(mean, np.sqrt(board_var + runtime_var(key))) for key, mean in means.items()},
        {name: Normal(mean, np.sqrt(board_var + RUNTIME_SD**2 + class_var(name))) for name, mean in classes.items()},
    )


def _spread(groups: Sequence[_Group], means: Mapping[str, Floats]) -> Floats:
    """Return the spread between boards: that of the groups about their runtimes, including their uncertainty."""
    squares = [np.square(np.asarray(g.mean) - means[g.runtime]) + np.asarray(g.variance) for g in groups]
    return np.asarray(np.maximum(np.sqrt(np.mean(squares, axis=0)), LEAST_BOARD_SD))
