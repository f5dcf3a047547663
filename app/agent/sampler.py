"""The sampling loop: reads all sensors at the subscribed rate, and finds how often each really has a new value."""

from __future__ import annotations

import math
import struct
import threading
import time
from typing import Any, Callable, Dict, List, Sequence, Tuple

from app.agent.channel import Channel, Sensor
from app.agent.columns import Columns
from app.agent.energy import EnergyMeter
from app.agent.limit import SelfLimit
from app.agent.outbox import Outbox
from app.agent.power import total_power
from app.agent.sensors.tools import ToolSensor, lower_priority
from app.protocol import RATE_RANGE_HZ

DEFAULT_RATE_HZ = 10.0
BUFFER_S = 10.0  # of samples kept for a stalled reader
BATCH_S = 0.02
BURST_S = 0.25  # fast reading at the start, for sensors quicker than the rate
BURST_STEP_S = 0.001
LOOK_S = 1.0  # between looks at what changes seldom
SHORT_SLEEP_S = 0.05  # shorter sleeps are not interrupted: a plain sleep costs a fifth of a wait
SETTLE_S = 30.0  # after it the native periods of the slow sensors are published


class Sampler:
    """Fills `outbox` with records and `meter` with the total power; runs in a thread of its own.

    The thread lowers its own priority, so that reading sensors never disturbs what is measured, and lowers its rate
    where the agent would take too much of the board.

    Parameters
    ----------
    sensors, absent
        What the board can sense, and what it cannot; the lists are kept and may grow.
    arrange
        Called when a tool has shown new channels, to bring keys and totals in order.

    Attributes
    ----------
    power
        Why there is no total power ("" when there is), and what it covers.
    on_power
        Told both when they change.
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        absent: List[Channel],
        outbox: Outbox,
        meter: EnergyMeter,
        arrange: Callable[[], None] = lambda: None,
    ) -> None:
        self.power = ("", "")
        self.on_power: Callable[[str, str], None] = lambda absent, covers: None
        self._limit = SelfLimit(DEFAULT_RATE_HZ)
        self._sensors = sensors
        self._tools = [sensor for sensor in sensors if isinstance(sensor, ToolSensor)]
        self._absent = absent
        self._outbox = outbox
        self._meter = meter
        self._arrange = arrange
        self._changed = threading.Event()
        self._running = True
        self._counting = True
        self._batch: List[float] = []  # times and rows of the records not sent yet
        self._n_batch = 0
        self._structs: Dict[int, struct.Struct] = {}
        self._notes: Tuple[str, ...] = ()
        self._lay_out()

    @property
    def rate_hz(self) -> float:
        """The rate at which it samples now."""
        return self._limit.rate_hz

    @property
    def channels(self) -> Sequence[Channel]:
        """All channels, the columns first."""
        missing = [channel for tool in self._tools for channel in tool.absent]
        return [*self._columns.channels, *self._absent, *missing]

    def _lay_out(self) -> None:
        self._columns = Columns(self._sensors)
        self._structs = {}
        self._total, words = total_power([*self._columns.channels, *self._absent])
        power = ("" if self._total else words, words)
        if power != self.power:
            self.power = power
            self.on_power(*power)

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
        self._limit.want(rate_hz)
        self._outbox.set_max_records(max(10, int(BUFFER_S * rate_hz)))
        self._changed.set()

    def total_period_s(self) -> float:
        """Return how often the slowest sensor of the total power has a new value; 0 when not known."""
        return max((self._columns.channels[i].native_period_s or 0.0 for i in self._total), default=0.0)

    def publish_catalogue(self) -> None:
        """Send the channels: the columns first, then the absent ones."""
        self._outbox.send(self._catalogue())

    def _catalogue(self) -> Dict[str, Any]:
        channels = [channel.message() for channel in self.channels]
        return {"op": "catalogue", "channels": channels, "rate_hz": self.rate_hz}

    def stop(self) -> None:
        """End `run` at its next turn, and the tools."""
        self._running = False
        self._changed.set()
        for tool in self._tools:
            tool.close()

    def run(self) -> None:
        """Sample until stopped. A turn that comes late is made up for by its successor, never by a burst."""
        lower_priority()
        start_s = look_s = due_s = time.monotonic()
        publish_s = [start_s + BURST_S, start_s + SETTLE_S]
        while self._running:
            now_s = time.monotonic()
            if now_s >= due_s:
                self._sweep()
                due_s = max(due_s + 1 / self._limit.rate_hz, now_s)
            if now_s < start_s + BURST_S:
                self._read_for_count()
                self._sleep(BURST_STEP_S)
                continue
            if now_s >= look_s:
                look_s = now_s + LOOK_S
                self._look(now_s)
            if publish_s and now_s >= publish_s[0]:
                publish_s.pop(0)
                self._columns.set_periods()
                self.publish_catalogue()
                self._counting = bool(publish_s)
            if self._sleep(due_s - time.monotonic()):
                due_s = min(due_s, time.monotonic() + 1 / self._limit.rate_hz)

    def _sleep(self, duration_s: float) -> bool:
        """Sleep; True when the rate was changed meanwhile."""
        if duration_s > SHORT_SLEEP_S or self._changed.is_set():
            changed = self._changed.wait(max(0.0, duration_s))
            self._changed.clear()
            return changed
        if duration_s > 0:
            time.sleep(duration_s)
        return False

    def _sweep(self) -> None:
        """Make one record, timed at the middle of its reads."""
        columns = self._columns
        start_ns = time.monotonic_ns()
        columns.read(start_ns)
        t_ns = (start_ns + time.monotonic_ns()) // 2
        if self._counting:
            columns.count(start_ns)
        self._batch.append(t_ns)
        self._batch += columns.row
        self._n_batch += 1
        if self._n_batch >= BATCH_S * self._limit.rate_hz:
            self._flush()
        if self._total:
            self._meter.add(t_ns, sum([columns.row[i] for i in self._total]))

    def _flush(self) -> None:
        """Send the records of the batch."""
        n, batch = self._n_batch, self._batch
        if not n:
            return
        pack = self._structs.get(n)
        if pack is None:
            width = len(self._columns.row)
            pack = self._structs.setdefault(n, struct.Struct("<" + f"q{width}f" * n))
        try:
            body = pack.pack(*batch)
        except (OverflowError, struct.error):  # no sensor's value is so large
            body = pack.pack(*(x if abs(x) < 3e38 or isinstance(x, int) else math.nan for x in batch))
        self._batch, self._n_batch = [], 0
        self._outbox.push(body, n)

    def _read_for_count(self) -> None:
        t_ns = time.monotonic_ns()
        self._columns.read(t_ns)
        self._columns.count(t_ns)

    def _look(self, now_s: float) -> None:
        """Take up what changes seldom: channels that tools have shown, notes, the agent's own share of the board."""
        outdated = [tool for tool in self._tools if tool.outdated]
        if outdated:
            for tool in outdated:
                tool.refresh()
            self._flush()
            self._arrange()
            self._lay_out()
            self._counting = True
            self._outbox.send_layout(self._catalogue())
        notes = tuple(channel.note for channel in self._columns.channels)
        if notes != self._notes:
            self._notes = notes
            if any(notes):
                self.publish_catalogue()
        said = self._limit.see(now_s, time.process_time())
        if said:
            self._outbox.send({"op": "log", "level": "warning", "text": said})
            self._outbox.send(self._catalogue())
