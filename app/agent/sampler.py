"""The sampling loop: reads all sensors at the subscribed rate, and finds how often each really has a new value."""

from __future__ import annotations

import json
import math
import struct
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from app.agent.channel import Channel, Sensor
from app.agent.cpu_budget import SelfLimit
from app.agent.doubt import PowerCheck
from app.agent.energy import EnergyMeter, Rail, rail_meter
from app.agent.outbox import Outbox
from app.agent.power import rails, total_power
from app.agent.sensor_columns import Columns
from app.agent.sensors.feed import lower_priority
from app.agent.sensors.tools import ToolSensor
from app.protocol import CONTROL, MAX_BODY_BYTE, RATE_RANGE_HZ

DEFAULT_RATE_HZ = 10.0
BUFFER_S = 10.0  # of samples kept for a stalled reader
BATCH_S = 0.02
BATCH_NS = int(BATCH_S * 1e9)
RAILS_NS = 10_000_000  # between readings of the rails' energy: their sensors are no quicker
BURST_S = 0.25  # fast reading at the start, for sensors quicker than the rate
BURST_STEP_S = 0.001
LOOK_S = 1.0  # between looks at what changes seldom
SHORT_SLEEP_S = 0.05  # shorter sleeps are not interrupted: a plain sleep costs a fifth of a wait
SETTLE_S = 30.0  # after it the native periods of the slow sensors are published
CATALOGUE_BYTE = MAX_BODY_BYTE[CONTROL] - 1024
_SHORT_CHAR = 40
_TIME = struct.Struct("<q")


