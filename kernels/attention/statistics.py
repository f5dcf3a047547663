"""Attention statistics per head of a prompt's last queries: the basis of r_max.

All are of one distribution per head: the attention mass that each cached token receives, averaged over the queries
observed. A KV head's tokens can only be pruned for all its query heads together, so there the mass is averaged too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from kernels.decoder.transformer import Prefilled
from kernels.eviction.policies import N_SINKS
from kernels.eviction.token_scores import probabilities

KEEP_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SPARSE_BELOW = 0.1
"""A token counts as hardly attended to when it receives less than this share of the mean mass."""
DROPPED_MASS = 0.02
"""The mass that may be lost at the share `safe_removed_share` gives."""


@dataclass(frozen=True, slots=True)
class AttentionStatistics:
    """Of one prompt; lists are [n_layers][n_heads], or [n_layers][n_kv_heads] where the name says so.

    Attributes
    ----------
    n_tokens, n_queries : int
        Cached tokens, and queries averaged over.
    entropy_nat : list
        Of the mass over positions: 0 for one token, ln n_tokens when even.
    query_entropy_nat : list
        Mean entropy of single queries; never above that of their mean.
    effective_tokens : list
        Effective support, exp(entropy).
    sparse_share : list
        Share of tokens that receive less than `SPARSE_BELOW` of the mean mass.
    mean_distance_tokens : list
        Mean distance from a query to what it attends to.
    sink_mass : list
        Mass on the first 4 tokens.
    keep_shares : list
        Shares of the tokens kept, for the next one.
    retained_mass_kv : list
        [n_layers][n_kv_heads][len(keep_shares)] mass that the heaviest tokens hold.
    safe_removed_share_kv : list
        Largest share of tokens that can go while the rest holds a mass of 1 - `DROPPED_MASS`.
    """

    n_tokens: int
    n_queries: int
    entropy_nat: list[list[float]]
    query_entropy_nat: list[list[float]]
    effective_tokens: list[list[float]]
    sparse_share: list[list[float]]
    mean_distance_tokens: list[list[float]]
    sink_mass: list[list[float]]
    keep_shares: list[float]
    retained_mass_kv: list[list[list[float]]]
    safe_removed_share_kv: list[list[float]]

    def as_record(self) -> dict[str, Any]:
        """Return all of it as JSON knows it, with medians over all heads under ``pooled``."""
        pooled: dict[str, Any] = {
            name.removesuffix("_kv"): float(torch.tensor(getattr(self, name)).median()) for name in _POOLED
        }
        pooled["retained_mass"] = torch.tensor(self.retained_mass_kv).flatten(0, 1).median(0).values.tolist()
        return {**asdict(self), "pooled": pooled, "provenance": "measured"}


_POOLED = (
    "entropy_nat",
    "query_entropy_nat",
    "effective_tokens",
    "sparse_share",
    "mean_distance_tokens",
    "sink_mass",
    "safe_removed_share_kv",
)


@torch.inference_mode()
def attention_statistics(prompt: Prefilled, keep_shares: Sequence[float] = KEEP_SHARES) -> AttentionStatistics:
    """Compute the statistics of a processed prompt.

    Parameters
    ----------
    prompt : Prefilled
        With the queries of its last tokens and all keys.
    keep_shares : sequence of float
        Each 0 < share <= 1.

    Raises
    ------
    ValueError
        A share outside its range.
    """
    if any(not 0 < share <= 1 for share in keep_shares):
        raise ValueError(f"keep_shares: got {tuple(keep_shares)}, expected each 0 < share <= 1")
    n_tokens, n_queries, rule = prompt.cache.length, prompt.queries.shape[2], prompt.cache.rule
    layers = []
    for layer in range(prompt.cache.n_layers):
        k, _ = prompt.cache.dequantised(layer, n_tokens)
        p = probabilities(prompt.queries[layer], k, rule.window(layer), rule.soft_cap)
        layers.append(_of_layer(p, keep_shares))
    by_name = {name: [of_layer[name] for of_layer in layers] for name in layers[0]}
    return AttentionStatistics(n_tokens=n_tokens, n_queries=n_queries, keep_shares=list(keep_shares), **by_name)


def _of_layer(p: Tensor, keep_shares: Sequence[float]) -> dict[str, Any]:
    """Compute what belongs to one layer from its attention [n_kv_heads, n_groups, n_queries, n_tokens]."""
    n_queries, n_tokens = p.shape[2:]
    mass = p.double().mean(2)
    position = torch.arange(n_tokens, dtype=torch.float64)
    distance = position[n_tokens - n_queries :].mean() - mass @ position  # linear in both, so of the means
    entropy = torch.special.entr(mass).sum(-1)
    held = mass.mean(1).sort(-1, descending=True).values.cumsum(-1).clamp_(max=1)
    kept = [max(1, round(share * n_tokens)) - 1 for share in keep_shares]
    n_needed = (held < 1 - DROPPED_MASS - 1e-12).sum(-1) + 1
    by_head = {
        "entropy_nat": entropy,
        "query_entropy_nat": torch.special.entr(p.double()).sum(-1).mean(2),
        "effective_tokens": entropy.exp(),
        "sparse_share": (mass < SPARSE_BELOW / n_tokens).double().mean(-1),
        "mean_distance_tokens": distance,
        "sink_mass": mass[..., :N_SINKS].sum(-1),
    }
    return {
        **{name: values.flatten().tolist() for name, values in by_head.items()},
        "retained_mass_kv": held[:, kept].tolist(),
        "safe_removed_share_kv": (1 - n_needed / n_tokens).tolist(),
    }
