"""Latency: the time of one decoded token and the time to the first one.

::

    T_weights = W / (eta BW)               T_kv   = kappa (1 - alpha_eff) n K / (eta BW)
    T_unpack  = rho N_w / (2 BW beta)      T_comp = F / (beta P)
    T = max(T_weights + T_kv + T_unpack, T_comp) + L t_layer + (V / 49152) t_token + T_reselect / m

Pruning (alpha) acts on KV bytes only, the instruction-set factor (beta) on computing and unpacking only. Everything
here is a pure function that broadcasts over arrays; `DecodeCosts` says what a token moves, `LatencyParameters` what the
board and runtime make of it.

The arithmetic of a decoded token is a roofline at the peak rate: what kernels lose below it, while they read, is in
eta and kappa, since only the sum shows in a measurement. The share of the peak that prefill reaches (eta_compute) is
that of matrix-matrix products and says nothing about matrix-vector products.

References
----------
docs/physics.md, M1 and M2: four parameters fitted to 413 published rows of 18 board x runtime x mode groups.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from core.spec import Array, ReselectionCost
from core.units import check_range

SMOOTH_ORDER = 8  # p of the smooth maximum: at a tie it is 2**(1/8) = 1.0905 times the maximum


@dataclass(frozen=True, slots=True)
class LatencyParameters:
    """The cost parameters of one runtime on one board (arrays allowed).

    They are not checked here: priors are as they are read, all others are exponentials, and a fit, which makes
    thousands of them, must go on from a step that went too far.

    Attributes
    ----------
    eta : share of the peak bandwidth at which weights stream, > 0 [frac]
    kappa : how much dearer a KV byte is than a weight byte, >= 0
    rho : time to unpack weights, in units of reading 4-bit weights at peak, >= 0
    t_layer_s : launch and synchronisation per layer, >= 0 [s]
    t_token_s : choosing a token from the logits of `USUAL_VOCABULARY` entries, and the rest of its constant, >= 0 [s]
    eta_compute : share of the peak compute rate reached in prefill, > 0 [frac]
    t_layer_prefill_s : launch and synchronisation per layer in prefill, >= 0 [s]
    """

    eta: Array
    kappa: Array = 1.0
    rho: Array = 0.0
    t_layer_s: Array = 0.0
    t_token_s: Array = 0.0
    eta_compute: Array = 1.0
    t_layer_prefill_s: Array = 0.0


PARAMETERS = tuple(f.name for f in fields(LatencyParameters))
"""Names of the parameters in the order of every gradient here."""


USUAL_VOCABULARY = 49152.0
"""Entries that `LatencyParameters.t_token_s` is of: those of SmolLM2. Runtimes sort, mask or at least compare logits on
the CPU, mostly on one core, so the time goes with their number."""


_RATES = ("bandwidth_byte_s", "compute_op_s", "beta", "width_cost")


def _checked(costs: DecodeCosts | PrefillCosts) -> None:
    """Raise `ValueError` where a rate is not above 0 or a cost below it."""
    for name in costs.__dataclass_fields__:
        check_range(name, getattr(costs, name), 0.0, open_low=name in _RATES)


@dataclass(frozen=True, slots=True)
class DecodeCosts:
    """What one token costs, before any board (arrays allowed). All are >= 0, or refused with a `ValueError`.

    Attributes
    ----------
    weight_byte : bytes of weights streamed [byte]
    kv_byte : bytes of KV cache read, after pruning [byte]
    n_unpacked : weights that must be unpacked; 0 for formats that the units read directly
    flop : operations [op]
    n_layers : layers
    bandwidth_byte_s : peak bandwidth, > 0 [byte/s]
    compute_op_s : peak compute rate at beta = 1, > 0; infinite when unknown [op/s]
    beta : speed-up of computing and unpacking, > 0
    reselection_s : time of KV token re-selection, spread over the tokens between two of them [s]
    n_vocabularies : entries of the vocabulary, in `USUAL_VOCABULARY`
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

    def __post_init__(self) -> None:
        _checked(self)


@dataclass(frozen=True, slots=True)
class DecodeParts:
    """The terms of a decode time, each in seconds; `total` is what overlap leaves of their sum."""

    weights: Array
    kv: Array
    unpack: Array
    compute: Array
    layers: Array
    token: Array
    reselection: Array
    memory: Array  # of the memory side: reading weights and KV cache, and unpacking
    total: Array


