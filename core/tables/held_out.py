"""Scores of published boards, each predicted without its own rows, and the interval scale that follows from them."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from core.predict import conformal
from core.predict.parameters import same_model
from core.spec.interval_scale import HeldOut
from core.tables.as_points import Comparison
from core.tables.scores import Parts, Residuals, predictions

QUANTITIES = ("decode_s", "ttft_s")


def scores(parts: Parts, compared: Comparison, without_board: str = "") -> HeldOut:
    """Return the held-out scores of the rows of a table.

    Errors of the models of one board are correlated, and the scores are applied to other boards. So each board has the
    same weight, and within a board each model with a runtime and power mode.

    Parameters
    ----------
    parts : mapping
        Predictions that do not use rows of the predicted board, except those of its calibration.
    compared : Comparison
    without_board : str
        Board to leave out, in the table's words.
    """
    return _scores(_inside(parts, compared), without_board)


def _inside(parts: Parts, compared: Comparison) -> pd.DataFrame:
    """Return the scores of all predictions with a bucket, with board and weight."""
    keys = [(*row.group, same_model(row.decode.model)) for row in compared.rows]
    rows = pd.DataFrame(keys, columns=["board", "unit", "runtime", "power_mode", "model"])
    rows["model_there"] = rows.groupby(list(rows), sort=False).ngroup()
    rows = rows[[not row.outside for row in compared.rows]]
    found = predictions(parts)
    found = found[(found["bucket"] != "") & found["quantity"].isin(QUANTITIES)]
    found = found.join(rows[["board", "model_there"]], on="row", how="inner")
    n_rows = found.groupby(["quantity", "bucket", "model_there"])["row"].transform("size")
    n_models = found.groupby(["quantity", "bucket", "board"])["model_there"].transform("nunique")
    return found.assign(score=found["log_error"].abs() / found["log_sd"], weight=1.0 / (n_rows * n_models))


def _scores(inside: pd.DataFrame, without_board: str) -> HeldOut:
    others = inside[inside["board"] != without_board]
    found = {quantity: dict[str, tuple[float, ...]]() for quantity in QUANTITIES}
    for (quantity, bucket), of in others.groupby(["quantity", "bucket"]):
        found[quantity][bucket] = conformal.quantiles(of["score"].to_numpy(), of["weight"].to_numpy())
    return HeldOut(found)


def scaled(parts: Parts, compared: Comparison, *, leave_board_out: bool) -> dict[tuple[str, str], list[Residuals]]:
    """Return the predictions with scaled intervals.

    Parameters
    ----------
    parts : mapping
    compared : Comparison
        Its catalogue has the shipped scores.
    leave_board_out : bool
        Whether to use the scores of the other boards in `parts` instead of the shipped ones.
    """
    boards = {row.group[0] for row in compared.rows} if leave_board_out else set[str]()
    inside = _inside(parts, compared)
    others = {board: _scores(inside, board) for board in boards}
    found = dict[tuple[str, str], list[Residuals]]()
    for (quantity, method), fits in parts.items():
        for fit in fits:
            if fit.of and fit.row.size:
                row = compared.rows[fit.row[0]]
                held_out = others.get(row.group[0], compared.catalogue.held_out)
                board_scores = conformal.population(held_out, row.decode.runtime, quantity, fit.of)
                fit = replace(fit, log_sd=fit.log_sd * conformal.factor(board_scores, fit.own))
            found.setdefault((quantity, method), []).append(fit)
    return found
