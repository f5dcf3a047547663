"""Requests of the conductor that await an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.campaign.campaign import Campaign, counted
from app.campaign.plan import SPEED, Run, What
from app.model.state import Activity
from core.spec import OperatingPoint


@dataclass(frozen=True)
class Request:
    """A request that has not ended: the bandwidth, a run of the store's point, one of the calibration plan, or a step
    with the board's parameter set.

    `then` is what is asked for the same point after it succeeds.
    """

    kind: Literal["bandwidth", "measure", "calibrate", "parameters"]
    point: OperatingPoint | None = None
    run: Run | None = None
    then: What = ()

    @property
    def what(self) -> What:
        """Parts of the run."""
        return () if self.run is None else self.run.what

    @property
    def outcome(self) -> str:
        """What is said when it has succeeded."""
        return "The parameter set is known." if self.kind == "parameters" else "Measured."

    def activity(self, done_frac: float, text: str, plan: Campaign | None) -> Activity:
        """Return the progress; a run of the plan counts within the current round."""
        if self.kind == "calibrate":
            noun = "Point" if self.what == SPEED else "Accuracy of point"
            n_ended, n_all = (0, 1) if plan is None else (plan.n_ended, max(plan.n_asked, 1))
            done_frac, text = counted(noun, n_ended, n_all, done_frac, text)
        return Activity("idle" if self.kind == "parameters" else self.kind, text, done_frac, self.point)