def fitted(channels: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return the channels of a catalogue so that one message holds them.

    A server with hundreds of clocks does not fit: first the reasons are shortened, then the sources, then the absent
    channels left out. The columns all stay, for they are the layout of the records.
    """
    shown = [dict(channel) for channel in channels]
    for name in ("absent", "note", "covers", "source"):
        if _size(shown) <= CATALOGUE_BYTE:
            return shown
        for channel in shown:
            if channel.get(name):
                channel[name] = channel[name][:_SHORT_CHAR]
    if _size(shown) > CATALOGUE_BYTE:
        shown = [channel for channel in shown if not channel["absent"]]
    if _size(shown) > CATALOGUE_BYTE:
        shown = [{**channel, "source": "", "covers": ""} for channel in shown]
    return shown


def _size(channels: Sequence[Dict[str, Any]]) -> int:
    return len(json.dumps(channels, separators=(",", ":")))


class Sampler:
    """Fills `outbox` with records and `meter` with the total power; runs in a thread of its own.

    The thread lowers its own priority, so that reading sensors never disturbs what is measured, and reads less often
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
        self.rate_hz = DEFAULT_RATE_HZ
        self._limit = SelfLimit()
        self._n_turns = 0
        self._turned_ns = 0
        self._sensors = sensors
        self._tools = [sensor for sensor in sensors if isinstance(sensor, ToolSensor)]
        self._absent = absent
        self._outbox = outbox
        self._meter = meter
        self._arrange = arrange
        self._changed = threading.Event()
        self._running = True
        self._counting = True
        self._check = PowerCheck()
        self._meters: Dict[str, EnergyMeter] = {}  # of the rails
        self._rails: List[Tuple[int, Channel, EnergyMeter]] = []  # with the column
        self._rails_due_ns = 0
        self._tick_ns = 0  # time of the next record
        self._parts: List[bytes] = []  # records not sent yet
        self._notes: Tuple[str, ...] = ()
        self._lay_out()

    @property
    def channels(self) -> Sequence[Channel]:
        """All channels, the columns first."""
        missing = [channel for tool in self._tools for channel in tool.absent]
        return [*self._columns.channels, *self._absent, *missing]

    def _lay_out(self) -> None:
        self._columns = Columns(self._sensors)
        self._row = struct.Struct(f"<{len(self._columns.row)}f")
        self._packed = self._row.pack(*self._columns.row)
        found = [(i, self._columns.channels[i]) for i in rails(self._columns.channels)]
        self._rails = [(i, one, self._meters.setdefault(one.key, rail_meter())) for i, one in found]
        self._choose_total()

    def _choose_total(self) -> None:
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
        self.rate_hz = rate_hz
        self._limit.start_anew()
        self._outbox.set_max_records(max(10, int(BUFFER_S * rate_hz)))
        self._changed.set()

    def total_period_s(self) -> float:
        """Return the update period of the slowest sensor of the total power [s]; 0 when unknown."""
        return max((self._columns.channels[i].native_period_s or 0.0 for i in self._total), default=0.0)

    def hottest_c(self) -> Optional[float]:
        """Return the highest temperature of the last reading [deg C]; None without a sensor."""
        pairs = zip(self._columns.channels, self._columns.row)
        return max((value for channel, value in pairs if channel.unit == "degC" and value == value), default=None)

    def rails(self) -> List[Rail]:
        """Return the parts of the board whose power is known one by one, with what it has been."""
        return [Rail(one.key, one.covers, meter, one.native_period_s or 0.0) for _, one, meter in self._rails]

    def publish_catalogue(self) -> None:
        """Send the channels: the columns first, then the absent ones."""
        self._outbox.send_layout(self._catalogue())

    def _catalogue(self) -> Dict[str, Any]:
        channels = [channel.message() for channel in self.channels]
        return {"op": "catalogue", "channels": fitted(channels), "rate_hz": self.rate_hz}

    def stop(self) -> None:
        """End `run` at its next turn, and the tools."""
        self._running = False
        self._changed.set()
        for tool in self._tools:
            tool.close()

    def run(self) -> None:
        """Sample until stopped. A turn that comes late is made up for by its successor, never by a burst."""
        lower_priority()
        start_s = look_s = time.monotonic()
        self._tick_ns = time.monotonic_ns()
        publish_s = [start_s + BURST_S, start_s + SETTLE_S]
        while self._running:
            now_s = time.monotonic()
            if now_s < start_s + BURST_S:
                self._count_quickly()
                continue
            wake_ns = self._wake_ns()
            if self._sleep((wake_ns - time.monotonic_ns()) * 1e-9):
                self._tick_ns = min(self._tick_ns, time.monotonic_ns() + self._period_ns())
                continue
            self._turn(wake_ns)
            if now_s >= look_s:
                look_s = now_s + LOOK_S
                self._look(now_s)
            if publish_s and now_s >= publish_s[0]:
                publish_s.pop(0)
                self._columns.set_periods()
                self.publish_catalogue()
                self._counting = bool(publish_s)

    def _period_ns(self) -> int:
        return int(1e9 / self.rate_hz)

    def _wake_ns(self) -> int:
        """Return the tick to wake at: the first one at which a sensor can have a new value, or a batch is due.

        A wake-up costs more than all that is done in it. The ticks before hold the values that are known.
        """
        period_ns = self._period_ns()
        pause_ns = int(1e9 * self._limit.pause_s)
        latest_ns = max(min(self._columns.due_ns, self._tick_ns + BATCH_NS), self._turned_ns + pause_ns)
        n_held = max(0, (latest_ns - self._tick_ns + period_ns - 1) // period_ns)
        return self._tick_ns + min(n_held, max(BATCH_NS, pause_ns) // period_ns) * period_ns

    def _sleep(self, duration_s: float) -> bool:
        """Sleep; True when the rate was changed meanwhile."""
        if duration_s > SHORT_SLEEP_S or self._changed.is_set():
            changed = self._changed.wait(max(0.0, duration_s))
            self._changed.clear()
            return changed
        if duration_s > 0:
            time.sleep(duration_s)
        return False

    def _turn(self, wake_ns: int) -> None:
        """Record the ticks that were slept through with the values that held, and read what is due."""
        columns, period_ns, parts, packed = self._columns, self._period_ns(), self._parts, self._packed
        for tick_ns in range(self._tick_ns, wake_ns, period_ns):
            parts.append(_TIME.pack(tick_ns) + packed)
        start_ns = self._turned_ns = time.monotonic_ns()
        self._n_turns += 1
        columns.read(start_ns)
        t_ns = (start_ns + time.monotonic_ns()) // 2
        if self._counting:
            columns.count(start_ns)
        self._packed = self._pack(columns.row)
        parts.append(_TIME.pack(t_ns) + self._packed)
        self._tick_ns = max(wake_ns + period_ns, t_ns + 1)
        if len(parts) * period_ns >= BATCH_NS:
            self._flush()
        if self._total:
            self._meter.add(t_ns, sum([columns.row[i] for i in self._total]))
        if self._rails and t_ns >= self._rails_due_ns:
            self._rails_due_ns = t_ns + RAILS_NS
            for i, _, meter in self._rails:
                meter.add(t_ns, columns.row[i])

    def _pack(self, row: Sequence[float]) -> bytes:
        try:
            return self._row.pack(*row)
        except (OverflowError, struct.error):  # no sensor's value is so large
            return self._row.pack(*(value if abs(value) < 3e38 else math.nan for value in row))

    def _flush(self) -> None:
        """Send the records of the batch."""
        parts, self._parts = self._parts, []
        if parts:
            self._outbox.push(b"".join(parts), len(parts))

    def _count_quickly(self) -> None:
        """Read often for a moment, to find the periods of quick sensors; records come at their own rate."""
        t_ns = time.monotonic_ns()
        if t_ns >= self._tick_ns:
            self._turn(self._tick_ns)
        self._columns.read(t_ns)
        self._columns.count(t_ns)
        self._sleep(BURST_STEP_S)

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
            self.publish_catalogue()
        if self._check.see(now_s, self._columns.channels, self._columns.row):
            self._choose_total()
            self.publish_catalogue()
        notes = tuple(channel.note for channel in self._columns.channels)
        if notes != self._notes:
            self._notes = notes
            if any(notes):
                self.publish_catalogue()
        said = self._limit.see(now_s, time.process_time(), self._n_turns)
        if said:
            self._outbox.send({"op": "log", "level": "warning", "text": said})
