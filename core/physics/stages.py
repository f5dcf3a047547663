"""Where the predicted time of a token goes by stage of the decoder, to stand beside what was measured of each.

The model knows costs (weights, cache, unpacking, layers), a decoder has stages (projections, attention, feed-forward,
head). Weights belong to the stages that read them, by bytes; the cache to attention; what a layer costs whatever it
reads is spread evenly over its five stages, since nothing tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.spec import Array, ModelShape, Prediction, WeightFormat

LAYER_STAGES = ("qkv", "rope_and_write", "attention", "out", "mlp")
STAGES = ("embedding", *LAYER_STAGES, "head", "rest")
"""The seven stages of a decoded token in their order, and the rest: choosing the token, and the program around it."""


MEMORY_PARTS = ("weights", "kv", "unpack")  # what memory and arithmetic overlap: the longer of the two counts


def binding_parts_s(prediction: Prediction) -> dict[str, float]:
    """Return the seconds of each cost of a token, all of them charged to the side that binds (scalars only).

    `Prediction.parts_s` counts arithmetic by its excess over the memory side. Where arithmetic binds, though, reading
    less would save nothing: it takes all of that time, and the memory side none. The sum is the same.
    """
    parts = {name: float(part) for name, part in prediction.parts_s.items()}
    if prediction.binding == "compute":
        parts["compute"] += sum(parts[name] for name in MEMORY_PARTS)
        parts |= dict.fromkeys(MEMORY_PARTS, 0.0)
    return parts


def weight_shares(shape: ModelShape, weights: WeightFormat) -> dict[str, float]:
    """Return the share of the weight bytes of a token that each stage reads; their sum is 1."""
    hidden, heads = float(shape.hidden_size), shape.n_heads * shape.head_dim
    params = {
        "qkv": hidden * (heads + 2 * shape.n_kv_heads * shape.head_dim),
        "out": hidden * heads,
        "mlp": 3.0 * hidden * shape.intermediate_size,
    }
    of_layers = sum(params.values())
    body_bits = shape.body_params * weights.bits_per_weight
    head_bits = shape.head_params * weights.head_bits_per_weight
    whole = body_bits + head_bits
    shares = {name: n / of_layers * body_bits / whole for name, n in params.items()}
    return {**shares, "head": head_bits / whole}


def stages_s(parts_s: Mapping[str, Array], shape: ModelShape, weights: WeightFormat) -> dict[str, Array]:
    """Return the predicted seconds of each of `STAGES`; their sum is the predicted time of the token.

    Parameters
    ----------
    parts_s : mapping
        As in `core.spec.Prediction` [s]; without any there are no stages.
    shape, weights
        Model and weight format.
    """
    if not parts_s:
        return {}
    read = parts_s["weights"] + parts_s["unpack"] + parts_s["compute"]
    shares = weight_shares(shape, weights)
    found: dict[str, Array] = {"embedding": 0.0 * read}
    for name in LAYER_STAGES:
        kv = parts_s["kv"] if name == "attention" else 0.0
        found[name] = shares.get(name, 0.0) * read + kv + parts_s["layers"] / len(LAYER_STAGES)
    return {**found, "head": shares["head"] * read, "rest": parts_s["token"] + parts_s["reselection"] + 0.0 * read}
