"""The shape of a model from its resource file."""

from __future__ import annotations

from collections.abc import Mapping

from core.catalogue.toml_table import Table
from core.spec import ModelShape

_SHAPE = (
    "n_layers",
    "hidden_size",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "max_context_tokens",
)


SMALL_PARAMS, LARGE_PARAMS = 2e9, 22e9
DEGRADATION_LOG_SD = 0.5  # a factor of 2.3 either way at 90 %


def read_model(key: str, table: Table) -> ModelShape:
    """Read a model's shape; what it does not state of its parameters is computed from the rest.

    Raises
    ------
    ValueError
        ``file: key: got X, expected Y`` for the first thing that is wrong.
    """
    n = {name: table.integer(name, 1, 10_000_000) for name in _SHAPE}
    if n["n_heads"] % n["n_kv_heads"]:
        table.fail("n_kv_heads", n["n_kv_heads"], f"a divisor of n_heads {n['n_heads']}")
    tied = table.flag("tied_embeddings")
    head = n["hidden_size"] * n["vocab_size"]
    body = table.number("body_params", 1e3, 1e14, default=_dense_body_params(n))
    total = table.number("total_params", 1e3, 1e14, default=body + head * (1 if tied else 2))
    exact = table.table("weight_byte_by_format", {})
    weight_byte = {name: exact.number(name, 1e3, 1e14) for name in list(exact.left)}
    reference = table.text("reference_format", default="")
    caching = table.integer("n_attention_layers", 1, n["n_layers"]) if "n_attention_layers" in table.left else None
    windows = table.integer("n_window_layers", 1, caching or n["n_layers"]) if "n_window_layers" in table.left else 0
    window_tokens = float(table.integer("window_tokens", 1, 10_000_000)) if windows else 0.0
    degradation, of_degradation = degradation_prior(total)
    aliases = table.texts("aliases")
    table.numbers += ["aliases"] if aliases else []  # they need a source as numbers do
    made = ModelShape(
        key=key,
        name=table.text("name"),
        **{name: n[name] for name in _SHAPE},
        tied_embeddings=tied,
        body_params=body,
        head_params=float(head),
        total_params=total,
        degradation_scale=table.number("degradation_scale", 0.01, 100.0, default=degradation),
        degradation_scale_log_sd=table.number("degradation_scale_log_sd", 0.0, 3.0, default=DEGRADATION_LOG_SD),
        weight_byte_by_format=weight_byte,
        reference_format=reference,
        n_attention_layers=caching,
        n_window_layers=windows,
        window_tokens=window_tokens,
        aliases=aliases,
        sources=(sources := of_degradation),
    )
    sources |= table.close()
    for name in weight_byte:
        if "weight_byte_by_format" not in sources:
            table.fail("weight_byte_by_format", name, "a source in [sources]")
    return made


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


def _dense_body_params(n: Mapping[str, int]) -> float:
    """Weights of all layers of a dense gated decoder, norms and biases left out."""
    attention = n["hidden_size"] * n["head_dim"] * 2 * (n["n_heads"] + n["n_kv_heads"])
    return float(n["n_layers"] * (attention + 3 * n["hidden_size"] * n["intermediate_size"]))
