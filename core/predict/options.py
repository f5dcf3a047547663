"""Options of a point beside formats and pruning: sparse weights, adapters, on-chip memory, pruned activations, layout.

Each one changes the bytes and operations of a token where board and runtime support it; a sentence tells where not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from core.physics import adapters, latency, levels, sparsity, traffic
from core.spec import Absent, Array, OperatingPoint, ResolvedPoint
from core.units import BIT_PER_BYTE, OP_PER_MAC

LEAST_DRAM = 1e-3
"""Share of the bytes that DRAM serves at least, in energies: a token is looked up there."""


def with_options(costs: latency.DecodeCosts, point: OperatingPoint, at: ResolvedPoint) -> latency.DecodeCosts:
    """Return the costs of a token with those of the point's options."""
    changed = costs
    left_out = _left_out(point, at)
    if left_out is not None:
        saved = at.model.body_params * left_out
        changed = replace(
            changed,
            weight_byte=changed.weight_byte - body_byte(at) * (1.0 - _byte_ratio(point, at)),
            n_unpacked=np.maximum(changed.n_unpacked - saved, 0.0),
            flop=np.maximum(changed.flop - OP_PER_MAC * saved, 0.0),
        )
    if np.any(point.adapter_rank):
        n_adapter = adapter_params(point, at)
        changed = replace(
            changed,
            weight_byte=changed.weight_byte + n_adapter * adapters.ADAPTER_BIT / BIT_PER_BYTE,
            flop=changed.flop + OP_PER_MAC * n_adapter,
        )
    if np.any(point.on_chip_frac):
        share = np.asarray(point.on_chip_frac, dtype=float)
        changed = replace(
            changed,
            byte_cost=byte_cost(point, at, changed.bandwidth_byte_s),
            dram_frac=np.maximum(1.0 - share, LEAST_DRAM),
        )
    return changed


def prefill_with_options(costs: latency.PrefillCosts, point: OperatingPoint, at: ResolvedPoint) -> latency.PrefillCosts:
    """Return the costs of a prompt with those of the point's options: each reading of the weights changes alike."""
    left_out = _left_out(point, at)
    if left_out is None and not np.any(point.adapter_rank) and not np.any(point.on_chip_frac):
        return costs
    dense = traffic.weight_byte(at.model, at.weights, at.head)
    n_adapter = adapter_params(point, at)
    read = dense + n_adapter * adapters.ADAPTER_BIT / BIT_PER_BYTE - body_byte(at) * (1.0 - _byte_ratio(point, at))
    more = n_adapter - (0.0 if left_out is None else at.model.body_params * left_out)
    return replace(
        costs,
        flop=np.maximum(costs.flop + OP_PER_MAC * more * np.asarray(point.context_tokens), 0.0),
        weight_byte=costs.weight_byte * read / dense * byte_cost(point, at, costs.bandwidth_byte_s),
    )


def memory_byte(point: OperatingPoint, at: ResolvedPoint, context_tokens: Array, kept_frac: Array = 1.0) -> Array:
    """Return the bytes that must fit in memory: weights with sparsity and adapters, embedding, and kept KV cache."""
    held = traffic.memory_byte(at.model, at.weights, at.kv, context_tokens, kept_frac, at.head)
    if _left_out(point, at) is not None:
        idle = traffic.idle_params(at.model) * at.weights.bits_per_weight / BIT_PER_BYTE
        held = held - (body_byte(at) + idle) * (1.0 - _byte_ratio(point, at))
    if np.any(point.adapter_rank):
        held = held + adapter_params(point, at) * adapters.ADAPTER_BIT / BIT_PER_BYTE
    return held


def body_byte(at: ResolvedPoint) -> float:
    """Return the bytes of the dense weights of the layers that a token reads [byte]."""
    return at.model.body_params * at.weights.bits_per_weight / BIT_PER_BYTE


def adapter_params(point: OperatingPoint, at: ResolvedPoint) -> Array:
    """Return the parameters of the point's adapters [1]."""
    return adapters.adapter_params(at.model, point.adapter_rank, point.adapter_matrices)


