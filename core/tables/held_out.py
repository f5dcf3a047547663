"""Scores of published boards that were predicted without their own rows, and the guard they give to predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from core.predict import conformal
from core.predict.parameters import same_model
from core.spec.interval_scale import HeldOut
from core.tables.as_points import Comparison
from core.tables.scores import Judged

Parts = Mapping[tuple[str, str], Sequence[Judged]]
"""Predictions by quantity and method, one record a fit."""

QUANTITIES = ("decode_s", "ttft_s")


def scores(parts: Parts, compared: Comparison, without_board: str = "") -> HeldOut:
    """Return how far the rows of a table were from their predictions.

    What is off about a board is so for all its models, and it is of another board that one wants to know: so each board
    counts once, and in it each model with a runtime.

    Parameters
    ----------
    parts : mapping
        Predictions of which none saw the rows of the board it predicts, but for those it was calibrated on.
    compared : Comparison
    without_board : str
        A board, in the table's words, to leave out.
    """
    counted = {i for i, row in enumerate(compared.rows) if not row.outside and row.group[0] != without_board}
    found = dict[str, dict[str, tuple[float, ...]]]()
    for quantity in QUANTITIES:
        by_bucket = dict[str, list[Judged]]()
        for (of_quantity, _), fits in parts.items():
            for fit in fits:
                if of_quantity == quantity and fit.of:
                    by_bucket.setdefault(fit.of, []).append(fit.only(counted))
        found[quantity] = {of: _quantiles(Judged.joined(fits), compared) for of, fits in sorted(by_bucket.items())}
    return HeldOut(found)


def _quantiles(judged: Judged, compared: Comparison) -> tuple[float, ...]:
    score = np.abs(judged.log_error) / judged.log_sd
    unit = [(*compared.rows[i].group, same_model(compared.rows[i].decode.model)) for i in judged.row]
    size = Counter(unit)
    of_board = Counter(board for board, *_ in size)
    return conformal.quantiles(score, np.array([1.0 / (size[one] * of_board[one[0]]) for one in unit]))


def scaled(parts: Parts, compared: Comparison, *, leave_board_out: bool) -> dict[tuple[str, str], list[Judged]]:
    """Return the predictions with the intervals that the guard makes of them.

    Parameters
    ----------
    parts : mapping
    compared : Comparison
        Its catalogue has the scores that are shipped.
    leave_board_out : bool
        Guard each board by the scores of the others in `parts` instead of those that are shipped.
    """
    boards = {row.group[0] for row in compared.rows} if leave_board_out else set[str]()
    others = {board: scores(parts, compared, board) for board in boards}
    found = dict[tuple[str, str], list[Judged]]()
    for (quantity, method), fits in parts.items():
        for fit in fits:
            if fit.of and fit.row.size:
                row = compared.rows[fit.row[0]]
                held_out = others.get(row.group[0], compared.catalogue.held_out)
                published = conformal.population(held_out, row.decode.runtime, quantity, fit.of)
                fit = replace(fit, log_sd=fit.log_sd * conformal.factor(published, fit.own))
            found.setdefault((quantity, method), []).append(fit)
    return found
