"""Placement of curve labels: next to their curve, clear of others and of each other, inside the plot. No Qt.

Everything is in pixels of the plot, y downwards. A box is left, top, right, bottom; many are an array (..., 4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.text.chart import Floats

Curve = tuple[Floats, Floats]
"""Positions (n,), x rising."""

GAP_PX = 3.0
_N_PLACES = 16  # along a curve, from its end to its beginning
_N_ACROSS = 17  # where a curve is looked up below a box
_PER_NAME, _PER_CURVE = 100.0, 10.0  # what it costs to write over a name, or over a curve


def places(
    curves: Sequence[Curve],
    sizes: Sequence[tuple[float, float]],
    room: tuple[float, float],
    taken: Sequence[ArrayLike] = (),
    unnamed: Sequence[Curve] = (),
) -> list[Floats]:
    """Return a box (4,) for the name of each curve, near its end where there is room.

    Parameters
    ----------
    curves
        Those with names.
    sizes
        Width and height of each name.
    room
        Width and height of the plot.
    taken
        Boxes where something is written already.
    unnamed
        More curves that no name may cross.
    """
    found: list[Floats] = []
    later = np.repeat(np.arange(_N_PLACES) / _N_PLACES, 2)  # near the end is better
    for curve, size in zip(curves, sizes, strict=True):
        boxes = _candidates(curve, size, room)
        cost = later + _away(boxes, curve)
        for box in (*taken, *found):
            cost += _PER_NAME * overlap(boxes, box)
        for other in (*curves, *unnamed):
            cost += _PER_CURVE * crosses(boxes, other)
        found.append(boxes[int(np.argmin(cost))])
    return found


def _candidates(curve: Curve, size: tuple[float, float], room: tuple[float, float]) -> Floats:
    """Return places above and below a curve, from its end on, all inside the plot: (2 * _N_PLACES, 4)."""
    (x, _), (width, height) = curve, size
    left = np.maximum(np.minimum(np.linspace(x[-1], x[0], _N_PLACES), room[0]) - width, 0.0)
    across = _across(left, left + width, curve)
    top = np.stack((across.min(axis=-1) - GAP_PX - height, across.max(axis=-1) + GAP_PX), axis=-1).ravel()
    top = np.clip(top, 0.0, max(room[1] - height, 0.0))
    left = np.repeat(left, 2)
    return np.stack((left, top, left + width, top + height), axis=-1)


def _across(left: Floats, right: Floats, curve: Curve) -> Floats:
    """Return the curve at positions between two others: (..., _N_ACROSS)."""
    share = np.linspace(0.0, 1.0, _N_ACROSS)
    return np.interp(left[..., None] + (right - left)[..., None] * share, *curve)


def _away(boxes: Floats, curve: Curve) -> Floats:
    """Return the distance of boxes from a curve at its nearest, in heights of the box."""
    across = _across(boxes[..., 0], boxes[..., 2], curve)
    gap = np.maximum(np.maximum(boxes[..., 1, None] - across, across - boxes[..., 3, None]), 0.0)
    return np.asarray(gap.min(axis=-1) / (boxes[..., 3] - boxes[..., 1]))


def overlap(a: ArrayLike, b: ArrayLike) -> NDArray[np.bool_]:
    """Return True for boxes that share more than an edge; the arguments broadcast."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    beside = (a[..., 0] >= b[..., 2]) | (b[..., 0] >= a[..., 2])
    return ~(beside | (a[..., 1] >= b[..., 3]) | (b[..., 1] >= a[..., 3]))


def crosses(boxes: ArrayLike, curve: Curve) -> NDArray[np.bool_]:
    """Return True for boxes that a curve passes through."""
    boxes = np.asarray(boxes, dtype=float)
    low, high = np.maximum(boxes[..., 0], curve[0][0]), np.minimum(boxes[..., 2], curve[0][-1])
    across = _across(low, high, curve)
    inside = (across.min(axis=-1) < boxes[..., 3]) & (across.max(axis=-1) > boxes[..., 1])
    return np.asarray((low <= high) & inside)
