"""Plausibility of the power of the whole board: no whole is smaller than its part, and none stands still."""

from __future__ import annotations

import math
from typing import Dict, Sequence

from app.agent.channel import Channel
from app.agent.power import MEANS, wholes

HOLD_S = 3.0
"""Time for which a whole is smaller than its part, or in order again, before that counts [s]. Sensors are not read at
the same moment, and each averages over a time of its own."""

FROZEN_S = 20.0
"""Time for which the same number comes, at rest and under load, before the sensor counts as standing still [s]."""

_SMALLER_FRAC, _SMALLER_W = 0.9, 0.2  # what different moments and steps of two sensors explain
_REST_FRAC, _LOAD_FRAC = 0.2, 0.6  # of the time that a part of the board is busy
_LOADED_S = 3.0


class PowerCheck:
    """Looks at the values of one set of channels again and again.

    Parameters
    ----------
    hold_s
        As `HOLD_S`.
    """

    def __init__(self, hold_s: float = HOLD_S) -> None:
        self._hold_s = hold_s
        self._reasons: Dict[str, str] = {}
        self._since_s: Dict[str, float] = {}  # when what contradicts the reason of a whole was seen first
        self._same: Dict[str, _Still] = {}

    def see(self, t_s: float, channels: Sequence[Channel], row: Sequence[float]) -> bool:
        """Take one look and set the `doubt` of the channels; return True where one has changed.

        Parameters
        ----------
        t_s
            The time, rising.
        channels, row
            The columns and their values.
        """
        changed = False
        for columns, _ in wholes(channels):
            if any(channels[i].total == "flow" for i in columns):  # a battery's is minutes old at times
                continue
            doubt = self._look(t_s, channels, row, columns)
            for i in columns:
                changed = changed or channels[i].doubt != doubt
                channels[i].doubt = doubt
        return changed

    def _look(self, t_s: float, channels: Sequence[Channel], row: Sequence[float], columns: Sequence[int]) -> str:
        """Return the reason not to believe the sum of these columns, or ""."""
        name = " + ".join(channels[i].key for i in columns)
        value_w = sum(row[i] for i in columns)
        if math.isnan(value_w):
            self._since_s.pop(name, None)
            return self._reasons.get(name, "")
        reason = _smaller(channels, row, columns, value_w)
        if self._same.setdefault(name, _Still()).see(t_s, value_w, _load_frac(channels, row)):
            reason = f"{name} stands still at {value_w:.4g} W while the load changes: the sensor does not measure"
        if bool(reason) == (name in self._reasons):
            self._since_s.pop(name, None)
        elif t_s - self._since_s.setdefault(name, t_s) >= self._hold_s:
            self._since_s.pop(name)
            if reason:
                self._reasons[name] = reason
            else:
                del self._reasons[name]
        return self._reasons.get(name, "")


class _Still:
    """A value that has not changed, and for how long it has seen rest and load meanwhile."""

    def __init__(self) -> None:
        self._value = math.nan
        self._first_s = self._last_s = 0.0
        self._rest_s = self._load_s = 0.0

    def see(self, t_s: float, value: float, load_frac: float) -> bool:
        """Take a value; return True if it has stood still through rest and load."""
        if value != self._value:
            self._value, self._first_s, self._rest_s, self._load_s = value, t_s, 0.0, 0.0
        elif load_frac <= _REST_FRAC:
            self._rest_s += t_s - self._last_s
        elif load_frac >= _LOAD_FRAC:
            self._load_s += t_s - self._last_s
        self._last_s = t_s
        return t_s - self._first_s >= FROZEN_S and min(self._rest_s, self._load_s) >= _LOADED_S


def _smaller(channels: Sequence[Channel], row: Sequence[float], columns: Sequence[int], value_w: float) -> str:
    """Return that the whole is smaller than one of its parts, or ""."""
    keys = {channels[i].key for i in columns}
    single = channels[columns[0]].total == "input"
    for i, channel in enumerate(channels):
        inside = channel.part_of in keys or (
            single and channel.total == "disjoint" and channel.key.startswith("package")
        )
        if channel.unit != "W" or not inside or channel.note.startswith("the same rail") or channel.key.endswith(MEANS):
            continue
        if value_w < _SMALLER_FRAC * row[i] - _SMALLER_W:
            return (
                f"{' + '.join(sorted(keys))} reads {value_w:.3g} W and its part {channel.key} {row[i]:.3g} W: "
                "a whole is not smaller than its part"
            )
    return ""


def _load_frac(channels: Sequence[Channel], row: Sequence[float]) -> float:
    """Return how busy the busiest part of the board is; NaN where none says."""
    shares = [row[i] for i, channel in enumerate(channels) if channel.key.endswith("busy_frac") and row[i] == row[i]]
    return max(shares, default=math.nan)
