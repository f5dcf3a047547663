"""What to make of a prediction and a calibration: what limits a point, and what to measure next."""

from __future__ import annotations

from collections.abc import Sequence

from core.calibrate import Calibration
from core.design import choose
from core.parameters import physical_parameters
from core.spec import Absent, Catalogue, OperatingPoint, Prediction

PART_NAMES = {
    "weights": "reading the weights",
    "kv": "reading the KV cache",
    "unpack": "unpacking the weights",
    "compute": "arithmetic",
    "layers": "starting the layers' operators",
    "token": "the constant cost of a token",
}
REMEDIES = {
    "weights": "fewer bits per weight or more bandwidth",
    "kv": "pruning more, fewer bits in the KV cache, or a shorter context",
    "unpack": "a faster instruction set (beta) or an 8-bit format",
    "compute": "a faster instruction set (beta) or a higher clock",
    "layers": "a runtime that fuses more, or a shallower model",
    "token": "another runtime",
}


def explain(prediction: Prediction) -> str:
    """Say in one sentence what limits a point (scalars only), with its evidence, and what would change it."""
    if isinstance(prediction.decode_s, Absent):
        return f"No decode time: {prediction.decode_s.reason}."
    total = float(prediction.decode_s.median)
    parts = {name: float(part) for name, part in prediction.parts_s.items()}
    first, second = sorted(parts, key=lambda name: -parts[name])[:2]
    name = PART_NAMES[first]
    return (
        f"{name[0].upper()}{name[1:]} limits this point: it takes {100 * parts[first] / total:.0f} % of the time of a "
        f"token, {PART_NAMES[second]} {100 * parts[second] / total:.0f} %; {REMEDIES[first]} would help most."
    )


def next_measurement(
    calibration: Calibration, candidates: Sequence[OperatingPoint], catalogue: Catalogue
) -> tuple[OperatingPoint, str] | None:
    """Return the candidate that would narrow the predictions of all candidates most, and why; None where none would.

    Parameters
    ----------
    calibration : Calibration
    candidates : sequence of OperatingPoint
        What could be measured (scalars only); points measured already are passed over.
    catalogue : Catalogue

    Returns
    -------
    (point, sentence) or None
    """
    measured = {m.point for m in calibration.points}
    new = [point for point in candidates if point not in measured]
    chosen = choose(calibration.posterior, new, catalogue, n=1, matters=candidates)
    if not chosen or chosen[0].narrowing_frac < 0.01:
        return None
    choice = chosen[0]
    best, meaning = max(
        (1.0 - which.log_sd(choice.after) / which.log_sd(choice.before), which.meaning)
        for which in physical_parameters([choice.point], with_ttft=False)
    )
    p = choice.point
    return p, (
        f"{p.weights} weights, {p.kv} KV, alpha {float(p.alpha):g}, context {float(p.context_tokens):g} narrows the "
        f"{meaning} by {100 * best:.0f} % and the predictions by {100 * choice.narrowing_frac:.0f} %"
    )
