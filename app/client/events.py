"""Events of a session for its listener. Plain frozen records; times are seconds of this machine's monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Channel:
    """One sensor channel of the agent: present with a unit and a source, or absent with the reason."""

    key: str  # e.g. "cpu0.clock_hz", "package.temp_c", "package.power_w"
    unit: str  # SI: "Hz", "degC", "W", "byte", "frac"
    source: str  # file or tool it is read from
    native_period_s: float | None
    absent: str = ""  # why there are no samples; "" when present
    covers: str = ""  # which part of the board it covers, in words
    error: float | None = None  # largest error from the source's steps, in `unit`
    total: str = ""  # how it takes part in the power of the whole board; "" where it does not
    part_of: str = ""  # key of the channel that has counted it already
    note: str = ""
    doubt: str = ""  # of a live agent's own channel only: one in doubt arrives without `total`


@dataclass(frozen=True)
class Connected:
    """The agent said hello. `hello` holds its version, the board's description and what it can measure."""

    hello: Mapping[str, Any]


@dataclass(frozen=True)
class Disconnected:
    """The link is down; the session tries again by itself after `retry_in_s` (None: it will not)."""

    reason: str
    retry_in_s: float | None


@dataclass(frozen=True)
class Catalogue:
    """The channels, in the order of the columns of every later `Samples`."""

    channels: tuple[Channel, ...]


@dataclass(frozen=True)
class Samples:
    """New samples were appended to the session's rings; `n_lost` counts records lost since the start."""

    n_new: int
    n_lost: int


@dataclass(frozen=True)
class Progress:
    """Progress of a request: `done_frac` in 0..1 and a phrase that names the current step."""

    request_id: int
    done_frac: float
    text: str


@dataclass(frozen=True)
class Result:
    """A finished request. `body` holds outputs by name.

    Each is ``{median, q05, q95, n, provenance}`` or ``{absent: reason}``; `conditions` and `notes` say how it was run.
    """

    request_id: int
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Failed:
    """A request that ended without a result; `reason` is one sentence.

    `kind` is "failed", "cancelled" or "superseded" as the board has it, or "link": there was none, or it was lost.
    """

    request_id: int
    kind: str
    reason: str


@dataclass(frozen=True)
class ClockRead:
    """A ping came back: the agent's clock is `offset_s` ahead of ours within `bound_s` and gains `drift` on it.

    `jump_s` is by how much it has jumped since the ping before, None where it did not.
    """

    t_s: float
    offset_s: float
    bound_s: float
    drift: float  # 1e-6 is 1 ppm
    jump_s: float | None = None


@dataclass(frozen=True)
class Gap:
    """Nothing is known of the time before `t_s`, in a recording; `reason` says why."""

    t_s: float
    reason: str


@dataclass(frozen=True)
class Marked:
    """The markers of a recording: where A and B stood when it ended, and whether they were shown."""

    a_s: float
    b_s: float
    shown: bool


@dataclass(frozen=True)
class Measured:
    """A measurement that a recording holds: what was asked for, the result's body and when it came."""

    request: Mapping[str, Any]
    body: Mapping[str, Any]
    time_utc: str


@dataclass(frozen=True)
class BoardState:
    """The state of the board has changed: entries by name, each ``{value}`` or ``{absent}``, and maybe ``warning``."""

    state: Mapping[str, Any]


@dataclass(frozen=True)
class Position:
    """Position of the player of a recording, in the clock of the recording."""

    t_s: float
    first_s: float
    last_s: float
    speed: float  # of the recording's time against ours; 0 is as fast as it can be read
    paused: bool
    at_s: float  # our monotonic clock when it stood there

    @property
    def now_s(self) -> float:
        """Position now [s]."""
        moved_s = 0.0 if self.paused else self.speed * (time.monotonic() - self.at_s)
        return min(self.t_s + moved_s, self.last_s)


@dataclass(frozen=True)
class Log:
    """A line for the log panel."""

    level: str  # "info", "warning", "error"
    text: str


Event = (
    Connected
    | Disconnected
    | Catalogue
    | Samples
    | Progress
    | Result
    | Failed
    | ClockRead
    | Gap
    | Marked
    | Measured
    | Position
    | BoardState
    | Log
)