def byte_cost(point: OperatingPoint, at: ResolvedPoint, bandwidth_byte_s: Array) -> Array:
    """Return the mean time of a byte over that of one from DRAM [1]."""
    on_chip: Array = point.on_chip_byte_s if point.on_chip_byte_s is not None else at.board.on_chip_byte_s or np.inf
    return levels.byte_cost(point.on_chip_frac, on_chip, bandwidth_byte_s)


def reads_sparse(point: OperatingPoint, at: ResolvedPoint) -> bool:
    """Return True if board and runtime read the point's pattern of zero weights compressed.

    Without whole rows a matrix is a smaller dense one, which any kernel multiplies.
    """
    pattern = point.sparsity_pattern
    return pattern == "rows" or (pattern in at.runtime.abilities and pattern in at.board.sparse_patterns)


def _left_out(point: OperatingPoint, at: ResolvedPoint) -> Array | None:
    """Return the share of the weights that kernels leave out; None where it is 0 at all points."""
    if not np.any(point.weight_sparsity) or not reads_sparse(point, at):
        return None
    return sparsity.left_out(point.weight_sparsity, point.sparsity_pattern)


def _byte_ratio(point: OperatingPoint, at: ResolvedPoint) -> Array:
    if _left_out(point, at) is None:
        return 1.0
    return sparsity.sparse_byte_ratio(point.weight_sparsity, point.sparsity_pattern, at.weights.bits_per_weight)


def explains(point: OperatingPoint) -> bool:
    """Return True if predictions have the effect of every option of a point (scalars)."""
    return point.activation_keep == 1.0 and not point.kv_layout


def unknown_accuracy(point: OperatingPoint) -> Absent | None:
    """Return the reason that the accuracy of a point, or of any of an array of points, is not predicted."""
    if np.any(point.weight_sparsity):
        return Absent("the accuracy of a model with zero weights depends on how it was pruned and trained")
    if np.any(point.adapter_rank):
        return Absent("an adapter changes the answers of the model on purpose, so it has no reference to agree with")
    if np.any(np.not_equal(point.activation_keep, 1.0)):
        return Absent("no source has the accuracy of pruned activations: measure this point")
    return None


def sentences(point: OperatingPoint, at: ResolvedPoint) -> list[str]:
    """Return a sentence for each option that has no effect, or none that is known, at a point or an array of points."""
    found = []
    runtime, board = at.runtime.name, at.board.name
    if np.any(point.weight_sparsity):
        pattern = point.sparsity_pattern
        if not reads_sparse(point, at):
            found.append(f"{runtime} on {board} reads weights with {pattern} zeros in full: nothing is saved")
        elif pattern == "2:4" and np.any(np.less(point.weight_sparsity, sparsity.HALF)):
            found.append("2:4 saves nothing below a sparsity of 0.5, since two of four weights must be zero")
    if np.any(point.adapter_rank) and "adapters" not in at.runtime.abilities:
        found.append(f"{runtime} takes no adapters: their cost is hypothetical")
    if np.any(point.on_chip_frac):
        if point.on_chip_byte_s is None and at.board.on_chip_byte_s is None:
            found.append(f"{board} has no known on-chip bandwidth: bytes from on-chip memory take no time")
        found.append("Energy and power are lower bounds: the energy of bytes from on-chip memory is not known")
    if np.any(np.not_equal(point.activation_keep, 1.0)):
        skipped = sparsity.skipped_down_params(
            at.model.n_layers, at.model.hidden_size, at.model.intermediate_size, np.min(point.activation_keep)
        )
        share = float(skipped) * at.weights.bits_per_weight / BIT_PER_BYTE
        share /= traffic.weight_byte(at.model, at.weights, at.head)
        found.append(
            f"{runtime} skips no zero activations, so they gain no time; a kernel that does would read up to "
            f"{100.0 * share:.2g} % fewer bytes of weights"
        )
    if point.kv_layout:
        found.append("KV layouts have a measured effect on time only: predictions have none")
    return found
