"""Errors of predictions, coverage of their intervals, and summaries over groups.

Groups are few, and those of one board are correlated, so the uncertainty of a median over groups is from a bootstrap
over boards (Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.units import Z90

Floats = NDArray[np.float64]

N_RESAMPLINGS = 1000


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals of predictions in logarithms (predicted minus measured), and the log-sds of the predictions.

    A log-sd of NaN is a prediction without an interval.
    """

    row: NDArray[np.intp]  # (n,), number of the row of the comparison
    log_error: Floats  # (n,)
    log_sd: Floats  # (n,)
    own: Floats = field(default_factory=lambda: np.zeros(0))  # leave-one-out scores of the points of the fit
    of: str = ""  # bucket of `core.predict.conformal`; "" for no interval scale

    @classmethod
    def joined(cls, parts: Sequence[Residuals]) -> Residuals:
        """Return the concatenation of several records."""
        return cls(
            np.concatenate([p.row for p in parts] or [np.zeros(0, dtype=np.intp)]),
            np.concatenate([p.log_error for p in parts] or [np.zeros(0)]),
            np.concatenate([p.log_sd for p in parts] or [np.zeros(0)]),
        )

    def only(self, rows: Iterable[int]) -> Residuals:
        """Return the residuals of these rows."""
        wanted = rows if isinstance(rows, set) else set(rows)
        mine = np.array([row in wanted for row in self.row.tolist()], dtype=bool)  # np.isin would sort
        return Residuals(self.row[mine], self.log_error[mine], self.log_sd[mine], self.own, self.of)


Parts = Mapping[tuple[str, str], Sequence[Residuals]]
"""Residuals by quantity and method, one record per fit."""


def predictions(parts: Parts) -> pd.DataFrame:
    """Return a frame with one line per prediction: quantity, method, bucket, row, log_error and log_sd."""
    fits = [(quantity, method, fit) for (quantity, method), of in parts.items() for fit in of]
    n = [fit.row.size for *_, fit in fits]
    joined = Residuals.joined([fit for *_, fit in fits])
    return pd.DataFrame(
        {
            "quantity": np.repeat(np.array([quantity for quantity, *_ in fits], dtype=object), n),
            "method": np.repeat(np.array([method for _, method, _ in fits], dtype=object), n),
            "bucket": np.repeat(np.array([fit.of for *_, fit in fits], dtype=object), n),
            "row": joined.row,
            "log_error": joined.log_error,
            "log_sd": joined.log_sd,
        }
    )


@dataclass(frozen=True, slots=True)
class Score:
    """Absolute errors (predicted over measured minus one) of one method, over the rows of one group."""

    n_rows: int
    n_models: int
    median_error_frac: float
    mean_error_frac: float
    p90_error_frac: float
    median_signed_frac: float  # > 0: predicted too high
    coverage_frac: float | None  # share inside the 90 % interval; all models have the same weight
    interval_ratio: float | None  # median of q95 / q05

    @classmethod
    def of(cls, residuals: Residuals, models: Sequence[str]) -> Score | None:
        """Return the score of residuals; `models` has the model of each row of the comparison. None without rows."""
        if not residuals.row.size:
            return None
        error = np.expm1(residuals.log_error)
        sized = np.isfinite(residuals.log_sd)
        inside = np.abs(residuals.log_error[sized]) <= Z90 * residuals.log_sd[sized]
        of_model = Counter(models[i] for i in residuals.row[sized])
        weights = [1.0 / of_model[models[i]] for i in residuals.row[sized]]
        return cls(
            n_rows=residuals.row.size,
            n_models=len({models[i] for i in residuals.row}),
            median_error_frac=float(np.median(np.abs(error))),
            mean_error_frac=float(np.mean(np.abs(error))),
            p90_error_frac=float(np.quantile(np.abs(error), 0.9)),
            median_signed_frac=float(np.median(error)),
            coverage_frac=float(np.average(inside, weights=weights)) if sized.any() else None,
            interval_ratio=float(np.exp(2 * Z90 * np.median(residuals.log_sd[sized]))) if sized.any() else None,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """Scores of one method over groups. All groups have the same weight; in the coverage, all models of a group."""

    n_groups: int
    n_boards: int
    n_rows: int
    median_of_medians_frac: float
    median_q05_frac: float | None  # quantile of that median in the bootstrap over boards; None with one board
    median_q95_frac: float | None
    mean_of_medians_frac: float
    mean_of_means_frac: float
    median_of_p90_frac: float
    coverage_frac: float | None
    coverage_of_groups_frac: float | None  # mean of the groups' coverages
    interval_ratio: float | None  # median over groups

    @classmethod
    def of(cls, scores: Sequence[Score], boards: Sequence[str]) -> Summary | None:
        """Return the summary of the scores of groups, each with its board; None without scores."""
        if not scores:
            return None
        n_boards = len(set(boards))
        resampled = _resampled_medians([s.median_error_frac for s in scores], boards)
        q05, q95 = (float(q) if n_boards > 1 else None for q in np.quantile(resampled, (0.05, 0.95)))
        covered = [(s.coverage_frac, s.n_models, s.interval_ratio) for s in scores if s.coverage_frac is not None]
        return cls(
            n_groups=len(scores),
            n_boards=n_boards,
            n_rows=sum(s.n_rows for s in scores),
            median_of_medians_frac=float(np.median([s.median_error_frac for s in scores])),
            median_q05_frac=q05,
            median_q95_frac=q95,
            mean_of_medians_frac=float(np.mean([s.median_error_frac for s in scores])),
            mean_of_means_frac=float(np.mean([s.mean_error_frac for s in scores])),
            median_of_p90_frac=float(np.median([s.p90_error_frac for s in scores])),
            coverage_frac=sum(c * n for c, n, _ in covered) / sum(n for _, n, _ in covered) if covered else None,
            coverage_of_groups_frac=float(np.mean([c for c, _, _ in covered])) if covered else None,
            interval_ratio=float(np.median([ratio or np.nan for _, _, ratio in covered])) if covered else None,
        )


def _resampled_medians(values: Sequence[float], boards: Sequence[str]) -> Floats:
    """Return the medians of values, each with its board, over bootstrap samples of the boards."""
    board = np.unique(boards, return_inverse=True)[1]
    n_boards = board.max() + 1
    drawn = np.random.default_rng(0).multinomial(n_boards, np.full(n_boards, 1.0 / n_boards), N_RESAMPLINGS)
    order = np.argsort(values)
    upto = np.cumsum(drawn[:, board[order]], axis=1)
    middle = upto[:, -1:] / 2.0
    halves = np.argmax(upto >= middle, axis=1), np.argmax(upto > middle, axis=1)  # the same but for an even number
    medians: Floats = np.mean(np.asarray(values)[order][np.array(halves)], axis=0)
    return medians
