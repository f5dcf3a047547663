"""``trilemma bench engine``: speed of predictions and calibrations on one core."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from core.calibrate.fit import calibrate
from core.calibrate.observations import MeasuredPoint
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.predict.sweep import front, sweep
from core.spec import Catalogue, Estimate, OperatingPoint

N_POINTS = 1_000_000
CURVE_POINTS = 128
PARETO = ("latency", "energy", "accuracy")


def measure_engine(n_repeats: int = 7) -> dict[str, Any]:
    """Time full predictions, every output with its interval, and calibrations, one after the other.

    Returns
    -------
    dict
        ``predictions_per_s`` over a million points that differ in every number, ``pareto_1000_ms`` of the front of
        1000 predicted points in latency, energy and accuracy, ``curve_s`` of one slider's curve,
        ``calibrate_s`` of a fit to 64 points and ``leave_one_out_s`` with its 64 refits; each {median, min, max, n}.
    """
    catalogue = load_catalogue()
    rng = np.random.default_rng(0)
    many = OperatingPoint(
        context_tokens=rng.integers(16, 8192, N_POINTS).astype(float),
        alpha=rng.uniform(0.0, 0.95, N_POINTS),
        beta=rng.uniform(0.5, 4.0, N_POINTS),
        bandwidth_byte_s=rng.uniform(10e9, 100e9, N_POINTS),
    )
    curve = OperatingPoint(alpha=np.linspace(0.0, 0.95, CURVE_POINTS))
    measured = _grid(catalogue)
    axes = {"alpha": np.linspace(0.0, 0.95, 50).tolist(), "context_tokens": np.linspace(16.0, 8192.0, 20).tolist()}
    thousand = sweep(OperatingPoint(), axes, catalogue)
    seconds = _times(lambda: predict(many, catalogue), n_repeats)
    return {
        "predictions_per_s": _spread([N_POINTS / s for s in seconds]),
        "pareto_1000_ms": _spread([1e3 * s for s in _times(lambda: front(thousand, PARETO), 10 * n_repeats)]),
        "curve_s": _spread(_times(lambda: predict(curve, catalogue), 10 * n_repeats)),
        "calibrate_s": _spread(_times(lambda: calibrate(measured, catalogue, check=False), n_repeats)),
        "leave_one_out_s": _spread(_times(lambda: calibrate(measured, catalogue), n_repeats)),
    }


def _grid(catalogue: Catalogue) -> list[MeasuredPoint]:
    """Return 64 calibration points with predicted times and 2 % of scatter."""
    rng = np.random.default_rng(0)
    points = [
        replace(OperatingPoint(), weights=weights, context_tokens=n, alpha=alpha)
        for weights in ("fp32", "bf16", "int8", "int4")
        for n in (256.0, 1024.0, 2048.0, 4096.0)
        for alpha in (0.0, 0.3, 0.6, 0.9)
    ]
    predicted = [predict(p, catalogue).decode_s for p in points]
    times_s = [float(output.median) for output in predicted if isinstance(output, Estimate)]
    return [
        MeasuredPoint(p, t * float(np.exp(rng.normal(0.0, 0.02))), 0.003) for p, t in zip(points, times_s, strict=True)
    ]


def _times(call: Callable[[], object], n: int) -> list[float]:
    """Return the CPU time of each of `n` calls [s], after one uncounted call."""
    call()
    seconds = []
    for _ in range(n):
        began_s = time.process_time()
        call()
        seconds.append(time.process_time() - began_s)
    return seconds


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}
