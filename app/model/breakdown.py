"""Breakdown of a point's time, and its place under the board's roofline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.library.axes import canonical
from app.model.store import Store
from core.physics.stages import stages_s
from core.predict.decode import decode_costs
from core.predict.prefill import prefill_costs
from core.predict.scenario import initial_posterior
from core.spec import Catalogue, Estimate, OperatingPoint, Posterior, Prediction


@dataclass(frozen=True, slots=True)
class Spot:
    """A kernel under the roofs: operations per byte moved, and operations per second as predicted."""

    name: str
    op_per_byte: float
    op_s: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """The two roofs of a board, peak and as it reaches them, and where decode and prefill lie."""

    bandwidth_byte_s: float
    reached_byte_s: float
    compute_op_s: float | None
    spots: tuple[Spot, ...]

    @property
    def ridge_op_per_byte(self) -> float | None:
        """Operations per byte from which on computing is the limit."""
        return None if self.compute_op_s is None else self.compute_op_s / self.bandwidth_byte_s


def reported_here(store: Store, name: str) -> Any:
    """Return the last value that the board reported under a name at exactly the current point; None if never."""
    if store.not_measured_here:
        return None
    here = canonical(store.point, store.catalogue)
    for measurement in reversed(store.measurements):
        if name in measurement.body and canonical(measurement.point, store.catalogue) == here:
            return measurement.body[name]
    return None


def token_stages_s(point: OperatingPoint, catalogue: Catalogue, prediction: Prediction) -> dict[str, float]:
    """Return the predicted seconds of each stage of a token, by the names that a measurement gives them."""
    at = catalogue.resolve(point)
    return {f"{name}_s": float(value) for name, value in stages_s(prediction.parts_s, at.model, at.weights).items()}


def roofline(
    point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None, prediction: Prediction
) -> Roofline:
    """Return roofs and spots of a point (scalars only)."""
    at = catalogue.resolve(point)
    known = posterior
    if known is None or (known.board, known.runtime, known.power_mode) != (at.board.key, at.runtime.key, at.mode.key):
        known = initial_posterior(at, catalogue)
    bandwidth = float(known.bandwidth_byte_s if point.bandwidth_byte_s is None else point.bandwidth_byte_s)
    eta = float(np.exp(known.log_mean[known.names.index("eta")]))
    decode = "decode, limited by power" if str(prediction.binding) == "power" else "decode"
    spots = []
    for name, output, costs in (
        (decode, prediction.decode_s, decode_costs(point, at, bandwidth)),
        ("prompt", prediction.ttft_s, prefill_costs(point, at, bandwidth)),
    ):
        moved = float(costs.weight_byte) + float(getattr(costs, "kv_byte", 0.0))
        if isinstance(output, Estimate) and moved > 0:
            spots.append(Spot(name, float(costs.flop) / moved, float(costs.flop) / float(output.median)))
    compute = None if at.mode.compute_op_s is None else float(at.mode.compute_op_s) * float(point.beta)
    return Roofline(bandwidth, eta * bandwidth, compute, tuple(spots))
