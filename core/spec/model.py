"""Models: decoder-only transformers by their shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class CachingLayers:
    """Layers of a model with equal KV caches."""

    n_layers: int
    n_kv_heads: int
    key_dim: int  # values in a head's key
    value_dim: int  # values in a head's value; 0 where the key is the value as well, as in latent attention
    window_tokens: float = 0.0  # newest tokens that the layers attend to; 0 for all
    batch_tokens: float = 0.0  # tokens of a prefill batch, held in memory in addition to a window

    @property
    def kv_values(self) -> int:
        """Cached values per token."""
        return self.n_layers * self.n_kv_heads * (self.key_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The shape of a decoder-only transformer: what speed, memory and accuracy depend on."""

    key: str
    name: str
    n_layers: int
    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tied_embeddings: bool
    body_params: float  # read per token, without embedding and head (mixture of experts: of the active experts)
    head_params: float  # of the output head
    total_params: float  # in memory
    max_context_tokens: int
    degradation_scale: float = 1.0  # s_model of docs/physics.md M5: sensitivity to quantisation relative to Llama-3-8B
    degradation_scale_log_sd: float = 0.5
    weight_byte_by_format: Mapping[str, float] = field(default_factory=dict)  # exact bytes read per token, from a file
    reference_format: str = ""  # reference of accuracy where the model comes from a file
    n_attention_layers: int | None = None  # layers with a KV cache; None for all
    n_window_layers: int = 0  # attention layers with a sliding window
    window_tokens: float = 0.0  # length of that window
    cache_groups: tuple[CachingLayers, ...] = ()  # where the caches of layers differ by more than a window
    cache_bound: str = ""  # reason that the size of the KV cache is an upper bound; "" where it is exact
    aliases: tuple[str, ...] = ()  # other names of the model
    depth_log_sd: float = 0.0  # > 0 where the number of layers is estimated
    cache_log_sd: float = 0.0  # > 0 where the size of the KV cache is estimated
    read_log_sd: float = 0.0  # > 0 where the number of parameters read per token is estimated
    body_log_sd: float = 0.0  # > 0 where the share of the body in them is estimated
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_caching_layers(self) -> int:
        """Layers with a KV cache; the other layers of a hybrid model have a state of fixed size."""
        return self.n_layers if self.n_attention_layers is None else self.n_attention_layers

    @property
    def caching_layers(self) -> tuple[CachingLayers, ...]:
        """The layers with a KV cache, in groups of equal caches."""
        if self.cache_groups:
            return self.cache_groups
        one = CachingLayers(1, self.n_kv_heads, self.head_dim, self.head_dim)
        windows = replace(one, n_layers=self.n_window_layers, window_tokens=self.window_tokens)
        whole = replace(one, n_layers=self.n_caching_layers - self.n_window_layers)
        return tuple(group for group in (whole, windows) if group.n_layers)


def cache_fields(groups: Sequence[CachingLayers], n_layers: int) -> dict[str, Any]:
    """Return the fields of a `ModelShape` that describe its caches; its heads are those of most layers.

    Groups that differ only in a window need no `cache_groups`.
    """
    windows = [group for group in groups if group.window_tokens]
    usual = max(groups, key=lambda group: group.n_layers)
    heads = {(group.n_kv_heads, group.key_dim, group.value_dim) for group in groups}
    alike = len(heads) == 1 and usual.key_dim == usual.value_dim and len({g.window_tokens for g in windows}) < 2
    n_caching = sum(group.n_layers for group in groups)
    return {
        "cache_groups": () if alike and not any(group.batch_tokens for group in groups) else tuple(groups),
        "n_attention_layers": None if n_caching == n_layers else n_caching,
        "n_window_layers": sum(group.n_layers for group in windows),
        "window_tokens": max((group.window_tokens for group in windows), default=0.0),
        "n_kv_heads": usual.n_kv_heads,
        "head_dim": (usual.key_dim + usual.value_dim + 1) // 2,
    }
