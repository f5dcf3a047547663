"""Measured times as arrays, and the model of them that a fit needs: predictions in logarithms with their Jacobian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core import latency, robust
from core.parameters import loadings
from core.scenario import decode_costs, prefill_costs
from core.spec import Catalogue, OperatingPoint, Posterior
from core.units import Z90, check_range

Floats = NDArray[np.float64]

DECODE, TTFT = 0, 1  # kinds of observation


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """What was measured at one operating point (scalars only). None: that output was not measured.

    `log_sd` and `ttft_log_sd` are how uncertain the measured value is by itself, as the standard deviation of its
    logarithm; what differs between runs on top of it is learned.
    """

    point: OperatingPoint
    decode_s: float | None
    log_sd: float = 0.0
    ttft_s: float | None = None
    ttft_log_sd: float = 0.0

    def __post_init__(self) -> None:
        for name in ("decode_s", "ttft_s"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 0.0, np.inf, open_low=True, open_high=True)
        check_range("log_sd", self.log_sd, 0.0, open_high=True)
        check_range("ttft_log_sd", self.ttft_log_sd, 0.0, open_high=True)


def measured_point(point: OperatingPoint, body: Mapping[str, Any]) -> MeasuredPoint:
    """Take what calibration needs from the result of a measured run, ``{output: {median, q05, q95, n, ...}}``."""
    decode_s, log_sd = _value(body.get("decode_s"))
    ttft_s, ttft_log_sd = _value(body.get("ttft_s"))
    return MeasuredPoint(point, decode_s, log_sd, ttft_s, ttft_log_sd)


def _value(record: Mapping[str, Any] | None) -> tuple[float | None, float]:
    """Return a recorded median and the log-sd of that median, from the quantiles of the repeats."""
    if not record or "median" not in record:
        return None, 0.0
    median, n = float(record["median"]), max(int(record.get("n", 1)), 1)
    spread = np.log(record["q95"] / record["q05"]) / (2.0 * Z90) if record["q05"] > 0 else 0.0
    return median, float(np.sqrt(np.pi / 2.0) * spread / np.sqrt(n))


@dataclass(frozen=True, slots=True)
class Rows:
    """The observations as arrays: one row per measured time, decode times and times to first token alike."""

    observed: robust.Observed  # logarithms of the measured times
    owner: NDArray[np.intp]  # (n,), which point each row belongs to
    group: NDArray[np.intp]  # (n,), rows of one operating point share a number
    alpha: Floats  # (n,)
    loading: Floats  # (7, n, p)
    decode: latency.DecodeCosts  # fields of shape (n,)
    prefill: latency.PrefillCosts

    @classmethod
    def of(cls, points: Sequence[MeasuredPoint], catalogue: Catalogue, before: Posterior) -> Rows:
        """Lay out what was measured; `before` names the parameters and must have the ratios of all points."""
        settings = [catalogue.setting(m.point) for m in points]
        entries = [(i, DECODE, m.decode_s, m.log_sd) for i, m in enumerate(points) if m.decode_s is not None]
        entries += [
            (i, TTFT, m.ttft_s, m.ttft_log_sd)
            for i, m in enumerate(points)
            if m.ttft_s is not None and settings[i].mode.compute_op_s is not None
        ]
        owner = np.array([e[0] for e in entries], dtype=np.intp)
        observed = robust.Observed(
            np.log([e[2] for e in entries]),
            np.array([e[3] for e in entries], dtype=float),
            np.array([e[1] for e in entries], dtype=np.intp),
        )
        distinct = {m.point: k for k, m in enumerate(points)}
        group = np.array([distinct[points[i].point] for i in owner], dtype=np.intp)
        loading = np.array([loadings(before.names, points[i].point) for i in owner])
        bandwidths = [
            before.bandwidth_byte_s if m.point.bandwidth_byte_s is None else m.point.bandwidth_byte_s for m in points
        ]
        return cls(
            observed,
            owner,
            group,
            np.array([points[i].point.alpha for i in owner], dtype=float),
            loading.reshape(len(owner), 7, len(before.names)).transpose(1, 0, 2),
            _stack(latency.DecodeCosts, [decode_costs(points[i].point, settings[i], bandwidths[i]) for i in owner]),
            _stack(latency.PrefillCosts, [prefill_costs(points[i].point, settings[i], bandwidths[i]) for i in owner]),
        )

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the logarithms of the predicted times and their Jacobian."""
        logs = self.loading @ theta
        parameters = latency.LatencyParameters(*np.exp(logs[:6]))
        decode = latency.decode_parts(self.decode, parameters)
        prefill = latency.prefill_parts(self.prefill, parameters)
        is_decode = self.observed.kind == DECODE
        predicted = np.where(is_decode, np.log(decode.total) + logs[6], np.log(prefill.total))
        slopes = [
            np.where(is_decode, d, t)
            for d, t in zip(latency.decode_log_gradient(decode), latency.prefill_log_gradient(prefill), strict=True)
        ]
        slopes.append(np.where(is_decode, 1.0, 0.0))
        return predicted, np.sum(np.array(slopes)[:, :, None] * self.loading, axis=0)

    def fit(self, before: Posterior, start: Floats | None = None) -> robust.Fit:
        """Return the posterior of the parameters, `before` being their prior."""
        scale = np.array([before.decode_log_sd, before.ttft_log_sd]) / robust.NORMAL_SD_PER_SCALE
        return robust.fit(self.model, self.observed, robust.Prior(before.log_mean, before.log_cov, scale), start)

    def without(self, left_out: NDArray[np.bool_]) -> Rows:
        """Return the rows but those."""
        keep = ~left_out
        return Rows(
            robust.Observed(*(getattr(self.observed, f.name)[keep] for f in fields(robust.Observed))),
            self.owner[keep],
            self.group[keep],
            self.alpha[keep],
            self.loading[:, keep],
            latency.DecodeCosts(*(getattr(self.decode, f.name)[keep] for f in fields(latency.DecodeCosts))),
            latency.PrefillCosts(*(getattr(self.prefill, f.name)[keep] for f in fields(latency.PrefillCosts))),
        )


def _stack(kind: Any, costs: list[Any]) -> Any:
    """Turn scalar records into one record of arrays."""
    return kind(*(np.array([getattr(c, f.name) for c in costs], dtype=float) for f in fields(kind)))
