"""The shape of a model from its resource file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.catalogue.refusal import refusal
from core.catalogue.schemas import ModelTable
from core.catalogue.toml_files import converted, sources_of
from core.spec import CachingLayers, ModelShape, cache_fields

SMALL_PARAMS, LARGE_PARAMS = 2e9, 22e9


def read_model(key: str, where: str, table: Mapping[str, Any]) -> ModelShape:
    """Read a model's shape; what it does not state of its parameters is computed from the rest.

    Raises
    ------
    ValueError
        ``file: key: got X, expected Y`` for the first thing that is wrong.
    """
    made = converted(where, table, ModelTable)
    _check_layers(where, made)
    head = made.hidden_size * made.vocab_size
    body = _dense_body_params(made) if made.body_params is None else made.body_params
    total = made.total_params or body + head * (1 if made.tied_embeddings else 2)
    degradation, of_degradation = degradation_prior(total)
    computed: dict[str, Any] = {
        "body_params": body,
        "head_params": float(head),
        "total_params": total,
        "degradation_scale": made.degradation_scale or degradation,
        "n_window_layers": made.n_window_layers or 0,
        "window_tokens": float(made.window_tokens or 0),
    }
    if made.cache_groups:
        groups = [CachingLayers(**one.values()) for one in made.cache_groups]
        computed |= cache_fields(groups, made.n_layers)
    sources = of_degradation | sources_of(where, table, made)
    return ModelShape(key=key, sources=sources, **{**made.values(), **computed})


def _check_layers(where: str, made: ModelTable) -> None:
    if made.n_heads % made.n_kv_heads:
        raise refusal(f"{where}: n_kv_heads", made.n_kv_heads, f"a divisor of n_heads {made.n_heads}")
    caching = made.n_layers if made.n_attention_layers is None else made.n_attention_layers
    for name, most in (("n_attention_layers", made.n_layers), ("n_window_layers", caching)):
        if (getattr(made, name) or 0) > most:
            raise refusal(f"{where}: {name}", getattr(made, name), f"a whole number from 1 to {most}")
    if (made.n_window_layers is None) != (made.window_tokens is None):
        raise refusal(f"{where}: window_tokens", made.window_tokens, "a number where there are n_window_layers")
    if sum(one.n_layers for one in made.cache_groups) > made.n_layers:
        raise refusal(f"{where}: cache_groups", "more layers than the model", f"{made.n_layers} layers at most")


def degradation_prior(total_params: float) -> tuple[float, dict[str, str]]:
    """Return how much a model of that size loses by quantisation relative to Llama-3-8B, and the sources of that."""
    spread = {"degradation_scale_log_sd": "[prior] a factor of 2.3 either way at 90 %"}
    if total_params < SMALL_PARAMS:
        return 1.5, {"degradation_scale": "[prior] models under 2 billion parameters lose more", **spread}
    if total_params < LARGE_PARAMS:
        return 1.0, {
            "degradation_scale": "[prior] taken as Llama-3-8B, to which the degradation curve is fitted",
            **spread,
        }
    why = "[prior] large models lose less: Llama-2-70B 0.43 and 0.19 of Llama-3-8B (measurements/precision_ppl.csv)"
    return 0.5, {"degradation_scale": why, **spread}


def _dense_body_params(n: ModelTable) -> float:
    """Weights of all layers of a dense gated decoder, norms and biases left out."""
    attention = n.hidden_size * n.head_dim * 2 * (n.n_heads + n.n_kv_heads)
    return float(n.n_layers * (attention + 3 * n.hidden_size * n.intermediate_size))
