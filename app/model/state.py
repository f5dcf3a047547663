"""The parts of the store that are records: limits, link, activity, log lines. Frozen; the store replaces them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from app.client.events import Channel
from app.text.lab.table import LABS
from core.spec import OperatingPoint


@dataclass(frozen=True, slots=True)
class MarkerPair:
    """The markers of the live view: seconds of the samples' clock if pinned, else against the right edge."""

    a_s: float = 0.0
    b_s: float = 0.0
    shown: bool = False
    pinned: bool = False


NO_AXIS = ("point.board", "point.power_mode", "point.model", "point.runtime", "point.layout")
"""Paths of the point that setting them leaves the axis of the curves as it is."""

PLAIN: dict[str, Any] = {
    "paused": False,
    "markers": MarkerPair(),
    "auto_measure": True,
    "theme": "system",
    "preset": "",
    "curves.as_published": True,  # whether the golden formula is drawn
    "energy.ambient": 25.0,  # deg C
    "energy.battery": None,  # J of the full pack; None is a mains supply
    "energy.duration": 3600.0,  # s
    "energy.cooling": "heatsink",
    "energy.limit_temp": None,  # junction limit, deg C; None is the board's own rule
    "energy.power": None,  # W while decoding at the top clock; None is the predicted one
    "energy.idle": None,  # W of the board at rest; None is the measured or assumed one
    "energy.profile": "steady",  # a workload of the resources, or a file
    "schedule.file": "",  # "" is the request of the current point
    "trade.against": "accuracy",  # what latency is traded for
    "scenario": "",  # one of the resources, or a file; "" is the user's limits
    "lab.item": "A03",
    **{f"lab.{lab.key}.along": lab.input(lab.swept).option for lab in LABS.values()},  # the x axis of its plot
    **{f"lab.{lab.key}.{one.option}": one.default for lab in LABS.values() for one in lab.inputs},
}
"""Paths that hold one plain value -> what they hold at first."""


@dataclass(frozen=True, slots=True)
class Link:
    """State of the link to the board, in one sentence and in parts."""

    state: Literal["detached", "connecting", "attached", "lost"] = "detached"
    text: str = "No board is attached."
    target: str = ""  # what the user wrote for it; "" for this machine
    hello: Mapping[str, Any] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()
    n_lost: int = 0
    retry_at_s: float | None = None  # monotonic time of the next try, for a countdown


@dataclass(frozen=True, slots=True)
class Activity:
    """Current activity of the board. `kind` "idle" means none; then `text` is the outcome of the last one."""

    kind: Literal["idle", "bandwidth", "measure", "calibrate"] = "idle"
    text: str = ""
    done_frac: float = 0.0
    point: OperatingPoint | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log panel."""

    time_utc: datetime
    level: str  # "info", "warning", "error"
    text: str
