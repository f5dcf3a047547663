"""The sampling loop: reads all sensors at the subscribed rate, and finds how often each really has a new value."""

from __future__ import annotations

import math
import os
import threading
import time
from typing import Any, Callable, Sequence

from app.agent.channel import Channel, Sensor
from app.agent.energy import EnergyMeter
from app.agent.outbox import Outbox
from app.protocol import RATE_RANGE_HZ, record_struct

DEFAULT_RATE_HZ = 10.0
NICENESS = 10
BUFFER_S = 10.0  # of samples kept for a stalled reader
BURST_S = 0.25  # fast reading at the start, for sensors quicker than the rate
BURST_STEP_S = 0.001
SHORT_SLEEP_S = 0.05  # shorter sleeps are not interrupted: a plain sleep costs a fifth of a wait
SETTLE_S = 30.0  # after it the native periods of the slow sensors are published


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

    def period_s(self) -> float | None:
        """Return the mean time between changes, None before four of them."""
        if self._n_changes < 4:
            return None
        return round((self._last_ns - self._first_ns) * 1e-9 / (self._n_changes - 1), 6)


class Sampler:
    """Fills `outbox` with records and `meter` with the sum of the columns `total`; runs in a thread of its own.

    The thread lowers its own priority, so that reading sensors never disturbs what is measured.
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        absent: Sequence[Channel],
        outbox: Outbox,
        meter: EnergyMeter,
        total: Sequence[int],
    ) -> None:
        self.rate_hz = DEFAULT_RATE_HZ
        self._sensors = sensors
        self._channels = [channel for sensor in sensors for channel in sensor.channels]
        self._absent = absent
        self._outbox = outbox
        self._meter = meter
        self._total = total
        self._record = record_struct(len(self._channels))
        self._changed = threading.Event()
        self._running = True
        self._counting = True
        self._values: list[Sequence[float]] = [(math.nan,) * len(sensor.channels) for sensor in sensors]
        self._due_ns = [0] * len(sensors)
        self._counters = [ChangeCounter() for _ in sensors]

    def subscribe(self, rate_hz: float) -> None:
        """Change the rate.

        Raises
        ------
        ValueError
            If it is outside 0.1 to 1000 Hz.
        """
        low, high = RATE_RANGE_HZ
        if not low <= rate_hz <= high:
            raise ValueError(f"rate_hz: got {rate_hz:g}, expected {low:g} to {high:g}")
        self.rate_hz = rate_hz
        self._outbox.set_max_records(max(10, int(BUFFER_S * rate_hz)))
        self._changed.set()

    def total_period_s(self) -> float:
        """Return how often the slowest sensor of the total power has a new value; 0 when not known."""
        return max((self._channels[i].native_period_s or 0.0 for i in self._total), default=0.0)

    def publish_catalogue(self) -> None:
        """Send the channels: the columns first, then the absent ones."""
        channels = [channel.message() for channel in (*self._channels, *self._absent)]
        self._outbox.send({"op": "catalogue", "channels": channels, "rate_hz": self.rate_hz})

    def stop(self) -> None:
        """End `run` at its next turn."""
        self._running = False
        self._changed.set()

    def run(self) -> None:
        """Sample until stopped. A turn that comes late is made up for by its successor, never by a burst."""
        _lower_priority()
        start_s = time.monotonic()
        due_s = start_s
        publish_s = [start_s + BURST_S, start_s + SETTLE_S]
        while self._running:
            now_s = time.monotonic()
            if now_s >= due_s:
                self._sweep()
                due_s = max(due_s + 1 / self.rate_hz, now_s)
            if now_s < start_s + BURST_S:
                self._read(count=True)
                self._sleep(BURST_STEP_S)
                continue
            if publish_s and now_s >= publish_s[0]:
                publish_s.pop(0)
                self._publish_periods()
                self._counting = bool(publish_s)
            if self._sleep(due_s - time.monotonic()):
                due_s = min(due_s, time.monotonic() + 1 / self.rate_hz)

    def _sleep(self, duration_s: float) -> bool:
        """Sleep; True when the rate was changed meanwhile."""
        if duration_s > SHORT_SLEEP_S or self._changed.is_set():
            changed = self._changed.wait(duration_s)
            self._changed.clear()
            return changed
        if duration_s > 0:
            time.sleep(duration_s)
        return False

    def _sweep(self) -> None:
        """Make one record, timed at the middle of its reads."""
        start_ns = time.monotonic_ns()
        values = self._read(count=self._counting)
        t_ns = (start_ns + time.monotonic_ns()) // 2
        self._outbox.push(self._record.pack(t_ns, *values))
        if self._total:
            self._meter.add(t_ns, sum(values[i] for i in self._total))

    def _read(self, count: bool) -> list[float]:
        """Read all sensors, those that cannot have a new value yet excepted: their last one holds."""
        t_ns = time.monotonic_ns()
        for i, sensor in enumerate(self._sensors):
            if t_ns < self._due_ns[i]:
                continue
            self._due_ns[i] = t_ns + sensor.interval_ns
            self._values[i] = read = sensor.read(t_ns)
            if count and not math.isnan(read[0]):
                self._counters[i].see(t_ns, read)
        return [value for read in self._values for value in read]

    def _publish_periods(self) -> None:
        for sensor, counter in zip(self._sensors, self._counters):
            for channel in sensor.channels:
                channel.native_period_s = channel.native_period_s or counter.period_s()
        self.publish_catalogue()


def _lower_priority() -> None:
    """Make this thread nice; on Linux the call changes one thread, elsewhere it would change them all."""
    set_priority: Callable[..., None] | None = getattr(os, "setpriority", None)
    if set_priority is not None and os.uname().sysname == "Linux":
        set_priority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
