"""Validation of the curve of degradation against bits on published perplexities, by leaving models out.

The degradation of a row is ``ln(ppl / ppl of the 16-bit weights)``. For each model, a line
``ln degradation = c_kind - k_kind bits + u_model`` is fitted to the rows of all others, for formats with and without an
importance matrix. The 90 % band of the left-out model contains the scatter between models and that of rows about the
line of their model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.catalogue.csv_rows import read_rows
from core.physics.quality import LOSSLESS_BIT
from core.spec import WeightFormat
from core.units import Z90

Floats = NDArray[np.float64]

NEEDED = ("model", "quant", "ppl")
LEAST_BIT = 2.0
PRINTED_ERROR = 5e-4  # of the logarithm of a perplexity without a given error: its last digit
FEWEST_MODELS = 3
N_ROUNDS, CENTRE_BIT = 30, 4.5
LINE_PRECISION = np.array([1e-6, 1e-6, 1 / 0.5**2, 1 / 0.3**2])  # [prior] an importance matrix changes the line little
MODEL_LOG_SD, N_PRIOR = 0.5, 2.0  # [prior] scatter between models, and its weight in models


@dataclass(frozen=True, slots=True)
class PerplexityRow:
    """A comparable row."""

    line: int
    model: str
    format: str
    bits: float
    importance_matrix: bool
    degradation: float  # ln of the perplexity over that of 16-bit weights; negative by chance only
    error: float  # standard deviation of the degradation itself


@dataclass(frozen=True, slots=True)
class Bands:
    """Coverage of the bands of left-out models."""

    n_rows: int
    n_models: int
    coverage_frac: float
    median_factor: float  # median error of the band's centre as a factor >= 1, over rows of positive degradation
    by_model: Mapping[str, tuple[int, int]]  # rows inside, rows
    outside: tuple[PerplexityRow, ...]
    left_out: tuple[tuple[int, str], ...]  # line and reason


def read_perplexities(
    path: Path | str, formats: Mapping[str, WeightFormat]
) -> tuple[list[PerplexityRow], list[tuple[int, str]]]:
    """Read a table of perplexities against weight formats.

    Returns
    -------
    rows, left_out
        Comparable rows, and line and reason of the others.

    Raises
    ------
    OSError, ValueError
        The file cannot be read, or a required column is missing; the message is one sentence.
    """
    path = Path(path)
    heading, read = read_rows(path)
    for name in NEEDED:
        if name not in heading:
            raise ValueError(f"got no column {name} in its first line, expected {', '.join(NEEDED)}")
    lines = [(row.line, dict(zip_longest(heading, row.cells[: len(heading)], fillvalue=""))) for row in read]
    broken = {row.line: row.broken for row in read if row.broken}
    base = {_series(line): float(line["ppl"]) for _, line in lines if _is_reference(line) and _above(line, "ppl", 0)}
    rows, left_out = list[PerplexityRow](), list[tuple[int, str]]()
    for number, line in lines:
        found = broken.get(number) or _row(number, line, base, formats)
        if isinstance(found, str):
            left_out.append((number, found))
        else:
            rows.append(found)
    return rows, left_out


def _series(line: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(line.get(name) or "" for name in ("model", "dataset", "context_tokens", "source_path_or_thread"))


def _is_reference(line: Mapping[str, str]) -> bool:
    return line["quant"].lower() in ("f16", "fp16", "bf16", "f32", "fp32")


def _number(line: Mapping[str, str], name: str) -> float | None:
    try:
        value = float(line.get(name) or "nan")
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _above(line: Mapping[str, str], name: str, low: float) -> float | None:
    value = _number(line, name)
    return value if value is not None and value > low else None


def _row(
    number: int, line: Mapping[str, str], base: Mapping[tuple[str, ...], float], formats: Mapping[str, WeightFormat]
) -> PerplexityRow | str:
    if (line.get("trust") or "").upper() == "X":
        return "trust X: inconsistent or not comparable"
    if _is_reference(line):
        return "the reference itself"
    ppl, known = _above(line, "ppl", 0.0), formats.get(line["quant"].lower())
    bits = _number(line, "bits_per_weight") or (known.bits_per_weight if known else None)
    if bits is None:
        return f"the bits of {line['quant']} are not known"
    if not LEAST_BIT <= bits < LOSSLESS_BIT:
        return f"{bits:g} bits are outside {LEAST_BIT:g} to {LOSSLESS_BIT:g}"
    percent, difference = _above(line, "delta_ppl_pct", -100.0), _number(line, "delta_ppl")
    of_base = base.get(_series(line))
    if ppl is not None and difference is not None and ppl > difference:
        degradation = float(np.log(ppl / (ppl - difference)))
    elif ppl is not None and of_base is not None:
        degradation = float(np.log(ppl / of_base))
    elif percent is not None:
        degradation = float(np.log1p(percent / 100.0))
    else:
        return "no perplexity of the 16-bit weights"
    stated = _number(line, "delta_ppl_err")
    error = stated / ppl if stated is not None and ppl else PRINTED_ERROR
    matrix = (line.get("imatrix") or "none").lower() not in ("", "none", "no", "false")
    return PerplexityRow(number, _model(line["model"]), line["quant"], bits, matrix, degradation, error)


def _model(name: str) -> str:
    return re.sub(r"\s*\(.*\)", "", name).strip().lower()


def bands(rows: Sequence[PerplexityRow], left_out: Sequence[tuple[int, str]] = ()) -> Bands:
    """Predict every model's rows from those of the others.

    Raises
    ------
    ValueError
        Rows of fewer than three models.
    """
    models = list(dict.fromkeys(row.model for row in rows))
    if len(models) < FEWEST_MODELS:
        raise ValueError(f"got {len(models)} models that can be compared, expected at least {FEWEST_MODELS}")
    inside, factor = dict[int, bool](), list[float]()
    for model in models:
        predict = _fitted([row for row in rows if row.model != model])
        for row in (row for row in rows if row.model == model):
            middle, log_sd = predict(row)
            low, high = np.exp(middle - Z90 * log_sd), np.exp(middle + Z90 * log_sd)
            inside[row.line] = bool(low - Z90 * row.error <= row.degradation <= high + Z90 * row.error)
            if row.degradation > 0.0:
                factor.append(abs(float(np.log(row.degradation)) - middle))
    by_model = {
        model: (sum(inside[row.line] for row in rows if row.model == model), sum(row.model == model for row in rows))
        for model in models
    }
    outside = tuple(row for row in rows if not inside[row.line])
    median = float(np.exp(np.median(factor)))
    return Bands(len(rows), len(models), sum(inside.values()) / len(rows), median, by_model, outside, tuple(left_out))


def _fitted(rows: Sequence[PerplexityRow]) -> Callable[[PerplexityRow], tuple[float, float]]:
    """Return a function that predicts ln(degradation) of a row of another model, and its standard deviation.

    A mixed model with random intercepts of models; their variance and that of the residuals are fitted by expectation
    maximisation.
    """
    rows = [row for row in rows if row.degradation > 2.0 * row.error]
    models = sorted({row.model for row in rows})
    fixed = np.array([_design(row) for row in rows])
    own = np.array([[float(row.model == model) for model in models] for row in rows])
    both = np.hstack([fixed, own])
    y = np.log([row.degradation for row in rows])
    noise = np.square([row.error / row.degradation for row in rows])
    between, within = MODEL_LOG_SD**2, 0.1
    for _ in range(N_ROUNDS):
        precision = 1.0 / (within + noise)
        prior = np.diag(np.concatenate([LINE_PRECISION, np.full(len(models), 1.0 / between)]))
        cov = np.linalg.inv(both.T @ (both * precision[:, None]) + prior)
        mean = cov @ (both.T @ (precision * y))
        of_models = slice(fixed.shape[1], None)
        spread = float(np.sum(np.square(mean[of_models]) + np.diag(cov)[of_models]))
        between = (N_PRIOR * MODEL_LOG_SD**2 + spread) / (N_PRIOR + len(models))
        left = np.square(y - both @ mean) + np.sum(both @ cov * both, axis=1)
        within = float(np.average(np.maximum(left - noise, 0.0), weights=precision))
    n = fixed.shape[1]

    def predict(row: PerplexityRow) -> tuple[float, float]:
        design = _design(row)
        variance = design @ cov[:n, :n] @ design + between + within
        return float(design @ mean[:n]), float(np.sqrt(variance))

    return predict


def _design(row: PerplexityRow) -> Floats:
    """Return the regressors: intercept and slope, and their differences for formats with an importance matrix."""
    bits, kind = row.bits - CENTRE_BIT, float(row.importance_matrix)
    return np.array([1.0, bits, kind, kind * bits])
