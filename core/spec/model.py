"""Models: decoder-only transformers by their shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only transformer, as far as speed, memory and accuracy need it."""

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
    body_params: float  # parameters read per token, without embedding and head (MoE: of the active experts)
    head_params: float  # output head
    total_params: float  # all that must fit in memory
    max_context_tokens: int
    degradation_scale: float = 1.0  # s_model of docs/physics.md M5: sensitivity to quantisation relative to Llama-3-8B
    degradation_scale_log_sd: float = 0.5
    weight_byte_by_format: Mapping[str, float] = field(default_factory=dict)  # exact bytes read per token, from a file
    reference_format: str = ""  # accuracy is relative to this format when the model comes from a file
    n_attention_layers: int | None = None  # layers that have a KV cache, where not all do
    n_window_layers: int = 0  # of them, those that attend to and keep only the newest tokens
    window_tokens: float = 0.0  # how many those keep
    aliases: tuple[str, ...] = ()  # other names that it goes by
    depth_log_sd: float = 0.0  # > 0 where the number of layers is a guess
    cache_log_sd: float = 0.0  # > 0 where the size of the KV cache is
    read_log_sd: float = 0.0  # > 0 where the parameters read per token are
    body_log_sd: float = 0.0  # > 0 where the share of them that prompts read at every token is
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_caching_layers(self) -> int:
        """Layers that attend to a KV cache; the others of a hybrid model carry a state of fixed size."""
        return self.n_layers if self.n_attention_layers is None else self.n_attention_layers
