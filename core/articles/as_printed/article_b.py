"""Article B, the "death triangle" of latency, power and accuracy: as printed (items B01 to B16)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]

# --- B01 --------------------------------------------------------------------------------------------------------------

LIMIT_MS, LIMIT_ROUGE_L = 200.0, 58.0
TOPS_S_PER_TOKEN = 28.0


class Variant(NamedTuple):
    """A row of the table: end-to-end P99 [ms], and whether its ROUGE-L meets the limit."""

    latency_ms: float
    meets_rouge: bool


VARIANTS = {
    "fp16": Variant(312.0, True),
    "int4_chunk": Variant(187.0, False),
    "int4_moe": Variant(238.0, False),
}
MEMORY_MB = {"fp16": 5120.0, "int4": 1380.0}
RESIDENT_MS = 245.0  # a third variant in the code, not in the table


def feasible(variant: Variant) -> list[bool]:
    """Return whether a variant meets the limits, ``P99 <= 200 ms`` and ``ROUGE-L >= 58``.

    References
    ----------
    .. [1] docs/articles.md B01

    Examples
    --------
    >>> [feasible(VARIANTS[name]) for name in ("fp16", "int4_chunk", "int4_moe")]
    [[False, True], [True, False], [False, False]]
    """
    return [variant.latency_ms <= LIMIT_MS, variant.meets_rouge]


# --- B02 --------------------------------------------------------------------------------------------------------------


def masked_l0(weights: ArrayLike, mask: ArrayLike) -> int:
    """Return the number of weights that stay, ``|W * M|_0``: a weight that is 0 by chance counts as pruned.

    References
    ----------
    .. [1] docs/articles.md B02

    Examples
    --------
    >>> masked_l0([0.0, 1.0, 2.0, 3.0], [1, 1, 1, 0])
    2
    """
    return int(np.count_nonzero(np.asarray(weights) * np.asarray(mask)))


# --- B03 --------------------------------------------------------------------------------------------------------------

THERMAL = {"fp16": (72.3, 0.89, 128.0), "int4": (65.1, 0.42, 217.0)}
"""Steady temperature [deg C], slope [deg C/s], "thermal period" [ms]; sampled every 200 ms."""

THERMAL_SAMPLE_MS = 200.0
TRAFFIC_DROP = {"dram_drop": 0.37, "cache_drop": 0.23}

# --- B04 --------------------------------------------------------------------------------------------------------------

DVFS = ((800.0, 32.0, 186.0), (1200.0, 68.0, 312.0), (1400.0, 92.0, 334.0))
"""Clock [MHz], power [W], images per second of the MLU370."""

# --- B05 --------------------------------------------------------------------------------------------------------------

ACTIVATION = ((8.2, 24.1, 63.4), (5.6, 38.7, 62.9))
"""Power [W], frames per second, average precision before and after pruning 15 % of the activations on the J5."""


def activation_mask(values: ArrayLike, quantile: float = 0.15) -> tuple[float, int]:
    """Return the threshold in single precision and the number of values above it in magnitude.

    ``quantile(|x|, 0.15)``. With at least as many exact zeros as the quantile, as after a ReLU, the threshold is 0 and
    nothing more is cut.

    References
    ----------
    .. [1] docs/articles.md B05

    Examples
    --------
    >>> threshold, kept = activation_mask(np.arange(1.0, 21.0))
    >>> round(threshold, 4), kept
    (3.85, 17)
    """
    magnitude = np.sort(np.abs(np.asarray(values, dtype=np.float32)))
    rank = np.float32(quantile) * np.float32(magnitude.size - 1)
    low = int(rank)
    step = magnitude[min(low + 1, magnitude.size - 1)] - magnitude[low]
    threshold = magnitude[low] + (rank - np.float32(low)) * step
    return float(threshold), int(np.count_nonzero(magnitude > threshold))


# --- B07, B08 ---------------------------------------------------------------------------------------------------------

STREAMING_MS = (3.0, 15.0)
RELAYOUT = {"default": (28.6, 9.8), "relayout": (11.3, 5.2)}
"""Time to first token [ms] and DRAM traffic [GB/s] on a QCS8550."""

RELAYOUT_BLOCK = 128


def relayout_loop(head_dim: int, n_rows: int = 4) -> list[int]:
    """Return the blocks that the relayout loop allocates and copies and the elements that it reads past the rows.

    ``D / 128`` blocks are allocated a row, ``ceil(D / 128)`` copied.

    References
    ----------
    .. [1] docs/articles.md B08

    Examples
    --------
    >>> [relayout_loop(d) for d in (64, 96, 128)]
    [[0, 4, 256], [0, 4, 128], [1, 4, 0]]
    """
    copied = -(-head_dim // RELAYOUT_BLOCK)
    past = copied * RELAYOUT_BLOCK - head_dim
    return [head_dim // RELAYOUT_BLOCK, copied * n_rows, past * n_rows]


# --- B09 --------------------------------------------------------------------------------------------------------------

PREEMPT_MEAN_US = (127.0, 9.2)
IRQ_US, SWITCH_US = 8.3, 2.1
JITTER_P99_MS = (41.6, 0.83)

# --- B10 --------------------------------------------------------------------------------------------------------------

COMPENSATION_GAIN = 0.05
COMPENSATION_MS = {"single": 1.8, "dual": 0.9}


def compensated(x: ArrayLike, target_mean: float, gain: float = COMPENSATION_GAIN) -> Vector:
    """Return one step of the dual loop, ``x + a drift - (1 - a) (x - round(x))``.

    The drift is added, so the loop amplifies it.

    References
    ----------
    .. [1] docs/articles.md B10

    Examples
    --------
    >>> np.round(compensated([1.2, 2.2, 3.2], 2.0), 9).tolist()
    [1.02, 2.02, 3.02]
    """
    values = np.asarray(x, dtype=float)
    drift = values.mean() - target_mean
    return np.asarray(values + gain * drift - (1.0 - gain) * (values - np.round(values)))


def drift_after(drift: float, n_steps: int, gain: float = COMPENSATION_GAIN) -> float:
    """Return the drift after some steps of the outer loop alone, ``drift (1 + a)^n``.

    References
    ----------
    .. [1] docs/articles.md B10

    Examples
    --------
    >>> round(drift_after(0.2, 20), 9)
    0.530659541
    """
    return drift * (1.0 + gain) ** n_steps


# --- B11 --------------------------------------------------------------------------------------------------------------

CALIBRATION = {"Hi3559A": (85.0, 128.0), "J5": (62.0, 96.0), "MLU370": (73.0, 144.0)}
"""Time [ms] and payload [KiB] of a calibration."""

CALIBRATION_TIMEOUT_MS, CALIBRATION_MESSAGE_BYTE = 500.0, 2048.0


def calibration_figures(device: str) -> list[float]:
    """Return messages [1], rate [MB/s] and time-out over time [1] of a calibration.

    ``payload / 2048``, ``payload / time`` and ``500 ms / time``

    References
    ----------
    .. [1] docs/articles.md B11

    Examples
    --------
    >>> [round(figure, 3) for figure in calibration_figures("Hi3559A")]
    [64.0, 1.542, 5.882]
    """
    time_ms, payload_kib = CALIBRATION[device]
    payload_byte = payload_kib * 1024.0
    return [payload_byte / CALIBRATION_MESSAGE_BYTE, payload_byte / time_ms / 1e3, CALIBRATION_TIMEOUT_MS / time_ms]


# --- B12 --------------------------------------------------------------------------------------------------------------

LORA_SIZE, LORA_RANK, LORA_ALPHA = 1024, 4, 32.0
LORA_ACCURACY = (94.1, 93.7, 92.3)
"""Accuracies [%], in the order of the article."""
LORA_MEMORY_MB = {"full": 1842.0, "lora": 316.0, "edge_lora": 248.0}

# --- B13 --------------------------------------------------------------------------------------------------------------


class Scenario(NamedTuple):
    """Least accuracy, most time [ms] and energy [mJ] of a scenario, and its scale factor alpha_s."""

    accuracy: float
    time_ms: float
    energy_mj: float
    alpha_s: float


SCENARIOS = {
    "industrial": Scenario(0.923, 120.0, 85.0, 0.8),
    "v2x": Scenario(0.781, 35.0, 142.0, 1.0),
    "wearable": Scenario(0.867, 210.0, 18.0, 1.2),
}

# --- B14 to B16 -------------------------------------------------------------------------------------------------------

SYNC_NS = 83.0


def dscp(timestamp_ns: int) -> int:
    """Return the six bits of a time stamp [ns], ``(ts >> 40) & 63``; the stamp ticks every 1099.5 s.

    References
    ----------
    .. [1] docs/articles.md B15

    Examples
    --------
    >>> dscp(1767225600 * 10**9)
    50
    """
    return (timestamp_ns >> 40) & 63


DSCP_TICK_S = 2**40 / 1e9
CONSENSUS_MS = {"mean": 83.0, "p95": 110.0}
END_TO_END_MS = {"before": (320.0, 97.0), "after": (142.0, 23.0)}
"""Mean and standard deviation."""


def quorum(n_nodes: int) -> list[int]:
    """Return the faulty nodes that a group tolerates and the votes needed, ``f = (n - 1) / 3`` and ``2 f + 1``.

    References
    ----------
    .. [1] docs/articles.md B16

    Examples
    --------
    >>> [quorum(n) for n in (4, 7, 10, 13)]
    [[1, 3], [2, 5], [3, 7], [4, 9]]
    """
    f = (n_nodes - 1) // 3
    return [f, 2 * f + 1]


def lognormal_sigma(mean: float, p95: float) -> float:
    """Return the log-sd of a log-normal delay, the smaller root of ``s^2 / 2 - z s + ln(p95 / mean) = 0``.

    References
    ----------
    .. [1] docs/articles.md B16

    Examples
    --------
    >>> round(lognormal_sigma(83.0, 110.0), 10)
    0.1812061495
    """
    z = 1.6448536269514722
    return z - math.sqrt(z * z - 2.0 * math.log(p95 / mean))
