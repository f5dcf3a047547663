"""The rounds of a campaign and the runs that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.library.records import point_record
from core.spec import Catalogue, OperatingPoint

SPEED, ACCURACY = ("decode",), ("ttft", "quality")

What = tuple[str, ...]
"""Some of `app.protocol.WHAT`."""


@dataclass(frozen=True, slots=True)
class Round:
    """One pass over points.

    Attributes
    ----------
    points : in this order; one that is there twice is measured twice
    what : parts of a run, some of `app.protocol.WHAT`
    options : how much is measured, see the board's protocol
    """

    points: tuple[OperatingPoint, ...]
    what: What
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One point of a round.

    Attributes
    ----------
    point : canonical
    what, options : of the round
    number : place in the campaign, from 0
    n_th : which of the campaign's measurements of these outputs at this point, from 1
    """

    point: OperatingPoint
    what: What
    options: Mapping[str, Any] | None = None
    number: int = 0
    n_th: int = 1

    @property
    def record(self) -> dict[str, Any]:
        """The point as it is sent to the board."""
        return point_record(self.point)


def calibration_rounds(at: OperatingPoint, catalogue: Catalogue, *, at_once: bool = False) -> tuple[Round, ...]:
    """Return the rounds that calibrate a point's runtime: the speed of the plan's points, their accuracy, speed again.

    The speed comes back after the accuracy, since a machine that others use is slower for minutes. Of a data sheet the
    plan is the same every time; measured figures in the catalogue would change it.

    Parameters
    ----------
    at : OperatingPoint
    catalogue : Catalogue
        Its board "this" is as its data sheet describes it.
    at_once : bool
        Whether the first round measures speed and accuracy in the same runs.
    """
    from app.library.calibration import options_again, plan
    from core.calibrate.fit import PLAN_ROUNDS

    points = tuple(plan(at, catalogue))
    first = ((*SPEED, *ACCURACY),) if at_once else (SPEED, ACCURACY)
    again = Round(points, SPEED, options_again(at))
    return (*(Round(points, what) for what in first), *[again] * (PLAN_ROUNDS - 1))
