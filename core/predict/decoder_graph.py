"""A decoded token as a graph of operations: the layers of a model with their predicted times."""

from __future__ import annotations

import math

from core.physics.schedule import Operation
from core.physics.stages import stages_s, weight_shares
from core.spec import Estimate, ModelShape, Prediction, WeightFormat
from core.units import check_range


def decoder_graph(
    prediction: Prediction, shape: ModelShape, weights: WeightFormat, n_layers: int
) -> tuple[Operation, ...]:
    """Return the operations of the first layers of a token, and of head and sampling where all layers are taken.

    The stages of `core.physics.stages` are divided by the layers, the QKV projection by the heads of Q, K and V, the
    feed-forward network evenly into gate, up and down. With all layers the lengths add up to the decode time. The share
    of the memory bandwidth of an operation is the share of its time that is reading.

    Parameters
    ----------
    prediction : Prediction
        A prediction of one point; its parts are scalars.
    shape : ModelShape
        The model.
    weights : WeightFormat
        Its weight format.
    n_layers : int
        Layers taken [1], 1 to those of the model.

    Returns
    -------
    tuple of Operation
        The graph, every predecessor first.

    Raises
    ------
    ValueError
        The point has no decode time, or `n_layers` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M1, M12
    .. [2] docs/articles.md A16
    """
    check_range("n_layers", n_layers, 1, shape.n_layers)
    decode = prediction.decode_s
    if not isinstance(decode, Estimate):
        raise ValueError(f"the point has no decode time: {decode.reason}")
    stages = {name: float(time) for name, time in stages_s(prediction.parts_s, shape, weights).items()}
    scale = float(decode.median) / math.fsum(stages.values())
    layer = {name: scale * time / shape.n_layers for name, time in stages.items()}
    reading = _reading_frac(prediction, shape, weights, stages)
    heads = shape.n_heads + 2 * shape.n_kv_heads
    made = list[Operation]()
    last: tuple[str, ...] = ()
    if n_layers == shape.n_layers and stages["embedding"]:
        made.append(Operation("embedding", scale * stages["embedding"]))
        last = ("embedding",)
    for i in range(1, n_layers + 1):
        here = f" {i}" if n_layers > 1 else ""

        def add(name: str, length_s: float, after: tuple[str, ...], stage: str, here: str = here) -> tuple[str, ...]:
            made.append(Operation(name + here, length_s, after, reading[stage]))
            return (name + here,)

        projected: tuple[str, ...] = ()
        for name, n in (("Q", shape.n_heads), ("K", shape.n_kv_heads), ("V", shape.n_kv_heads)):
            projected += add(name, layer["qkv"] * n / heads, last, "qkv")
        written = add("RoPE and KV write", layer["rope_and_write"], projected, "rope_and_write")
        attended = add("attention", layer["attention"], written, "attention")
        out = add("O", layer["out"], attended, "out")
        third = layer["mlp"] / 3.0
        both = add("gate", third, out, "mlp") + add("up", third, out, "mlp")
        last = add("down", third, both, "mlp")
    if n_layers == shape.n_layers:
        made.append(Operation("head", scale * stages["head"], last, reading["head"]))
        made.append(Operation("sampling and the rest", scale * stages["rest"], ("head",)))
    return tuple(made)


def _reading_frac(
    prediction: Prediction, shape: ModelShape, weights: WeightFormat, stages: dict[str, float]
) -> dict[str, float]:
    """Return the share of each stage's time that is reading weights or the KV cache."""
    shares = weight_shares(shape, weights)
    read, kv = float(prediction.parts_s["weights"]), float(prediction.parts_s["kv"])
    found = {}
    for name, time in stages.items():
        moved = shares.get(name, 0.0) * read + (kv if name == "attention" else 0.0)
        found[name] = min(1.0, moved / time) if time else 0.0
    return found
