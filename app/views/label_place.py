"""Where the names of curves stand: beside their own, on no other one, on no other name, inside the plot. Free of Qt.

Everything is in pixels of the plot, y downwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.views.chart import Floats

Curve = tuple[Floats, Floats]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

GAP_PX = 3.0
_N_PLACES = 16  # along a curve, from its end to its beginning
_PER_NAME, _PER_CURVE = 100.0, 10.0  # what it costs to write over a name, or over a curve


def places(
    curves: Sequence[Curve],
    sizes: Sequence[tuple[float, float]],
    room: tuple[float, float],
    taken: Sequence[Box] = (),
    unnamed: Sequence[Curve] = (),
) -> list[Box]:
    """Return a box for the name of each curve, near its end where there is room.

    Parameters
    ----------
    curves
        Positions (n,) of each curve, x rising.
    sizes
        Width and height of each name.
    room
        Width and height of the plot.
    taken
        Where something is written already.
    unnamed
        More curves that no name may cross.
    """
    found: list[Box] = []
    for curve, size in zip(curves, sizes, strict=True):
        boxes = _candidates(curve, size, room)
        costs = [
            _PER_NAME * sum(overlap(box, other) for other in (*taken, *found))
            + _PER_CURVE * sum(crosses(box, other) for other in (*curves, *unnamed))
            + _away(box, curve)
            + (i // 2) / _N_PLACES
            for i, box in enumerate(boxes)
        ]
        found.append(boxes[int(np.argmin(costs))])
    return found


def _candidates(curve: Curve, size: tuple[float, float], room: tuple[float, float]) -> list[Box]:
    """Return places above and below a curve, from its end on, all inside the plot."""
    (x, y), (width, height) = curve, size
    boxes = []
    for end in np.linspace(float(x[-1]), float(x[0]), _N_PLACES):
        left = max(min(float(end), room[0]) - width, 0.0)
        span = np.interp(np.linspace(left, left + width, 9), x, y)
        for top in (float(span.min()) - GAP_PX - height, float(span.max()) + GAP_PX):
            inside = min(max(top, 0.0), max(room[1] - height, 0.0))
            boxes.append((left, inside, left + width, inside + height))
    return boxes


def _away(box: Box, curve: Curve) -> float:
    """Return how far a box is from a curve at its nearest, in heights of the box."""
    span = np.interp(np.linspace(box[0], box[2], 9), *curve)
    gap = np.maximum(np.maximum(box[1] - span, span - box[3]), 0.0)
    return float(gap.min()) / (box[3] - box[1])


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes share more than an edge."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def crosses(box: Box, curve: Curve) -> bool:
    """Whether a curve passes through a box."""
    x, y = curve
    low, high = max(box[0], float(x[0])), min(box[2], float(x[-1]))
    if low > high:
        return False
    span = np.interp(np.linspace(low, high, 17), x, y)
    return bool(float(span.min()) < box[3] and float(span.max()) > box[1])
