"""All sensors of a board as the columns of one row, read as often as each can have a new value."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence, Tuple

from app.agent.channel import Channel, Sensor


class ChangeCounter:
    """The period at which a value changes, from the times at which it was seen changed."""

    def __init__(self) -> None:
        self._value: Any = None
        self._first_ns = 0
        self._last_ns = 0
        self._n_changes = -1  # the first value is not a change

    def see(self, t_ns: int, value: Any) -> None:
        """Take the value read at a time."""
        if value == self._value:
            return
        self._value = value
        self._n_changes += 1
        self._last_ns = t_ns
        if self._n_changes == 1:
            self._first_ns = t_ns

    def period_s(self) -> Optional[float]:
        """Return the mean time between changes [s], None before four changes."""
        if self._n_changes < 4:
            return None
        return round((self._last_ns - self._first_ns) * 1e-9 / (self._n_changes - 1), 6)


class Columns:
    """The newest value of each channel.

    Attributes
    ----------
    channels
        The columns, in order.
    row
        Their values; the same list for ever.
    due_ns
        When the next sensor can have a new value.
    """

    def __init__(self, sensors: Sequence[Sensor]) -> None:
        self.channels: List[Channel] = [channel for sensor in sensors for channel in sensor.channels]
        self.row: List[float] = [math.nan] * len(self.channels)
        self.due_ns = 0
        self._readers: List[Tuple[Callable[[int], Sequence[float]], int, int, int]] = []
        self._due_ns: List[int] = []
        self._counted: List[Tuple[Sensor, int, int, ChangeCounter]] = []
        at = 0
        for sensor in sensors:
            end = at + len(sensor.channels)
            self._readers.append((sensor.read, at, end, sensor.interval_ns))
            self._due_ns.append(0)
            self._counted.append((sensor, at, end, ChangeCounter()))
            at = end

    def read(self, t_ns: int) -> None:
        """Renew the row; the value of a sensor that cannot have a new one yet holds."""
        row, due_ns = self.row, self._due_ns
        for i, due in enumerate(due_ns):
            if t_ns >= due:
                read, at, end, interval_ns = self._readers[i]
                row[at:end] = read(t_ns)
                due_ns[i] = t_ns + interval_ns
        self.due_ns = min(due_ns, default=t_ns)

    def count(self, t_ns: int) -> None:
        """Look which values of the row have changed."""
        for _, at, end, counter in self._counted:
            if end > at and not math.isnan(self.row[at]):
                counter.see(t_ns, self.row[at:end])

    def set_periods(self) -> None:
        """Write the periods that were found into the channels."""
        for sensor, _, _, counter in self._counted:
            for channel in sensor.channels:
                channel.native_period_s = channel.native_period_s or counter.period_s()
