"""Predicted time of a token by stage of the decoder, to compare with the measured stages.

The model has costs (weights, cache, unpacking, layers), a decoder has stages (projections, attention, feed-forward,
head). Weights belong to the stages that read them, by bytes; the cache to attention; the constant cost of a layer is
spread evenly over its five stages, since no measurement separates them.

References
----------
.. [1] docs/physics.md M1
"""

from __future__ import annotations

from collections.abc import Mapping

from core.spec import Array, ModelShape, Prediction, WeightFormat

LAYER_STAGES = ("qkv", "rope_and_write", "attention", "out", "mlp")
STAGES = ("embedding", *LAYER_STAGES, "head", "rest")
"""The seven stages of a decoded token in their order, and the rest: sampling, and the program around it."""


MEMORY_PARTS = ("weights", "kv", "unpack")  # what memory and arithmetic overlap: the longer of the two counts


def binding_parts_s(prediction: Prediction) -> dict[str, float]:
    """Return the seconds of each cost of a token, all of the roofline charged to the side that binds.

    `Prediction.parts_s` counts arithmetic by its excess over the memory side. Where arithmetic binds it takes all of
    that time and the memory side none, because reading less would save nothing. The sum is the same.

    Parameters
    ----------
    prediction : Prediction
        A prediction of one point; its parts are scalars.

    Returns
    -------
    dict of str to float
        Time of each cost [s].

    References
    ----------
    .. [1] docs/physics.md M1

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> parts = {"weights": 1.0, "kv": 0.5, "unpack": 0.0, "compute": 0.25, "layers": 0.5}
    >>> binding_parts_s(SimpleNamespace(parts_s=parts, binding="compute"))
    {'weights': 0.0, 'kv': 0.0, 'unpack': 0.0, 'compute': 1.75, 'layers': 0.5}
    """
    parts = {name: float(part) for name, part in prediction.parts_s.items()}
    if prediction.binding == "compute" or (prediction.binding == "power" and parts["compute"] > 0.0):
        parts["compute"] += sum(parts[name] for name in MEMORY_PARTS)
        parts |= dict.fromkeys(MEMORY_PARTS, 0.0)
    return parts


def weight_shares(shape: ModelShape, weights: WeightFormat) -> dict[str, float]:
    """Return the share of the weight bytes of a token that each stage reads.

    In proportion to ``h (H_q + 2 H_kv) d`` (QKV), ``h H_q d`` (out) and ``3 h h_mlp`` (feed-forward) within the body,
    and to the bits of body and head.

    Parameters
    ----------
    shape : ModelShape
        The model.
    weights : WeightFormat
        Its weight format.

    Returns
    -------
    dict of str to float
        Shares of qkv, out, mlp and head [1], summing to 1.

    References
    ----------
    .. [1] docs/physics.md M1

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> catalogue = load_catalogue()
    >>> shares = weight_shares(catalogue.models["llama-3-8b"], catalogue.weight_formats["int8"])
    >>> {name: round(share, 4) for name, share in shares.items()}
    {'qkv': 0.1073, 'out': 0.0715, 'mlp': 0.7512, 'head': 0.07}
    """
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

    Weights go to stages by `weight_shares`, the cache to attention, the cost per layer evenly to the five stages of a
    layer.

    Parameters
    ----------
    parts_s : mapping of str to float or ndarray
        Time of each cost as in `core.spec.Prediction` [s]; an empty one has no stages.
    shape : ModelShape
        The model.
    weights : WeightFormat
        Its weight format.

    Returns
    -------
    dict of str to float or ndarray
        Time of each stage [s].

    References
    ----------
    .. [1] docs/physics.md M1

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> catalogue = load_catalogue()
    >>> costs = ("weights", "kv", "unpack", "compute", "layers", "token", "reselection")
    >>> parts = dict(zip(costs, (40e-3, 2e-3, 0.0, 0.0, 5e-3, 1e-3, 0.0)))
    >>> found = stages_s(parts, catalogue.models["llama-3-8b"], catalogue.weight_formats["int8"])
    >>> round(found["attention"] * 1e3, 6), round(sum(found.values()) * 1e3, 6)
    (3.0, 48.0)
    """
    if not parts_s:
        return {}
    read = parts_s["weights"] + parts_s["unpack"] + parts_s["compute"]
    shares = weight_shares(shape, weights)
    others = (part for name, part in parts_s.items() if name not in ("weights", "kv", "unpack", "compute", "layers"))
    found: dict[str, Array] = {"embedding": 0.0 * read}
    for name in LAYER_STAGES:
        kv = parts_s["kv"] if name == "attention" else 0.0
        found[name] = shares.get(name, 0.0) * read + kv + parts_s["layers"] / len(LAYER_STAGES)
    return {**found, "head": shares["head"] * read, "rest": sum(others) + 0.0 * read}
