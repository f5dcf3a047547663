"""Curves along an axis through an operating point: predictions, the golden formula; sensitivities. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from app.library.attention import RetainedMass
from app.library.axes import SLIDERS, Axis, axis_of, moved, on_board_of, position
from core.articles.as_printed.article_a import GOLDEN_CHECK, golden_latency_ms
from core.physics.pruning import r_max_zipf
from core.predict.scenario import predict
from core.spec import Absent, Catalogue, Estimate, OperatingPoint, Output, Posterior, Prediction, Provenance

OUTPUTS = ("decode_s", "ttft_s", "power_w", "energy_j_per_token", "perplexity_ratio", "top1_agreement", "memory_byte")
"""Outputs of a prediction, in the order of panels and reports."""

Floats = NDArray[np.float64]

DROPPED_MASS = 0.02
"""Attention mass that pruning may drop while no accuracy limit is set."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Effect of one step along an axis; None for an absent output.

    `binding` is False if the step changes no output by more than a thousandth.
    """

    axis: Axis
    decode_s: float | None
    power_w: float | None
    top1_agreement: float | None
    binding: bool


@dataclass(frozen=True, slots=True)
class Dots:
    """Measured or published values along an axis, as arrays of equal length."""

    x: Floats
    median: Floats
    q05: Floats
    q95: Floats
    sources: tuple[str, ...] = ()  # of published ones


@dataclass(frozen=True, slots=True)
class Mark:
    """The prune rate at which the slider turns red, and its rule in one sentence."""

    alpha: float | None  # None: no mark
    text: str


def r_max(
    point: OperatingPoint,
    catalogue: Catalogue,
    posterior: Posterior | None,
    top1_limit: float | None,
    measured: RetainedMass | None = None,
) -> Mark:
    """Return the largest KV prune rate that keeps the quality budget.

    With an accuracy limit: the last rate on the axis whose predicted top-1 agreement meets it. Without one: the rate at
    which the kept tokens still hold `1 - DROPPED_MASS` of the attention mass, measured on this model or else falling as
    a power of its rank.
    """
    if top1_limit is None and measured is not None:
        return Mark(
            measured.r_max(DROPPED_MASS),
            f"r_max, measured on this model at {measured.n_tokens} tokens: beyond it the tokens kept hold under "
            f"{100 * (1 - DROPPED_MASS):.0f} % of the attention mass",
        )
    if top1_limit is None:
        alpha = r_max_zipf(int(float(point.context_tokens)), DROPPED_MASS)
        share = f"{100 * (1 - DROPPED_MASS):.0f} % of the attention mass"
        return Mark(alpha, f"r_max, assumed until accuracy is measured: beyond it the tokens kept hold under {share}")
    x, prediction = curve(axis_of("point.alpha", point, catalogue), point, catalogue, posterior, n=381)
    held = prediction.top1_agreement
    if isinstance(held, Absent):
        return Mark(None, f"top-1 agreement is not predicted here: {held.reason}")
    holds = np.flatnonzero(np.broadcast_to(held.median, x.shape) >= top1_limit)
    alpha = float(x[holds[-1]]) if holds.size else 0.0
    return Mark(alpha, f"r_max: beyond it the predicted top-1 agreement is below the limit of {100 * top1_limit:.1f} %")


def curve(
    axis: Axis, point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None, n: int = 128
) -> tuple[Floats, Prediction]:
    """Predict along an axis, with everything else as in `point`.

    Returns
    -------
    x : ndarray (m,)
        Positions: `n` numbers, or 0..m-1 for the options of a categorical axis.
    prediction : Prediction
        Outputs as arrays (m,); NaN for an option without a value, Absent if none has one.
    """
    x = axis.grid(n)
    if axis.categorical:
        options = (moved(point, axis.path, key) for key, _ in axis.options)
        each = [predict(on_board_of(one, point, catalogue), catalogue, posterior) for one in options]
        return x, stacked(each)
    return x, predict(moved(point, axis.path, x), catalogue, posterior)


def stacked(predictions: Sequence[Prediction]) -> Prediction:
    """Join predictions of single points into one whose outputs are arrays."""
    names = dict.fromkeys(name for p in predictions for name in p.parts_s)
    parts = {name: np.array([float(p.parts_s.get(name, np.nan)) for p in predictions]) for name in names}
    outputs = {name: _joined([getattr(p, name) for p in predictions]) for name in OUTPUTS}
    outside = tuple(dict.fromkeys(text for p in predictions for text in p.outside))
    binding = np.array([str(p.binding) for p in predictions])
    assert {f.name for f in fields(Prediction)} == {*OUTPUTS, "parts_s", "binding", "outside"}
    return Prediction(**outputs, parts_s=parts, binding=binding, outside=outside)


def _joined(outputs: Sequence[Output]) -> Output:
    present = [output for output in outputs if isinstance(output, Estimate)]
    if not present:
        first = outputs[0]
        assert isinstance(first, Absent)
        return first
    provenance = next((o.provenance for o in present if o.provenance is Provenance.PREDICTED), present[0].provenance)

    def column(name: str) -> Floats:
        return np.array([float(getattr(o, name)) if isinstance(o, Estimate) else np.nan for o in outputs])

    return Estimate(column("median"), column("q05"), column("q95"), provenance)


def sensitivities(point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None) -> dict[str, Sensitivity]:
    """Return the effect of one step along each numeric axis, by finite differences of one vectorised prediction.

    The step goes down if up would leave the axis, is shorter on a shorter axis, and is always reported per `axis.step`
    upwards.
    """
    axes = [axis_of(path, point, catalogue) for path in SLIDERS]
    here = np.array([position(path, point, catalogue) for path in SLIDERS])
    steps = np.array([_step(a, x) for a, x in zip(axes, here, strict=True)])
    swept = point
    for i, path in enumerate(SLIDERS):
        column = np.full(len(SLIDERS) + 1, here[i])
        column[i + 1] += steps[i]
        swept = moved(swept, path, column)
    result = predict(swept, catalogue, posterior)
    return {a.path: _sensitivity(a, i + 1, a.step / steps[i], result) for i, a in enumerate(axes)}


def _step(axis: Axis, x: float) -> float:
    return axis.step if x + axis.step <= axis.high else -min(axis.step, max(x - axis.low, axis.step / 100))


def _sensitivity(axis: Axis, i: int, per_step: float, result: Prediction) -> Sensitivity:
    def difference(output: Output) -> tuple[float | None, bool]:
        if isinstance(output, Absent):
            return None, False
        median = np.broadcast_to(np.asarray(output.median, dtype=float), (len(SLIDERS) + 1,))
        change = float(per_step * (median[i] - median[0]))
        return change, abs(change) > 1e-3 * abs(float(median[0]))

    decode, moves_decode = difference(result.decode_s)
    power, moves_power = difference(result.power_w)
    top1, moves_top1 = difference(result.top1_agreement)
    return Sensitivity(axis, decode, power, top1, moves_decode or moves_power or moves_top1)


@dataclass(frozen=True, slots=True)
class GoldenCurve:
    """The formula along an axis, shape (n,), its constant fitted, and the sentence that says so."""

    decode_s: Floats
    sentence: str


def golden_curve(
    axis: Axis,
    x: Floats,
    point: OperatingPoint,
    catalogue: Catalogue,
    measured: tuple[Floats, Floats],
    predicted_s: float | None,
) -> GoldenCurve | None:
    """Return ``T = C (1 / BW) (1 - alpha) beta`` along an axis, everything else as in `point`.

    Parameters
    ----------
    axis : Axis
    x : ndarray, shape (n,)
        Positions on it.
    point : OperatingPoint
    catalogue : Catalogue
    measured : pair of ndarray, shape (m,)
        Positions of the measured points along the axis, and their decode times [s]. C is fitted to them: the median
        ratio.
    predicted_s : float or None
        Predicted decode time of `point`, which gives C where nothing is measured [s].

    Returns
    -------
    GoldenCurve or None
        None where there is neither, so that C is not known.

    References
    ----------
    .. [1] docs/articles.md A01
    """
    printed_s = _printed_s(axis, x, point, catalogue)
    here_s = float(_printed_s(axis, np.array([position(axis.path, point, catalogue)]), point, catalogue)[0])
    at, times = measured
    if len(at):
        scale = float(np.median(times / _printed_s(axis, at, point, catalogue)))
        how = f"fitted to {len(at)} measured {'point' if len(at) == 1 else 'points'}"
    elif predicted_s is not None and here_s > 0.0:
        scale, how = predicted_s / here_s, "set by the prediction of this point"
    else:
        return None
    return GoldenCurve(
        scale * printed_s,
        f"{GOLDEN_CHECK} Drawn is T = C / BW · (1 − α) · β, C {how}; with the printed 12.8 ms·GB/s it is "
        f"{1e3 * here_s:.3g} ms here.",
    )


def _printed_s(axis: Axis, x: Floats, point: OperatingPoint, catalogue: Catalogue) -> Floats:
    """Return the formula with its printed constant at positions of an axis, shape (n,)."""
    if axis.categorical:
        keys = [axis.options[round(i)][0] for i in x]
        return np.array([_at_s(moved(point, axis.path, key), catalogue) for key in keys])
    return np.broadcast_to(_at_s(moved(point, axis.path, x), catalogue), x.shape)


def _at_s(point: OperatingPoint, catalogue: Catalogue) -> Floats:
    own = catalogue.resolve(point).mode.bandwidth_byte_s if point.bandwidth_byte_s is None else point.bandwidth_byte_s
    return np.asarray(golden_latency_ms(np.asarray(own) / 1e9, point.alpha, point.beta)) / 1e3
