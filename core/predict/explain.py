"""What to make of a prediction: what limits a point, in words, and what is left to limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.physics.stages import MEMORY_PARTS, binding_parts_s
from core.predict.changes import WORTH_FRAC, Change, proposed
from core.predict.scenario import BANDWIDTH_RANGE_BYTE_S, predict
from core.spec import Absent, Catalogue, OperatingPoint, Posterior, Prediction
from core.units import check_range

PART_NAMES = {
    "weights": "reading the weights",
    "kv": "reading the KV cache",
    "unpack": "unpacking the weights",
    "compute": "arithmetic",
    "layers": "starting the layers' operators",
    "token": "the constant cost of a token",
    "reselection": "KV token re-selection",
}


def explain(prediction: Prediction, tried: Sequence[Change], latency_limit_s: float | None = None) -> str:
    """Say in one sentence what limits a point (scalars only), with its evidence, and what would change it.

    Where arithmetic binds it is charged all of the time that reading and unpacking overlap, see `core.physics.stages`.
    `tried` are its `core.predict.changes.changes`, of which those `proposed` are told.
    """
    if isinstance(prediction.decode_s, Absent):
        return f"No decode time: {prediction.decode_s.reason}."
    total = float(prediction.decode_s.median)
    parts = binding_parts_s(prediction)
    first, second = sorted(parts, key=lambda name: -parts[name])[:2]
    name = PART_NAMES[first]
    saved = [
        (each.step.text, f"{-100 * each.decode_frac:.0f} %") for each in proposed(tried, prediction, latency_limit_s)
    ]
    remedy = f"no setting of the runtime would save {100 * WORTH_FRAC:g} %"
    if saved:
        remedy = ", ".join([f"{saved[0][0]} would save {saved[0][1]}", *(" ".join(other) for other in saved[1:])])
    return (
        f"{name[0].upper()}{name[1:]} limits this point: it takes {100 * parts[first] / total:.0f} % of the time of a "
        f"token, {PART_NAMES[second]} {100 * parts[second] / total:.0f} %; {remedy}."
    )


@dataclass(frozen=True, slots=True)
class Margin:
    """How far a point is from one limit: 1 - value / limit, or (value - limit) / (1 - limit) for accuracy.

    The interval is that of the prediction; a negative margin breaks the limit.
    """

    limit: str
    median: float
    low: float  # where the prediction's 90 % interval is on its worse side
    high: float


def roofline_s(
    point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None = None
) -> tuple[float, float] | Absent:
    """Return what the memory side of a token takes alone, reading and unpacking, and what its arithmetic does [s].

    Their ratio says which binds and by how much. Scalars only; the arithmetic is that of the point on a memory without
    end.

    Returns
    -------
    (memory_s, compute_s) or Absent
        Absent where the decode time is, or where no source states the compute rate.
    """
    here = predict(point, catalogue, posterior)
    if isinstance(here.decode_s, Absent):
        return here.decode_s
    at = catalogue.resolve(point)
    if at.mode.compute_op_s is None:
        return Absent(f"no source states the compute rate of {at.board.name}")
    endless = predict(replace(point, bandwidth_byte_s=BANDWIDTH_RANGE_BYTE_S[1]), catalogue, posterior)
    return sum(float(here.parts_s[name]) for name in MEMORY_PARTS), binding_parts_s(endless)["compute"]


def margins(
    prediction: Prediction,
    *,
    latency_s: float | None = None,
    power_w: float | None = None,
    accuracy_frac: float | None = None,
) -> dict[str, Margin | Absent]:
    """Return the margins of a point (scalars only) to the limits that are given: latency, power and accuracy.

    Parameters
    ----------
    prediction : Prediction
    latency_s : float, optional
        Longest decode time of a token, > 0.
    power_w : float, optional
        Most power, > 0.
    accuracy_frac : float, optional
        Least agreement of the most likely token with the reference, in [0, 1).

    Raises
    ------
    ValueError
        A limit outside its range.
    """
    for name, limit in (("latency_s", latency_s), ("power_w", power_w)):
        if limit is not None:
            check_range(name, limit, 0.0, open_low=True)
    if accuracy_frac is not None:
        check_range("accuracy_frac", accuracy_frac, 0.0, 1.0, open_high=True)
    found = dict[str, Margin | Absent]()
    for name, limit, output in (
        ("latency", latency_s, prediction.decode_s),
        ("power", power_w, prediction.power_w),
    ):
        if limit is not None:
            found[name] = (
                output
                if isinstance(output, Absent)
                else Margin(name, *(1.0 - float(x) / limit for x in (output.median, output.q95, output.q05)))
            )
    if accuracy_frac is not None:
        top1 = prediction.top1_agreement
        found["accuracy"] = (
            top1
            if isinstance(top1, Absent)
            else Margin(
                "accuracy",
                *((float(x) - accuracy_frac) / (1.0 - accuracy_frac) for x in (top1.median, top1.q05, top1.q95)),
            )
        )
    return found
