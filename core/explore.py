"""What to make of a prediction: what limits a point, what would change it, and what is left to limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.scenario import BANDWIDTH_RANGE_BYTE_S, BETA_RANGE, knowledge, predict
from core.spec import Absent, Catalogue, Estimate, OperatingPoint, Posterior, Prediction
from core.stages import MEMORY_PARTS, binding_parts_s
from core.units import check_range

PART_NAMES = {
    "weights": "reading the weights",
    "kv": "reading the KV cache",
    "unpack": "unpacking the weights",
    "compute": "arithmetic",
    "layers": "starting the layers' operators",
    "token": "the constant cost of a token",
    "choice": "choosing anew which tokens are read",
}
WORTH_FRAC = 0.005  # a change that saves less of the decode time is not told

FEWER_BITS = {
    "builtin": ("int8", "int4"),
    "llamacpp": ("q8_0", "q4_k_m"),
    "rkllm": ("w8a8", "w4a16"),
    "qnn": ("w8a8", "w4a16"),
    "mlc": ("q4f16",),
    "other": ("w4a16_g128",),
}
"""Formats worth trying, by the stem of the runtime's key, most bits first."""


def fewer_bits(runtime: str) -> tuple[str, ...]:
    """Return the weight formats worth trying with a runtime, by its key, most bits first."""
    return FEWER_BITS.get(runtime.partition("_")[0], FEWER_BITS["other"])


def explain(prediction: Prediction, tried: Sequence[Change]) -> str:
    """Say in one sentence what limits a point (scalars only), with its evidence, and what would change it.

    Where arithmetic binds it is charged all of the time that reading and unpacking overlap, see `core.stages`. `tried`
    are its `changes`: what the best two of them would save is told.
    """
    if isinstance(prediction.decode_s, Absent):
        return f"No decode time: {prediction.decode_s.reason}."
    total = float(prediction.decode_s.median)
    parts = binding_parts_s(prediction)
    first, second = sorted(parts, key=lambda name: -parts[name])[:2]
    name = PART_NAMES[first]
    remedy = f"none of the changes tried would save {100 * WORTH_FRAC:g} %"
    if tried:
        saved = [f"{change.text} would save {-100 * change.decode_frac:.0f} %" for change in tried[:2]]
        remedy = ", ".join([saved[0], *(text.replace("would save ", "") for text in saved[1:])])
    return (
        f"{name[0].upper()}{name[1:]} limits this point: it takes {100 * parts[first] / total:.0f} % of the time of a "
        f"token, {PART_NAMES[second]} {100 * parts[second] / total:.0f} %; {remedy}."
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What one change of a point would do, by prediction: fractions are relative to the point as it is."""

    text: str
    point: OperatingPoint
    decode_frac: float  # change of the decode time, < 0 is faster
    energy_frac: float | None
    top1_difference: float | None  # change of the agreement with the reference


def changes(point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None = None) -> list[Change]:
    """Return what could be changed about a point (scalars only) that makes it faster, the fastest first.

    Tried are fewer bits for weights (the next format below of those that the runtime's knobs allow), 8 bits for the
    cache, half the context, half of the cache pruned, 10 % more bandwidth and a doubled instruction-set factor; what
    helps by less than `WORTH_FRAC` is left out.
    """
    here = predict(point, catalogue, posterior)
    found = [
        change
        for text, other in _alternatives(point, catalogue, posterior)
        if (change := _change(text, other, here, catalogue, posterior)) is not None
        and change.decode_frac <= -WORTH_FRAC
    ]
    return sorted(found, key=lambda change: change.decode_frac)


def _alternatives(
    point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None
) -> list[tuple[str, OperatingPoint]]:
    at = catalogue.setting(point)
    tried = list[tuple[str, OperatingPoint]]()
    if "weights" in at.runtime.knobs:
        for key in fewer_bits(at.runtime.key):
            if catalogue.weight_formats[key].bits_per_weight < at.weights.bits_per_weight - 0.5:
                tried.append((f"weights in {catalogue.weight_formats[key].name}", replace(point, weights=key)))
    if "kv" in at.runtime.knobs and at.kv.bits_per_value > 9.0:
        tried.append(("a KV cache in 8 bits", replace(point, kv="int8")))
    if "alpha" in at.runtime.knobs and float(point.alpha) < 0.5:
        tried.append(("half of the cache pruned", replace(point, alpha=0.5)))
    if float(point.context_tokens) >= 4.0:
        half = float(point.context_tokens) // 2.0
        tried.append((f"a context of {half:g} tokens", replace(point, context_tokens=half)))
    bandwidth = point.bandwidth_byte_s or (posterior or knowledge(at, catalogue)).bandwidth_byte_s
    if 1.1 * bandwidth <= BANDWIDTH_RANGE_BYTE_S[1]:
        tried.append(("10 % more bandwidth", replace(point, bandwidth_byte_s=1.1 * float(bandwidth))))
    if 2.0 * point.beta <= BETA_RANGE[1]:
        tried.append(("instructions twice as fast (beta)", replace(point, beta=2.0 * float(point.beta))))
    return tried


def _change(
    text: str, other: OperatingPoint, here: Prediction, catalogue: Catalogue, posterior: Posterior | None
) -> Change | None:
    there = predict(other, catalogue, posterior)
    if not (isinstance(here.decode_s, Estimate) and isinstance(there.decode_s, Estimate)):
        return None
    energy = top1 = None
    if isinstance(here.energy_j_per_token, Estimate) and isinstance(there.energy_j_per_token, Estimate):
        energy = float(there.energy_j_per_token.median) / float(here.energy_j_per_token.median) - 1.0
    if isinstance(here.top1_agreement, Estimate) and isinstance(there.top1_agreement, Estimate):
        top1 = float(there.top1_agreement.median) - float(here.top1_agreement.median)
    decode = float(there.decode_s.median) / float(here.decode_s.median) - 1.0
    return Change(text, other, decode, energy, top1)


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
    at = catalogue.setting(point)
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
