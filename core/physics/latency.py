"""Latency: the time of one decoded token and the time to the first one.

::

    T_weights = W / (eta BW)               T_kv   = kappa (1 - alpha_eff) n K / (eta BW)
    T_unpack  = rho N_w / (2 BW beta)      T_comp = F / (beta P)
    T = max(T_weights + T_kv + T_unpack, T_comp) + L t_layer + (V / 49152) t_token + T_reselect / m

Pruning (alpha) acts on KV bytes only, the instruction-set factor (beta) on arithmetic and unpacking only. Every
function is pure and broadcasts over arrays; `DecodeCosts` holds the traffic of a token, `LatencyParameters` the
efficiency of runtime and board.

The arithmetic of a decoded token is a roofline at the peak rate: losses of kernels below it, while they read, are in
eta and kappa, since a measurement shows the sum only. The share of the peak that prefill reaches (eta_compute) is that
of matrix-matrix products and does not hold for matrix-vector products.

References
----------
.. [1] docs/physics.md M1, M2: priors learned from 676 published decode rows of 38 board x runtime x mode groups
.. [2] williams2009 (roofline), docs/references.md
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from core.spec import Array, ReselectionCost
from core.units import check_range

SMOOTH_ORDER = 8  # p of the smooth maximum: at a tie it is 2**(1/8) = 1.0905 times the maximum


@dataclass(frozen=True, slots=True)
class LatencyParameters:
    """Cost parameters of one runtime on one board (arrays allowed).

    They are not checked here: priors are checked as they are read, all others are exponentials, and a fit, which makes
    thousands of them, must go on from a step that went too far.

    Attributes
    ----------
    eta : float or ndarray
        Share of the peak bandwidth at which weights stream [1], > 0.
    kappa : float or ndarray
        Cost of a KV byte over that of a weight byte [1], >= 0.
    rho : float or ndarray
        Time to unpack a weight in units of reading a 4-bit weight at peak bandwidth [1], >= 0.
    t_layer_s : float or ndarray
        Launch and synchronisation per layer [s], >= 0.
    t_token_s : float or ndarray
        Choice of a token from `USUAL_VOCABULARY` logits and the rest of the constant [s], >= 0.
    eta_compute : float or ndarray
        Share of the peak compute rate reached in prefill [1], > 0.
    t_layer_prefill_s : float or ndarray
        Work per layer in prefill that is no matrix product [s], >= 0.
    """

    eta: Array
    kappa: Array = 1.0
    rho: Array = 0.0
    t_layer_s: Array = 0.0
    t_token_s: Array = 0.0
    eta_compute: Array = 1.0
    t_layer_prefill_s: Array = 0.0


USUAL_VOCABULARY = 49152.0
"""Size of the vocabulary that `LatencyParameters.t_token_s` belongs to, that of SmolLM2. Runtimes sort, mask or at
least compare logits on the CPU, mostly on one core, so the time is proportional to their number."""


_RATES = ("bandwidth_byte_s", "compute_op_s", "beta", "width_cost")


def _checked(costs: DecodeCosts | PrefillCosts) -> None:
    """Raise `ValueError` where a rate is not above 0 or a cost is below 0."""
    for name in costs.__dataclass_fields__:
        check_range(name, getattr(costs, name), 0.0, open_low=name in _RATES)


@dataclass(frozen=True, slots=True)
class DecodeCosts:
    """Costs of one token, before any board (arrays allowed); a negative cost is a `ValueError`.

    Attributes
    ----------
    weight_byte : float or ndarray
        Bytes of weights streamed [byte].
    kv_byte : float or ndarray
        Bytes of KV cache read, after pruning [byte].
    n_unpacked : float or ndarray
        Weights that must be unpacked [1]; 0 for formats that the units read directly.
    flop : float or ndarray
        Operations [op].
    n_layers : float or ndarray
        Layers [1].
    bandwidth_byte_s : float or ndarray
        Peak bandwidth [byte/s], > 0.
    compute_op_s : float or ndarray
        Peak compute rate at beta = 1 [op/s], > 0; infinite where no source states it.
    beta : float or ndarray
        Speed-up of arithmetic and unpacking by the instruction set [1], > 0.
    reselection_s : float or ndarray
        Time of KV token re-selection, spread over the tokens between two of them [s].
    n_vocabularies : float or ndarray
        Entries of the vocabulary in units of `USUAL_VOCABULARY` [1].
    byte_cost : float or ndarray
        Mean time of a byte over that of one from DRAM, `core.physics.levels.byte_cost` [1], > 0.
    dram_frac : float or ndarray
        Share of the bytes that DRAM serves [1], 0 to 1.
    """

    weight_byte: Array
    kv_byte: Array
    n_unpacked: Array
    flop: Array
    n_layers: Array
    bandwidth_byte_s: Array
    compute_op_s: Array = np.inf
    beta: Array = 1.0
    reselection_s: Array = 0.0
    n_vocabularies: Array = 1.0
    byte_cost: Array = 1.0
    dram_frac: Array = 1.0

    def __post_init__(self) -> None:
        _checked(self)

    @property
    def dram_byte(self) -> Array:
        """Bytes from DRAM [byte]."""
        return (self.weight_byte + self.kv_byte) * self.dram_frac


@dataclass(frozen=True, slots=True)
class DecodeParts:
    """Terms of a decode time [s].

    `memory` is the memory side: weights, KV cache and unpacking. `total` is what overlap leaves of the sum.
    """

    weights: Array
    kv: Array
    unpack: Array
    compute: Array
    layers: Array
    token: Array
    reselection: Array
    memory: Array
    total: Array


TERMS = tuple(field.name for field in fields(DecodeParts) if field.name not in ("memory", "total"))
"""Names of the terms of a decode time; `memory` and `total` are made of them."""


def overlap(memory_s: Array, compute_s: Array, how: str = "max") -> Array:
    """Return the time of two activities that overlap.

    ``max(a, b)``, ``(a^8 + b^8)^(1/8)`` or ``a + b``.

    Parameters
    ----------
    memory_s, compute_s : float or ndarray
        Times a and b of each alone [s], >= 0.
    how : str
        "max" (perfect overlap), "smooth" (differentiable, at most 9.05 % above the maximum) or "sum" (none).

    Returns
    -------
    float or ndarray
        Time [s].

    Raises
    ------
    ValueError
        `how` is unknown.

    References
    ----------
    .. [1] docs/physics.md M1
    .. [2] williams2009, docs/references.md

    Examples
    --------
    >>> [round(float(overlap(1.0, 1.0, how)), 4) for how in ("max", "smooth", "sum")]
    [1.0, 1.0905, 2.0]
    """
    if how == "max":
        return np.maximum(memory_s, compute_s)
    if how == "smooth":
        high, low = np.maximum(memory_s, compute_s), np.minimum(memory_s, compute_s)
        ratio = np.divide(low, high, out=np.zeros_like(np.asarray(high, dtype=float)), where=np.asarray(high) > 0)
        smooth: Array = high * (1.0 + ratio**SMOOTH_ORDER) ** (1.0 / SMOOTH_ORDER)
        return smooth
    if how == "sum":
        return memory_s + compute_s
    raise ValueError(f"how = {how!r} is none of max, smooth, sum")


def decode_parts(costs: DecodeCosts, parameters: LatencyParameters, *, how: str = "max") -> DecodeParts:
    """Return the decode time of one token and its terms.

    ``T = max(T_weights + T_kv + T_unpack, T_compute) + L t_layer + (V / 49152) t_token + T_reselect / m``; the terms
    are at the top of this file.

    Parameters
    ----------
    costs : DecodeCosts
        Costs of the token.
    parameters : LatencyParameters
        Parameters of the runtime on the board; arrays broadcast against those of `costs`.
    how : str
        How memory and compute overlap, see `overlap`.

    Returns
    -------
    DecodeParts
        Time and terms [s].

    Raises
    ------
    ValueError
        `how` is unknown.

    References
    ----------
    .. [1] docs/physics.md M1
    .. [2] williams2009, docs/references.md

    Examples
    --------
    >>> weights, kv = 6979321856.0 + 525336576.0, 131072.0 * 2048  # Llama-3-8B
    >>> costs = DecodeCosts(weights * 4.5 / 8, kv, weights, 2 * weights, 32, 102.4e9, 10e12)
    >>> plain = LatencyParameters(eta=0.8, t_layer_s=50e-6)
    >>> round(float(decode_parts(costs, plain).total) * 1e3, 4)
    56.4072
    >>> four = LatencyParameters(eta=0.84, kappa=2.4, rho=0.5, t_layer_s=136e-6)
    >>> round(float(decode_parts(costs, four).total) * 1e3, 4)
    79.2403
    """
    per_byte = costs.byte_cost / (parameters.eta * costs.bandwidth_byte_s)
    weights = costs.weight_byte * per_byte
    kv = parameters.kappa * costs.kv_byte * per_byte
    unpack = 0.5 * parameters.rho * costs.n_unpacked / (costs.bandwidth_byte_s * costs.beta)
    compute = costs.flop / (costs.beta * costs.compute_op_s)
    layers = costs.n_layers * parameters.t_layer_s
    token = costs.n_vocabularies * parameters.t_token_s
    memory = weights + kv + unpack
    total = overlap(memory, compute, how) + (layers + token + costs.reselection_s)
    return DecodeParts(weights, kv, unpack, compute, layers, token, costs.reselection_s, memory, total)


def own_pace_s(parts: DecodeParts, costs: DecodeCosts, own_byte_s: float) -> Array:
    """Return the time of a token on the board's own memory and instruction set.

    ``T_own = max((T_weights + T_kv + beta T_unpack) BW / BW_own, beta T_compute) + layers + token + re-selection``

    Parameters
    ----------
    parts : DecodeParts
        Terms of the token at the bandwidth and beta of `costs` [s].
    costs : DecodeCosts
        Costs of the token.
    own_byte_s : float
        The board's own bandwidth BW_own [byte/s], > 0.

    Returns
    -------
    float or ndarray
        Time [s].

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> costs = DecodeCosts(4e9, 0.0, 0.0, 0.0, 32, 50e9)
    >>> float(own_pace_s(decode_parts(costs, LatencyParameters(eta=0.8)), costs, 100e9))
    0.05
    """
    slower = costs.bandwidth_byte_s / own_byte_s
    memory_s = (parts.weights + parts.kv + parts.unpack * costs.beta) * slower
    return overlap(memory_s, parts.compute * costs.beta) + parts.layers + parts.token + parts.reselection


def reselection_parts(
    cost: ReselectionCost,
    policy: str,
    kv: str,
    moved: tuple[Array, Array, Array],
    n_layers: int,
    bandwidth_byte_s: Array,
) -> tuple[Array, Array, Array, Array]:
    """Return the terms of the time of one KV token re-selection; the time is their sum.

    ``L t_policy``, ``c_kv C / BW``, ``r_kv K / BW``, ``s_policy Q / BW``; the last two are 0 for a policy that scores
    tokens at insertion.

    Parameters
    ----------
    cost : ReselectionCost
        Costs t, c, r and s of the runtime.
    policy : str
        A policy that `cost` has.
    kv : str
        Format of the cache.
    moved : tuple of float or ndarray
        C, K and Q of `core.physics.traffic.reselection_byte` [byte].
    n_layers : int
        Layers L with a cache [1].
    bandwidth_byte_s : float or ndarray
        Peak bandwidth BW [byte/s], > 0.

    Returns
    -------
    tuple of float or ndarray
        The four terms [s].

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> cost = ReselectionCost({"snapkv": 10e-6}, {"bf16": 2.0}, {"bf16": 1.0}, {"snapkv": 0.5}, log_sd=0.4)
    >>> terms = reselection_parts(cost, "snapkv", "bf16", (1e6, 1e6, 4e6), 30, 1e9)
    >>> [round(float(term) * 1e3, 6) for term in terms]
    [0.3, 2.0, 1.0, 2.0]
    """
    copied, keys, scored = (byte / bandwidth_byte_s for byte in moved)
    score = cost.score[policy]
    read = cost.of_format(cost.read, kv) * keys if score else 0.0 * keys
    return n_layers * cost.layer_s[policy], cost.of_format(cost.copy, kv) * copied, read, score * scored


def decode_gradient_s(parts: DecodeParts) -> dict[str, Array]:
    """Return the gradient of the decode time by the logarithms of its parameters, with perfect overlap.

    ``dT / d ln parameter``: the part of T that scales with the parameter, negative where the parameter divides.

    Parameters
    ----------
    parts : DecodeParts
        Terms of the decode time [s].

    Returns
    -------
    dict of str to float or ndarray
        Derivative by each of `LatencyParameters` that T depends on [s].

    References
    ----------
    .. [1] docs/physics.md M10

    Examples
    --------
    >>> costs = DecodeCosts(4e9, 1e9, 0.0, 0.0, 32, 100e9)
    >>> slopes = decode_gradient_s(decode_parts(costs, LatencyParameters(eta=0.8, t_layer_s=50e-6)))
    >>> {name: round(float(slope), 6) for name, slope in slopes.items()}
    {'eta': -0.0625, 'kappa': 0.0125, 'rho': 0.0, 't_layer_s': 0.0016, 't_token_s': 0.0}
    """
    by_memory = parts.memory >= parts.compute
    weights, kv, unpack = (part * np.asarray(by_memory) for part in (parts.weights, parts.kv, parts.unpack))
    return {"eta": -(weights + kv), "kappa": kv, "rho": unpack, "t_layer_s": parts.layers, "t_token_s": parts.token}


def decode_log_gradient(parts: DecodeParts) -> dict[str, Array]:
    """Return the gradient of the logarithm of the decode time, ``d ln T / d ln parameter = (dT / d ln parameter) / T``.

    Parameters
    ----------
    parts : DecodeParts
        Terms of the decode time [s].

    Returns
    -------
    dict of str to float or ndarray
        Elasticity to each parameter of `decode_gradient_s` [1].

    References
    ----------
    .. [1] docs/physics.md M10

    Examples
    --------
    >>> costs = DecodeCosts(4e9, 0.0, 0.0, 0.0, 32, 100e9)
    >>> round(float(decode_log_gradient(decode_parts(costs, LatencyParameters(eta=0.8)))["eta"]), 6)
    -1.0
    """
    return {name: slope_s / parts.total for name, slope_s in decode_gradient_s(parts).items()}


@dataclass(frozen=True, slots=True)
class PrefillCosts:
    """Costs of a prompt, before any board (arrays allowed); a negative cost is a `ValueError`.

    Attributes
    ----------
    flop : float or ndarray
        Operations of the whole prompt [op].
    weight_byte : float or ndarray
        Bytes of weights, read once a chunk [byte].
    n_layers : float or ndarray
        Layers that cost `t_layer_prefill_s` each [1].
    bandwidth_byte_s, compute_op_s, beta : float or ndarray
        As in `DecodeCosts` [byte/s, op/s, 1].
    width_cost : float or ndarray
        Time of an operation over that in a model of the reference width, see `width_cost` [1], > 0.
    n_launched : float or ndarray
        Layers that cost `t_layer_s` each, as those of a decoded token do [1].
    n_vocabularies : float or ndarray
        As in `DecodeCosts` [1].
    """

    flop: Array
    weight_byte: Array
    n_layers: Array
    bandwidth_byte_s: Array
    compute_op_s: Array
    beta: Array = 1.0
    width_cost: Array = 1.0
    n_launched: Array = 0.0
    n_vocabularies: Array = 1.0

    def __post_init__(self) -> None:
        _checked(self)


REFERENCE_WIDTH = 1024.0  # hidden size whose share of the compute rate is eta_compute


def width_cost(hidden_size: Array, half_width: Array) -> Array:
    """Return the time of a prompt's operation in a model of a hidden size over that in one of 1024.

    ``v = (1 + h_half / h) / (1 + h_half / 1024)``: matrix products as narrow as the model reach ``h / (h + h_half)`` of
    the rate of wide ones.

    Parameters
    ----------
    hidden_size : float or ndarray
        Hidden size h [1], > 0.
    half_width : float or ndarray
        Hidden size h_half that reaches half of the rate [1], >= 0; 0 means that width has no influence.

    Returns
    -------
    float or ndarray
        Ratio of times [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M2

    Examples
    --------
    >>> [round(float(width_cost(h, 600.0)), 4) for h in (512.0, 1024.0, 4096.0)]
    [1.3695, 1.0, 0.7229]
    """
    check_range("hidden_size", hidden_size, 0.0, open_low=True)
    check_range("half_width", half_width, 0.0)
    return (1.0 + half_width / hidden_size) / (1.0 + half_width / REFERENCE_WIDTH)


@dataclass(frozen=True, slots=True)
class PrefillParts:
    """Terms of a time to first token [s]; `total` is what overlap leaves of the sum."""

    compute: Array
    weights: Array
    layers: Array
    launches: Array
    token: Array
    total: Array


def prefill_parts(costs: PrefillCosts, parameters: LatencyParameters) -> PrefillParts:
    """Return the time to the first token and its terms.

    ``TTFT = max(v F / (beta P eta_c), W / (eta BW)) + L' t_pre + L" t_layer + (V / 49152) t_token`` with v of
    `width_cost`, L' of `n_layers` and L" of `n_launched`; the model is in memory already.

    Parameters
    ----------
    costs : PrefillCosts
        Costs of the prompt.
    parameters : LatencyParameters
        Parameters of the runtime on the board; arrays broadcast against those of `costs`.

    Returns
    -------
    PrefillParts
        Time and terms [s].

    References
    ----------
    .. [1] docs/physics.md M2

    Examples
    --------
    >>> costs = PrefillCosts(1.792085590016e12, 4221370368.0, 32, 102.4e9, 10e12)  # Llama-3-8B, 128 tokens
    >>> parameters = LatencyParameters(eta=0.8, eta_compute=0.5, t_layer_prefill_s=1e-3)
    >>> round(float(prefill_parts(costs, parameters).total) * 1e3, 4)
    390.4171
    """
    compute = costs.flop * (costs.width_cost / (costs.beta * costs.compute_op_s * parameters.eta_compute))
    weights = costs.weight_byte / (parameters.eta * costs.bandwidth_byte_s)
    layers = costs.n_layers * parameters.t_layer_prefill_s
    launches = costs.n_launched * parameters.t_layer_s
    token = costs.n_vocabularies * parameters.t_token_s
    total = np.maximum(compute, weights) + layers + launches + token
    return PrefillParts(compute, weights, layers, launches, token, total)


def prefill_gradient_s(parts: PrefillParts) -> dict[str, Array]:
    """Return the gradient of the time to first token by the logarithms of its parameters.

    ``dTTFT / d ln parameter``: the part of TTFT that scales with the parameter, negative where the parameter divides.

    Parameters
    ----------
    parts : PrefillParts
        Terms of the time to first token [s].

    Returns
    -------
    dict of str to float or ndarray
        Derivative by each of `LatencyParameters` that TTFT depends on [s].

    References
    ----------
    .. [1] docs/physics.md M10

    Examples
    --------
    >>> costs = PrefillCosts(2e12, 4e9, 32, 100e9, 10e12)
    >>> slopes = prefill_gradient_s(prefill_parts(costs, LatencyParameters(eta=0.8, eta_compute=0.5)))
    >>> round(float(slopes["eta_compute"]), 6)
    -0.4
    """
    by_compute = np.greater_equal(parts.compute, parts.weights)
    weights, compute = parts.weights * ~by_compute, parts.compute * by_compute
    return {
        "eta": -weights,
        "t_layer_s": parts.launches,
        "t_token_s": parts.token,
        "eta_compute": -compute,
        "t_layer_prefill_s": parts.layers,
    }


def prefill_log_gradient(parts: PrefillParts) -> dict[str, Array]:
    """Return the gradient of the logarithm of the time to first token, ``d ln TTFT / d ln parameter``.

    Parameters
    ----------
    parts : PrefillParts
        Terms of the time to first token [s].

    Returns
    -------
    dict of str to float or ndarray
        Elasticity to each parameter of `prefill_gradient_s` [1].

    References
    ----------
    .. [1] docs/physics.md M10

    Examples
    --------
    >>> costs = PrefillCosts(2e12, 4e9, 32, 100e9, 10e12)
    >>> parts = prefill_parts(costs, LatencyParameters(eta=0.8, eta_compute=0.5))
    >>> round(float(prefill_log_gradient(parts)["eta_compute"]), 6)
    -1.0
    """
    return {name: slope_s / parts.total for name, slope_s in prefill_gradient_s(parts).items()}
