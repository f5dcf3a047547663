"""The families of models that the decoder runs: how each differs from Llama, and what it lacks for others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Architecture:
    """Differences of one family of models from Llama.

    Attributes
    ----------
    halves : rotary positions turn value j of a head with value j + head_dim / 2, not with its neighbour
    activation : of the gate, "silu" or "gelu"
    scaled_embedding : embeddings are multiplied by sqrt(hidden_size)
    head_norms : queries and keys are normalised head by head before they are rotated
    post_norms : what attention and feed-forward give is normalised before it is added
    window_period : of so many layers the last attends to all tokens, the others through a window; 0 for no windows
    window_tokens : the window where the file does not tell
    window_rope_base : base of the rotary positions in layers with a window; None for that of the others
    unrotated_period : of so many layers the last rotates nothing; 0 for none
    soft_caps : bounds of scores and of logits where the file does not tell; None where neither is bounded
    scaled_by_width : number of layers of the one size whose scores are scaled by hidden_size / n_heads, not head_dim
    """

    halves: bool = False
    activation: str = "silu"
    scaled_embedding: bool = False
    head_norms: bool = False
    post_norms: bool = False
    window_period: int = 0
    window_tokens: int = 0
    window_rope_base: float | None = None
    unrotated_period: int = 0
    soft_caps: tuple[float, float] | None = None
    scaled_by_width: int = 0

    @property
    def norms(self) -> tuple[str, ...]:
        """Names of the norms of a layer."""
        by_head = ("attn_q_norm", "attn_k_norm") if self.head_norms else ()
        behind = ("post_attention_norm", "post_ffw_norm") if self.post_norms else ()
        return ("attn_norm", "ffn_norm", *by_head, *behind)


ARCHITECTURES = {
    "llama": Architecture(),
    "qwen2": Architecture(halves=True),
    "qwen3": Architecture(halves=True, head_norms=True),
    "phi3": Architecture(halves=True),
    "smollm3": Architecture(unrotated_period=4),
    "gemma": Architecture(halves=True, activation="gelu", scaled_embedding=True),
    "gemma2": Architecture(
        halves=True,
        activation="gelu",
        scaled_embedding=True,
        post_norms=True,
        window_period=2,
        window_tokens=4096,
        soft_caps=(50.0, 30.0),
        scaled_by_width=46,
    ),
    "gemma3": Architecture(
        halves=True,
        activation="gelu",
        scaled_embedding=True,
        head_norms=True,
        post_norms=True,
        window_period=6,
        window_rope_base=10000.0,
        scaled_by_width=62,
    ),
}
"""What this decoder runs, by ``general.architecture``; Mistral's and TinyLlama's files are of "llama"."""

_EXPERTS = "a mixture of experts"
_LATENT = "attention over a latent (MLA)"
_RECURRENT = "layers with a recurrent state"
_IMAGES = "positions of images"
_ENCODER = "attention in both directions"
MISSING = {
    **dict.fromkeys(
        ("qwen2moe", "qwen3moe", "phimoe", "olmoe", "granitemoe", "gpt-oss", "llama4", "dbrx", "arctic", "grok"),
        _EXPERTS,
    ),
    **dict.fromkeys(("bailingmoe", "ernie4_5-moe", "glm4moe", "hunyuan-moe", "minimax-m2", "smallthinker"), _EXPERTS),
    **dict.fromkeys(("deepseek2", "minicpm3", "plm"), _LATENT),
    "deepseek": _EXPERTS,
    **dict.fromkeys(("mamba", "mamba2", "rwkv6", "rwkv7", "arwkv7", "rwkv6qwen2", "jamba", "falcon-h1"), _RECURRENT),
    **dict.fromkeys(("granitehybrid", "nemotron_h", "qwen3next", "qwen35", "plamo2", "kimi-linear"), _RECURRENT),
    "lfm2": "layers of short convolutions",
    **dict.fromkeys(("qwen2vl", "qwen3vl", "qwen3vlmoe", "cogvlm", "chameleon"), _IMAGES),
    "clip": "a language model: it is an encoder of images or sound",
    "gemma3n": "embeddings for each layer",
    "gemma4": "embeddings for each layer",
    **dict.fromkeys(("bert", "nomic-bert", "gemma-embedding", "modern-bert", "jina-bert-v2"), _ENCODER),
    **dict.fromkeys(("t5", "t5encoder"), "an encoder"),
    "phi2": "biased norms and a feed-forward without gate",
    "gpt2": "learned positions and a feed-forward without gate",
    "falcon": "a feed-forward without gate",
    "stablelm": "biased norms and rotary positions on a part of the head",
    "olmo2": "norms of queries and keys over all heads",
    **dict.fromkeys(("granite", "minicpm"), "scales of residuals and logits"),
    **dict.fromkeys(("command-r", "cohere2"), "attention and feed-forward side by side"),
    "chatglm": "rotary positions on a part of the head",
    "glm4": "rotary positions on a part of the head",
}
"""What this decoder lacks for architectures that it is often asked for."""
