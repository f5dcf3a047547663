"""Article A, the "golden formula" of decode latency and its kernels: as printed (items A01 to A17)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array

Vector = NDArray[np.float64]

# --- A01 --------------------------------------------------------------------------------------------------------------

BETA = {"SVE2": 1.0, "CANN7": 1.83, "MLU370": 2.11, "J5": 1.42}
"""Instruction-set factors relative to SVE2 (also A17)."""

GOLDEN_CHECK = (
    "No model size, precision or context enters: 12.8 ms GB/s is 12.8 MB, 68 to 330 times less than the weights a "
    "token reads. Pruning is given the whole latency instead of the KV share, and beta multiplies although it is "
    "called a speed-up."
)
"""The check that the golden formula fails."""


def golden_latency_ms(bandwidth_gb_s: Array, alpha: Array, beta: Array) -> Array:
    """Return the latency [ms] by the golden formula, ``T = 12.8 (1 / BW) (1 - alpha) beta`` with BW in GB/s.

    References
    ----------
    .. [1] docs/articles.md A01

    Examples
    --------
    >>> round(float(golden_latency_ms(204.8, 0.3, 1.83)), 7)
    0.0800625
    """
    return 12.8 * (1.0 / np.asarray(bandwidth_gb_s)) * (1.0 - np.asarray(alpha)) * beta


# --- A02 --------------------------------------------------------------------------------------------------------------


def entropy_keep_count(n_tokens: int, threshold: float) -> int:
    """Return the positions that the entropy fragment keeps, ``int((1 - threshold) S)``.

    References
    ----------
    .. [1] docs/articles.md A02

    Examples
    --------
    >>> entropy_keep_count(10, 0.3), entropy_keep_count(10, 0.9)
    (7, 0)
    """
    return int((1 - threshold) * n_tokens)


def entropy_prune(
    attention: NDArray[np.float64], keys: NDArray[np.float64], n_cached: int, threshold: float
) -> NDArray[np.float64]:
    """Return keys [B, H, S, D] pruned by the entropy of attention [B, H, Q, S], as the fragment does.

    ``entropy = -sum over keys of p ln(p + 1e-9)``, top ``int((1 - threshold) S)``. It scores queries, and the keys are
    indexed with an index array instead of gathered, so that the result has six dimensions.

    Raises
    ------
    RuntimeError
        More positions are to be kept than there are queries, as in every decode step.

    References
    ----------
    .. [1] docs/articles.md A02

    Examples
    --------
    >>> entropy_prune(np.full((1, 2, 11, 11), 1 / 11), np.zeros((1, 2, 11, 8)), 11, 0.0).shape
    (1, 2, 1, 2, 11, 8)
    """
    entropy = -np.sum(attention * np.log(attention + 1e-9), axis=-1)
    k = entropy_keep_count(n_cached, threshold)
    if k > entropy.shape[-1]:
        raise RuntimeError(f"selected index k = {k} out of range of {entropy.shape[-1]} queries")
    top = np.argsort(-entropy, axis=-1, kind="stable")[..., :k]
    return keys[:, :, top]


# --- A03, A04 ---------------------------------------------------------------------------------------------------------

MEMORY_LEVELS = {"SRAM": ((0.3, 1.2), (512.0, 1024.0)), "8-channel LPDDR5X": ((40.0, 65.0), (128.0, 208.0))}
"""Latency range [ns] and bandwidth range [GB/s] of each level."""

MIX_PRINTED_GB_S = 682.9


def mixed_bandwidth(sram_gb_s: float, dram_gb_s: float, hit_rate: float) -> float:
    """Return the mean of two bandwidths [GB/s] weighted by the hit rate, ``h BW_sram + (1 - h) BW_dram``.

    Printed as 682.9 GB/s for (768, 176, 0.82).

    References
    ----------
    .. [1] docs/articles.md A04

    Examples
    --------
    >>> round(mixed_bandwidth(768.0, 176.0, 0.82), 6)
    661.44
    """
    return sram_gb_s * hit_rate + dram_gb_s * (1 - hit_rate)


# --- A05 --------------------------------------------------------------------------------------------------------------

R_MAX_PRINTED = ((0.6, 2.0, 2048, 0.57), (0.4, 4.5, 2048, 0.19))
"""Mean head sparsity, position entropy, length, r_max."""

R_MAX_CHECK = (
    "No base of the logarithm reproduces both rows: they need log L = 40 and 8.57. Half of the sparsity of a dense "
    "causal matrix is its mask, and p sums to the number of heads, so that even attention gives -9.87."
)
"""The checks that r_max fails."""


def r_max(mean_head_sparsity: Array, position_entropy: Array, n_tokens: Array, base: float = math.e) -> Array:
    """Return the largest prune rate, ``mean head sparsity (1 - H_pos / log L)``.

    The article names no base of the logarithm.

    References
    ----------
    .. [1] docs/articles.md A05

    Examples
    --------
    >>> [round(float(r_max(*row[:3])), 10) for row in R_MAX_PRINTED]
    [0.4426150864, 0.1639226297]
    """
    return np.asarray(mean_head_sparsity) * (1.0 - np.asarray(position_entropy) / (np.log(n_tokens) / math.log(base)))


def causal_head_sparsity(n_tokens: int) -> float:
    """Return the head sparsity of a dense causal matrix as defined, ``1 - nnz / L^2``: half of it is the mask.

    References
    ----------
    .. [1] docs/articles.md A05

    Examples
    --------
    >>> round(causal_head_sparsity(2048), 5)
    0.49976
    """
    return 1.0 - n_tokens * (n_tokens + 1) / 2 / n_tokens**2


def uniform_position_entropy(n_heads: int, n_tokens: int) -> float:
    """Return the position entropy [nat] as defined for even attention, ``-L p ln p`` with ``p = heads / L``.

    p sums over the heads without being normalised.

    References
    ----------
    .. [1] docs/articles.md A05

    Examples
    --------
    >>> round(float(r_max(0.6, uniform_position_entropy(32, 2048), 2048)), 3)
    -9.873
    """
    p = n_heads / n_tokens
    return -n_tokens * p * math.log(p)


# --- A06, A07 ---------------------------------------------------------------------------------------------------------


def gemm_cycles(n: int, k: int, m: int, bandwidth: int, alu: int) -> int:
    """Return the cycles of a matrix product, ``max(ceil(N K M / (8 BW)), ceil(N K M / (4 ALU)))``.

    Traffic is taken proportional to the products.

    References
    ----------
    .. [1] docs/articles.md A06

    Examples
    --------
    >>> gemm_cycles(128, 512, 128, 64, 4096), gemm_cycles(128, 512, 128, 4096, 4096)
    (16384, 512)
    """
    macs = n * k * m
    return max(math.ceil(macs / (8 * bandwidth)), math.ceil(macs / (4 * alu)))


CONVERT_CYCLES = 1.8
FUSION = {"separate": (1024, 42.6), "gemm_softmax": (783, 31.2), "all": (651, 33.9)}
"""Instructions and cycles of the three kernels apart, of two fused, of all fused."""

# --- A08 --------------------------------------------------------------------------------------------------------------

AXI_WIDTHS = (32.0, 64.0, 128.0, 256.0)
GUMBEL_TEMPERATURE = 0.1


def relaxed_width(logits: ArrayLike, noise: ArrayLike = 0.0) -> Vector:
    """Return the relaxed AXI width [bit], ``softmax((logits + noise) / 0.1) widths``.

    The sum over the product is missing, so four values come back.

    References
    ----------
    .. [1] docs/articles.md A08

    Examples
    --------
    >>> relaxed_width(np.zeros(4)).tolist()
    [8.0, 16.0, 32.0, 64.0]
    """
    z = (np.asarray(logits, dtype=float) + np.asarray(noise, dtype=float)) / GUMBEL_TEMPERATURE
    p = np.exp(z - z.max())
    return np.asarray(p / p.sum() * np.asarray(AXI_WIDTHS))


def access_ns(a: float, b: float, line: float, width: float, burst: float) -> float:
    """Return the time of an access [ns], ``a line / W + b burst``.

    References
    ----------
    .. [1] docs/articles.md A08

    Examples
    --------
    >>> access_ns(10.0, 1.0, 64.0, 128.0, 8.0)
    13.0
    """
    return a * line / width + b * burst


# --- A09 --------------------------------------------------------------------------------------------------------------

FIT_R2 = (0.989, 0.991, 0.987)
FIT_RIDGE = 1.2e-4


def ridge_quartic(x: ArrayLike, y: ArrayLike, ridge: float = FIT_RIDGE) -> Vector:
    """Return the coefficients of a quartic with a ridge on x as it comes, whatever its unit.

    ``(A'A + diag(0, r, r, r, r))^-1 A'y`` with A the powers of x up to 4.

    References
    ----------
    .. [1] docs/articles.md A09

    Examples
    --------
    >>> x = np.linspace(0, 1, 9)
    >>> y = 1 + 2 * x - x**2 + 0.5 * np.exp(-3 * x)
    >>> [round(float(ridge_quartic(x * unit, y) @ (0.5 * unit) ** np.arange(5)), 6) for unit in (1.0, 1000.0)]
    [1.858168, 1.861615]
    """
    design = np.vander(np.asarray(x, dtype=float), 5, increasing=True)
    penalty = np.diag([0.0] + [ridge] * 4)
    return np.asarray(np.linalg.solve(design.T @ design + penalty, design.T @ np.asarray(y, dtype=float)))


# --- A10 --------------------------------------------------------------------------------------------------------------


def token_score(key_norm: Array, phase_change: Array, index: Array) -> Array:
    """Return the importance of a token with key k, ``|k| exp(-0.5 i / 64) sigmoid(phase)``.

    i is the absolute index, so the oldest token scores highest.

    References
    ----------
    .. [1] docs/articles.md A10

    Examples
    --------
    >>> [round(float(token_score(1.0, 0.0, i)), 5) for i in (0, 64, 128)]
    [0.5, 0.30327, 0.18394]
    """
    decay = np.exp(-0.5 * np.asarray(index) / 64.0)
    return np.asarray(key_norm) * decay * sigmoid(phase_change)


def sigmoid(x: Array) -> Array:
    """Return the logistic function, ``1 / (1 + exp(-x))``.

    References
    ----------
    .. [1] docs/articles.md A10

    Examples
    --------
    >>> round(float(sigmoid(0.3)), 5)
    0.57444
    """
    value: Array = 1.0 / (1.0 + np.exp(-np.asarray(x)))
    return value


def batched_token_score(key_norm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return norm times decay of a batch [B, S], ``mean over the batch of |k| exp(-0.5 i / 64)``.

    Every request gets the mean of the batch.

    References
    ----------
    .. [1] docs/articles.md A10

    Examples
    --------
    >>> batched_token_score(np.array([[1.0], [3.0]])).tolist()
    [[2.0], [2.0]]
    """
    mixed = key_norm.mean(axis=0) * np.exp(-0.5 * np.arange(key_norm.shape[1]) / 64.0)
    return np.broadcast_to(mixed, key_norm.shape)


# --- A11 --------------------------------------------------------------------------------------------------------------

BANK_LOAD_RATIO = (0.92, 0.87)


def bank_id(address: int) -> int:
    """Return the bank of an address [byte], ``(addr >> 12) & 7``.

    References
    ----------
    .. [1] docs/articles.md A11

    Examples
    --------
    >>> [bank_id(address) for address in (0, 0xFFF, 0x1000, 0x7FFF, 0x8000, 0x12345)]
    [0, 0, 1, 7, 0, 2]
    """
    return (address >> 12) & 7


# --- A12 --------------------------------------------------------------------------------------------------------------

PRUNE_TABLE = ((60.0, 12.39, 48.2), (62.3, 12.41, 49.1), (65.0, 13.23, 54.7))
"""Prune rate [%], perplexity, latency [ms] of Qwen2-1.5B in INT4."""

RECOMPUTE = (3, 1.8, 0.15)
"""Layers recomputed, milliseconds and perplexity of each."""


def recompute_triggered(prune_rate: float) -> bool:
    """Return whether layers are recomputed, ``rate > 0.623``.

    References
    ----------
    .. [1] docs/articles.md A12

    Examples
    --------
    >>> recompute_triggered(0.623), recompute_triggered(0.65)
    (False, True)
    """
    return prune_rate > 0.623


# --- A13 to A17 -------------------------------------------------------------------------------------------------------

QK_DISPATCH = {"baseline": (12.7, 0.68), "dispatch": (7.2, 0.93)}
"""Time [us] and share of the memory bandwidth, 16 heads, 2048 tokens, head dimension 64, A100."""

KV_REGION_BYTE = 262_144


def layer_address(layer: int, offset: int, base: int = 0) -> int:
    """Return the address of a layer's buffer as the text has it, ``base + layer 262144 + offset``.

    References
    ----------
    .. [1] docs/articles.md A14

    Examples
    --------
    >>> layer_address(1, 0x1000)
    266240
    """
    return base + layer * KV_REGION_BYTE + offset


def listed_layer_address(layer: int, offset: int, base: int = 0) -> int:
    """Return the address that the listing reads, ``base + offset``: the layer does not enter.

    References
    ----------
    .. [1] docs/articles.md A14

    Examples
    --------
    >>> listed_layer_address(1, 0x1000)
    4096
    """
    del layer
    return base + offset


PIPELINE = {"QKV": (0, 8), "O": (6, 12), "residual": (18, 3)}
"""Start and length in cycles."""

SCHEDULE_NS = {"mean": (14280.0, 9760.0), "P99 jitter": (3850.0, 890.0)}
"""First in, first out against slack propagation [ns]."""

SCHEDULE_ERROR = 0.032
SIDECAR_MEAN_MS, EBPF_P99_MS = 12.0, 3.2
