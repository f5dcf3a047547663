"""The rounds of the calibration plan yet to come: the speed of all its points, their accuracy, then speed again.

Speed comes back after the accuracy, since a machine that others use is slower for minutes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from app.library import axes
from app.library.measurements import OUTPUTS_OF, Measurement
from core.spec import Catalogue, OperatingPoint

SPEED, ACCURACY = ("decode",), ("ttft", "quality")


@dataclass(frozen=True)
class Round:
    """What is measured of which points, with which options."""

    what: tuple[str, ...]
    points: tuple[OperatingPoint, ...]
    options: dict[str, int] | None


class Rounds:
    """None at first; `begin` sets them up, `next` takes them away one by one."""

    def __init__(self) -> None:
        self._left: deque[tuple[tuple[str, ...], int | None, dict[str, int] | None]] = deque()
        self._at = OperatingPoint()

    def begin(self, at: OperatingPoint, *, again: bool) -> None:
        """Plan for a point's runtime; with `again` the speed of points that are known is measured anew."""
        from app.library.calibration import options_again
        from core.calibrate.fit import PLAN_ROUNDS

        self._at = at
        probed = options_again(at)
        later = [(SPEED, None if again else n, probed) for n in range(2, PLAN_ROUNDS + 1)]
        # how often each point is to be known afterwards; None: once more
        self._left = deque([(SPEED, None if again else 1, None), (ACCURACY, 1, None), *later])

    def clear(self) -> None:
        """Forget those that are left."""
        self._left.clear()

    def next(self, measured: Sequence[Measurement], data_sheet: Catalogue) -> Round | None:
        """Take the next round, of the points not measured as often yet (maybe none); None when no round is left.

        Of the data sheet the plan is the same every time, whatever was measured since.
        """
        from app.library.calibration import plan

        if not self._left:
            return None
        what, times, options = self._left.popleft()
        answer = OUTPUTS_OF[what[-1]][0]
        known = Counter(axes.canonical(m.point, data_sheet) for m in measured if answer in m.body)
        points = plan(self._at, data_sheet)
        return Round(what, tuple(p for p in points if times is None or known[p] < times), options)
