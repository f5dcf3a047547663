"""Content of one card of the curve view: the curve of a quantity along a slider, with its marks.

Numbers and words come from here even before the plot is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.library.axes import Axis, position_on
from app.library.prediction_curves import Dots, GoldenCurve, golden_curve
from app.model.store import Store
from app.text.format import estimate_text, quantity_text
from app.text.names import short_name
from app.text.quantities import LATENCY, WORDS, Quantity, measured_as
from core.spec import Absent, Estimate, Provenance

Floats = NDArray[np.float64]
Rows = tuple[Floats, Floats, Floats, Floats]

N_POINTS = 101
_LONGEST_BAR = 3.0  # times the highest of curve, band and dots
_NEAR_FRAC = 0.02  # a dot nearer than this share of the axis is read with the curve


@dataclass(frozen=True, slots=True)
class CurveData:
    """A quantity along an axis. Positions are plotted ones: decimal logarithms on a logarithmic axis."""

    quantity: Quantity
    axis: Axis
    names: tuple[str, ...]  # of the options of an axis that has no numbers
    x: Floats  # shape (n,), as all that follows without another
    median: Floats
    q05: Floats
    q95: Floats
    provenance: Provenance
    dots: Rows  # measured: position, median, q05, q95
    measured: Provenance  # of the dots: a simulated board's are no measurements
    elsewhere: Mapping[Provenance, Rows]  # not of the attached board, by where they come from
    sources: Mapping[Provenance, tuple[str, ...]]  # of `elsewhere`, where they are known
    here: float
    limit: float | None
    wash_from: float | None  # from here on one should not go
    pin: float | None  # where A is pinned
    ghost: Floats | None  # the curve through A
    golden: GoldenCurve | None  # the article's formula, of a latency only
    message: str  # what is said where there is nothing to draw

    @property
    def x_range(self) -> tuple[float, float]:
        """The positions to show."""
        low, high = float(self.x[0]), float(self.x[-1])
        margin = 0.5 if self.axis.options else 0.01 * (high - low)
        return low - margin, high + margin

    @property
    def y_values(self) -> tuple[Floats | None, ...]:
        """Values that the vertical range must include; an error bar far longer than all else may leave the picture."""
        _, median, q05, q95 = map(np.concatenate, zip(self.dots, *self.elsewhere.values(), strict=True))
        held = np.concatenate([self.q95, median])
        most = _LONGEST_BAR * float(np.nanmax(held)) if np.isfinite(held).any() else np.inf
        return self.q05, self.q95, median, q05, np.minimum(q95, np.maximum(most, median)), self.ghost

    @property
    def ghost_stands_apart(self) -> bool:
        """Whether the ghost differs from the curve; under the dashes of the same curve it would look solid."""
        return self.ghost is not None and not np.allclose(self.ghost, self.median, rtol=1e-3, equal_nan=True)

    def reading(self, x: float, like: float) -> str:
        """Return prediction, nearest measurement and pinned value at a plotted position, in the prefix of `like`."""
        q, axis = self.quantity, self.axis
        i = int(np.argmin(np.abs(self.x - x)))
        value = 10.0 ** self.x[i] if axis.log else self.x[i]
        parts = [f"{self.names[i] if axis.options else quantity_text(value, axis.unit)}:"]
        if np.isfinite(self.median[i]):
            parts.append(str(estimate_text(self.median[i], self.q05[i], self.q95[i], q.unit, like)))
        named: list[tuple[str, Rows, tuple[str, ...]]] = [(WORDS[self.measured], self.dots, ())]
        for origin, rows in self.elsewhere.items():
            named.append((f"{WORDS[origin]} elsewhere", rows, self.sources.get(origin, ())))
        for word, (dot_x, *dot), sources in named:
            near = np.flatnonzero(np.abs(dot_x - self.x[i]) < _NEAR_FRAC * (self.x[-1] - self.x[0] or 1.0))
            if len(near):
                median, low, high = (float(part[near[0]]) for part in dot)
                source = f" ({sources[near[0]]})" if sources and sources[near[0]] else ""
                parts.append(f"{word} {estimate_text(median, low, high, q.unit, like)}{source}")
        if self.ghost is not None and np.isfinite(self.ghost[i]):
            parts.append(f"A {quantity_text(float(self.ghost[i]), q.unit)}")
        if self.golden is not None:
            parts.append(f"{WORDS[Provenance.AS_PUBLISHED]} {quantity_text(float(self.golden.decode_s[i]), q.unit)}")
        return "  ".join(parts)

    def description(self) -> str:
        """Return a description of the plot for screen readers."""
        fine = np.flatnonzero(np.isfinite(self.median))
        if not len(fine):
            return self.message
        ends = [quantity_text(float(self.median[i]), self.quantity.unit) for i in (fine[0], fine[-1])]
        return (
            f"{self.quantity.title} against {self.axis.label}: predicted {ends[0]} at the start, {ends[1]} at the end; "
            f"{len(self.dots[0])} measured points"
            + "".join(f", {len(rows[0])} {WORDS[origin]} elsewhere" for origin, rows in self.elsewhere.items())
            + (f". {self.golden.sentence}" if self.golden is not None else ".")
        )


def curve_data(store: Store, quantity: Quantity) -> CurveData:
    """Return the content of a card: a quantity along the slider moved last."""
    axis = store.axis_range(store.axis)

    def plotted(x: Floats | float) -> Floats:
        return np.log10(x) if axis.log else np.asarray(x, dtype=float)

    along, prediction = store.curve(N_POINTS)
    x, output, dots = plotted(along), getattr(prediction, quantity.output), store.dots(quantity.output)
    others = store.dots_elsewhere(quantity.output)
    elsewhere = {origin: (plotted(rows.x), rows.median, rows.q05, rows.q95) for origin, rows in others.items()}
    absent = isinstance(output, Absent)
    median, q05, q95 = _columns(None if absent else output, len(x))
    pinned = store.get("pinned")
    ghost = None
    if pinned is not None:
        then = getattr(store.curve(N_POINTS, point=pinned)[1], quantity.output)
        ghost = _columns(then, len(x))[0] if isinstance(then, Estimate) else None
    return CurveData(
        quantity=quantity,
        axis=axis,
        names=tuple(short_name(axis.path, key, name, store.catalogue).split(" · ")[0] for key, name in axis.options),
        x=x,
        median=median,
        q05=q05,
        q95=q95,
        provenance=Provenance.PREDICTED if absent else output.provenance,
        dots=(plotted(dots.x), dots.median, dots.q05, dots.q95),
        measured=measured_as(store.link.hello),
        elsewhere=elsewhere,
        sources={origin: rows.sources for origin, rows in others.items()},
        here=float(plotted(store.position(store.axis))),
        limit=store.get(quantity.limit) if quantity.limit else None,
        wash_from=store.r_max.alpha if axis.path == "point.alpha" else None,
        pin=None if pinned is None else _pin(float(plotted(position_on(axis, pinned, store.catalogue)))),
        ghost=ghost,
        golden=_golden(store, axis, along, dots) if quantity is LATENCY and store.get("curves.as_published") else None,
        message=f"Not predicted: {output.reason}" if absent and not len(dots.x) and not elsewhere else "",
    )


def _pin(at: float) -> float | None:
    return None if np.isnan(at) else at


def _golden(store: Store, axis: Axis, along: Floats, dots: Dots) -> GoldenCurve | None:
    predicted = store.prediction.decode_s
    here = float(predicted.median) if isinstance(predicted, Estimate) else None
    return golden_curve(axis, along, store.point, store.catalogue, (dots.x, dots.median), here)


def _columns(output: Estimate | None, n: int) -> tuple[Floats, Floats, Floats]:
    if output is None:
        nothing = np.full(n, np.nan)
        return nothing, nothing, nothing
    median, q05, q95 = (
        np.broadcast_to(np.asarray(v, dtype=float), (n,)) for v in (output.median, output.q05, output.q95)
    )
    return median, q05, q95


def within_reach(values: Sequence[Floats], bounds: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the values that a vertical range over time must include: all values, and bounds near them.

    The band of a first guess and an error bar of a disturbed measurement may leave the picture: they would flatten
    everything that came after them. Near is as far again as the values spread, and as far as the largest of them.
    """
    held = np.concatenate([np.ravel(v) for v in values])
    held = held[np.isfinite(held)]
    bound = np.concatenate([np.ravel(v) for v in bounds])
    if not len(held):
        return held, bound
    low, high = float(held.min()), float(held.max())
    reach = max(high - low, 0.5 * max(abs(low), abs(high)))
    return held, np.clip(bound, low - reach, high + reach)


def held_range(
    have: tuple[float, float],
    values: Sequence[Floats | float | None],
    least: float | None = None,
    most: float | None = None,
) -> tuple[float, float]:
    """Return a vertical range over all finite values: the one there is unless they leave it or fill less than half.

    `least` and `most` bound the range: a share of tokens never exceeds 1.
    """
    found = [np.asarray(v, dtype=float).reshape(-1) for v in values if v is not None]
    flat = np.concatenate(found) if found else np.empty(0)
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        return have
    low, high = float(flat.min()), float(flat.max())
    spread = max(high - low, abs(high) * 0.02, 1e-12)
    if have[0] <= low and high <= have[1] and spread > 0.45 * (have[1] - have[0]):
        return have
    bottom, top = low - 0.12 * spread, high + 0.12 * spread
    bottom = max(bottom, least) if least is not None and low >= least else bottom
    top = min(top, most + 0.04 * spread) if most is not None else top
    return bottom, top