def overlap(memory_s: Array, compute_s: Array, how: str = "max") -> Array:
    """Return the time of two activities that overlap [s].

    Parameters
    ----------
    memory_s, compute_s : float or array
        Their times alone, >= 0 [s].
    how : str
        "max" (perfect overlap), "smooth" (differentiable, at most 9.05 % above the maximum) or "sum" (none).

    Raises
    ------
    ValueError
        Another `how`.
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
    """Return the decode time of one token and its terms [s]; the equations are at the top of this file.

    Parameters
    ----------
    costs, parameters
        Arrays in them broadcast against each other.
    how : str
        How memory and compute overlap, see `overlap`.

    References
    ----------
    docs/physics.md, M1: 79.24032 ms for Llama-3-8B at 4.5 bit, 102.4 GB/s, eta .84, kappa 2.4, rho .5, 136 us/layer.
    """
    per_byte = 1.0 / (parameters.eta * costs.bandwidth_byte_s)
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
    """Return the time the token would take on the board's own memory and instruction set [s]."""
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
    """Return the terms of the time of choosing anew which cached tokens are read [s]; that time is their sum.

    ``L t_layer, copy C / BW, read K / BW, score Q / BW``; the last two are 0 for a policy that scores tokens as they
    come.

    Parameters
    ----------
    cost : ChoiceCost
    policy, kv : str
        One that `cost` knows, and the format of the cache.
    moved : tuple of float or array
        C, K, Q: copied keys and values, all keys, and these for each query head, in 16 bits [byte], as
        `core.physics.traffic.reselection_byte` gives them.
    n_layers : int
    bandwidth_byte_s : float or array
        > 0 [byte/s].
    """
    copied, keys, scored = (byte / bandwidth_byte_s for byte in moved)
    score = cost.score[policy]
    read = cost.of_format(cost.read, kv) * keys if score else 0.0 * keys
    return n_layers * cost.layer_s[policy], cost.of_format(cost.copy, kv) * copied, read, score * scored


def decode_gradient_s(parts: DecodeParts) -> tuple[Array, ...]:
    """Return ``d T / d ln parameter`` for each of `PARAMETERS`, with perfect overlap [s].

    Each is the part of the time that scales with the parameter, negative where the parameter divides.
    """
    by_memory = parts.memory >= parts.compute
    weights, kv, unpack = (part * np.asarray(by_memory) for part in (parts.weights, parts.kv, parts.unpack))
    return (-(weights + kv), kv, unpack, parts.layers, parts.token, 0.0, 0.0)


def decode_log_gradient(parts: DecodeParts) -> tuple[Array, ...]:
    """Return ``d ln T / d ln parameter`` for each of `PARAMETERS`, with perfect overlap (dimensionless)."""
    return tuple(slope_s / parts.total for slope_s in decode_gradient_s(parts))


@dataclass(frozen=True, slots=True)
class PrefillCosts:
    """What a prompt costs, before any board (arrays allowed). All are >= 0, or refused with a `ValueError`.

    Attributes
    ----------
    flop : operations of the whole prompt [op]
    weight_byte : bytes of weights, read once a chunk [byte]
    n_layers : layers that cost `t_layer_prefill_s` each
    bandwidth_byte_s, compute_op_s, beta : as in `DecodeCosts`
    width_cost : how much longer an operation takes than in a model of the reference width, see `width_cost`
    n_launched : layers that cost `t_layer_s` each, as those of a decoded token do
    n_vocabularies : as in `DecodeCosts`
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
    """Return how much longer an operation of a prompt takes in a model of that width than in one of 1024.

    Matrix products as narrow as the model reach ``h / (h + h_half)`` of the rate that wide ones reach.

    Parameters
    ----------
    hidden_size : float or array
        h, > 0.
    half_width : float or array
        h_half, the hidden size that reaches half of the rate, >= 0; 0 means that width does not matter.
    """
    check_range("hidden_size", hidden_size, 0.0, open_low=True)
    check_range("half_width", half_width, 0.0)
    return (1.0 + half_width / hidden_size) / (1.0 + half_width / REFERENCE_WIDTH)


@dataclass(frozen=True, slots=True)
class PrefillParts:
    """The terms of a time to first token, each in seconds."""

    compute: Array
    weights: Array
    layers: Array
    launches: Array
    token: Array
    total: Array


def prefill_parts(costs: PrefillCosts, parameters: LatencyParameters) -> PrefillParts:
    """Return the time to the first token and its terms [s].

    ``TTFT = max(w F / (beta P eta_c), W / (eta BW)) + L t_layer_prefill + L' t_layer + v t_token``, w being
    `width_cost`, L' `n_launched` and v `n_vocabularies`; the model is loaded already.

    References
    ----------
    docs/physics.md, M2.
    """
    compute = costs.flop * (costs.width_cost / (costs.beta * costs.compute_op_s * parameters.eta_compute))
    weights = costs.weight_byte / (parameters.eta * costs.bandwidth_byte_s)
    layers = costs.n_layers * parameters.t_layer_prefill_s
    launches = costs.n_launched * parameters.t_layer_s
    token = costs.n_vocabularies * parameters.t_token_s
    total = np.maximum(compute, weights) + layers + launches + token
    return PrefillParts(compute, weights, layers, launches, token, total)


def prefill_gradient_s(parts: PrefillParts) -> tuple[Array, ...]:
    """Return ``d TTFT / d ln parameter`` for each of `PARAMETERS` [s]."""
    by_compute = np.greater_equal(parts.compute, parts.weights)
    weights, compute = parts.weights * ~by_compute, parts.compute * by_compute
    return (-weights, 0.0, 0.0, parts.launches, parts.token, -compute, parts.layers)


def prefill_log_gradient(parts: PrefillParts) -> tuple[Array, ...]:
    """Return ``d ln TTFT / d ln parameter`` for each of `PARAMETERS` (dimensionless)."""
    return tuple(slope_s / parts.total for slope_s in prefill_gradient_s(parts))
