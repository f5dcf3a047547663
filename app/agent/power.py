"""Power: RAPL energy counters, hwmon power inputs, batteries; and the energy of a window of time.

Paths and units follow the kernel's documentation: powercap and hwmon count microjoules and microwatts,
power_supply microwatts, microamperes and microvolts.
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_right
from collections import deque
from pathlib import Path
from typing import Any, Callable, Sequence

from app.agent.channel import Channel, Gauge, Sensor, word
from app.agent.files import KernelFile, parse_int, text, why_unreadable

MAX_POWER_W = 10e3
"""No board or CPU package draws more: a counter that says so was reset, not wrapped."""

_STUCK_S = 1.0  # a counter that stands still so long is not counting (virtual machines show such)
_ENTRY_NS = 20_000_000  # the meter keeps at most 50 entries a second
_RAPL_RULE = 'SUBSYSTEM=="powercap", KERNEL=="intel-rapl:*", RUN+="/bin/chmod a+r %S%p/energy_uj"'


class EnergyCounter:
    """Mean power between reads of a counter of microjoules that wraps at `max_range_uj` (0: unknown, a wrap is NaN)."""

    interval_ns = 20_000_000  # RAPL counts in steps of 1 ms: a shorter interval would be more than 5 % wrong

    def __init__(self, channel: Channel, file: KernelFile, max_range_uj: int) -> None:
        self.channels = (channel,)
        self.file = file
        self._max_range_uj = max_range_uj
        self._last: tuple[int, int] | None = None  # time in ns and count of the last change
        self._power_w = math.nan

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the mean power since the counter last moved on; the first read has none."""
        data = self.file.read()
        count = None if data is None else parse_int(data)
        if count is None or count < 0:
            self._last, self._power_w = None, math.nan
        elif self._last is None:
            self._last = (t_ns, count)
        else:
            self._advance(t_ns, count, *self._last)
        return (self._power_w,)

    def _advance(self, t_ns: int, count: int, last_ns: int, last_count: int) -> None:
        if t_ns - last_ns < self.interval_ns:
            return
        duration_s = (t_ns - last_ns) * 1e-9
        if count == last_count:
            if duration_s > _STUCK_S:
                self._power_w = math.nan
            return
        energy_uj = count - last_count
        if energy_uj < 0:
            energy_uj = energy_uj + self._max_range_uj if self._max_range_uj > 0 else -1
        power_w = energy_uj * 1e-6 / duration_s
        self._power_w = power_w if 0 <= power_w <= MAX_POWER_W else math.nan
        self._last = (t_ns, count)


class Battery:
    """Power out of a battery: positive while it discharges, negative while it charges.

    Many drivers give no sign, so the sign is taken from the status; a flow whose direction is not stated is NaN.
    """

    interval_ns = 100_000_000

    def __init__(self, folder: Path, key: str) -> None:
        has_power = (folder / "power_now").exists()
        self.file = KernelFile(folder / ("power_now" if has_power else "current_now"))
        self._voltage = None if has_power else KernelFile(folder / "voltage_now")
        self._status = KernelFile(folder / "status")
        source = str(self.file.path) + ("" if has_power else f" x {folder / 'voltage_now'}")
        self.channels = (Channel(key, "W", source, covers="flow out of the battery; negative while it charges"),)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the power, signed by the status."""
        size = abs(self.file.number()) * 1e-6
        if self._voltage is not None:
            size *= self._voltage.number() * 1e-6
        sign = {b"discharging": 1.0, b"charging": -1.0}.get((self._status.read() or b"").strip().lower(), math.nan)
        return (0.0 if size == 0 else size * sign,)


def rapl(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the RAPL domains of Intel and AMD processors: the readable ones, and the others with the reason."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    for folder in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        name = text(folder / "name")
        if not re.fullmatch(r"intel-rapl:\d+(:\d+)?", folder.name) or not name:
            continue
        key, covers = _rapl_key(name)
        path = folder / "energy_uj"
        channel = Channel(key, "W", str(path), covers)
        try:
            file = KernelFile(path)
        except OSError as error:
            channel.absent = why_unreadable(error, path, _RAPL_RULE)
            absent.append(channel)
            continue
        sensors.append(EnergyCounter(channel, file, parse_int(text(folder / "max_energy_range_uj")) or 0))
    return sensors, absent


def _rapl_key(name: str) -> tuple[str, str]:
    if name == "psys":
        return "board.power_w", "the whole platform (RAPL psys)"
    if name.startswith("package"):
        return "package.power_w", f"the processor package, without memory and the rest of the board (RAPL {name})"
    return f"{word(name)}.power_w", f"RAPL domain {name}"


def hwmon_power(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the power inputs and energy counters of hwmon chips, named by chip: their numbers change on each boot."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        chip = text(folder / "name") or text(folder / "device/name")
        for path in sorted(folder.iterdir()):
            match = re.fullmatch(r"(power|energy)(\d+)_(input|average)", path.name)
            if not match or (match.group(3) == "average" and (folder / f"power{match.group(2)}_input").exists()):
                continue
            label = text(folder / f"{match.group(1)}{match.group(2)}_label") or f"{match.group(1)}{match.group(2)}"
            channel = Channel(f"{word(chip)}.{word(label)}.power_w", "W", str(path), f"{chip} {label}")
            try:
                file = KernelFile(path)
            except OSError as error:
                channel.absent = why_unreadable(error, path)
                absent.append(channel)
                continue
            energy = match.group(1) == "energy"
            sensors.append(EnergyCounter(channel, file, 0) if energy else Gauge(channel, file, 1e-6))
    return sensors, absent


def batteries(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the batteries that feed the machine; those of mice and keyboards have the scope "Device"."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    for folder in sorted((root / "sys/class/power_supply").glob("*")):
        if text(folder / "type") != "Battery" or text(folder / "scope") == "Device":
            continue
        try:
            sensors.append(Battery(folder, "battery.power_w"))
        except OSError as error:
            reason = why_unreadable(error, Path(str(error.filename)))
            absent.append(Channel("battery.power_w", "W", str(folder), absent=reason))
    return sensors, absent


def total_power(channels: Sequence[Channel]) -> tuple[list[int], str]:
    """Choose the columns whose sum comes closest to the whole board; `([], reason)` when no sensor does.

    Adding rails under a total would count twice: the platform's own total wins, then package plus memory, then the
    battery, which is the whole machine while it discharges.
    """
    subject = [channel.key.split(".")[0].rstrip("0123456789_") for channel in channels]
    present = [i for i, channel in enumerate(channels) if channel.unit == "W" and not channel.absent]
    for wanted in (("board",), ("package", "dram"), ("battery",)):
        columns = [i for i in present if subject[i] in wanted]
        if any(subject[i] == wanted[0] for i in columns):
            return columns, " + ".join(channels[i].covers for i in columns)
    if present:
        parts = ", ".join(channels[i].covers for i in present)
        return [], f"the power sensors of this machine cover parts of the board only: {parts}"
    reasons = [channel.absent for channel in channels if channel.key == "board.power_w"]
    return [], reasons[0] if reasons else "no power sensor on this machine"


class EnergyMeter:
    """The energy used up to each moment, by the trapezoid rule; a moment without power breaks the windows across it.

    One thread adds, another one asks.
    """

    def __init__(self, max_entries: int = 36_000) -> None:
        self._entries: deque[tuple[int, float, int]] = deque(maxlen=max_entries)  # time, joules so far, breaks so far
        self._last: tuple[int, float] | None = None
        self._energy_j = 0.0
        self._n_breaks = 0
        self._moved = threading.Condition()

    def add(self, t_ns: int, power_w: float) -> None:
        """Add one reading; times must rise."""
        with self._moved:
            if math.isnan(power_w):
                self._n_breaks += 1
                self._last = None
                return
            if self._last is not None:
                last_ns, last_w = self._last
                self._energy_j += (power_w + last_w) / 2 * (t_ns - last_ns) * 1e-9
            self._last = (t_ns, power_w)
            if not self._entries or t_ns - self._entries[-1][0] >= _ENTRY_NS or self._n_breaks != self._entries[-1][2]:
                self._entries.append((t_ns, self._energy_j, self._n_breaks))
                self._moved.notify_all()

    def energy_j(self, start_ns: int, end_ns: int, patience_s: float = 0.5) -> float | None:
        """Return the energy of a window; None unless readings without a break reach over both of its ends.

        The last window of a run has just ended when it is asked for: `patience_s` is how long to wait for a reading
        past its end.
        """
        with self._moved:
            self._moved.wait_for(lambda: bool(self._entries) and self._entries[-1][0] >= end_ns, patience_s)
            entries = list(self._entries)
        times = [entry[0] for entry in entries]
        start, end = _at(entries, times, start_ns), _at(entries, times, end_ns)
        if start is None or end is None or start[1] != end[1]:
            return None
        return end[0] - start[0]


def _at(entries: Sequence[tuple[int, float, int]], times: Sequence[int], t_ns: int) -> tuple[float, int] | None:
    """Return joules and breaks at a time, interpolated between its neighbours; None outside and in a break."""
    after = bisect_right(times, t_ns)
    if after == 0 or (after == len(times) and times[-1] != t_ns):
        return None
    t0, e0, n0 = entries[after - 1]
    if t0 == t_ns:
        return e0, n0
    t1, e1, n1 = entries[after]
    return (e0 + (e1 - e0) * (t_ns - t0) / (t1 - t0), n0) if n0 == n1 else None


def add_energy(
    body: dict[str, Any], meter: EnergyMeter, absent: str, covers: str, period_s: Callable[[], float]
) -> dict[str, Any]:
    """Return a result with `power_w` and `energy_j_per_token`, measured while the tokens were generated.

    Parameters
    ----------
    body
        A measured run. Its conditions carry `decode_window_s`, start and end of the timed steps in seconds of the
        monotonic clock, and `decode_window_tokens`, the tokens generated in it; both are taken out here.
    meter
        What the total power has been.
    absent
        Why there is none; "" when there is.
    covers
        What the power covers, in words.
    period_s
        Gives how often the power sensor has a new value; 0 when not known.

    Idle power is not subtracted.
    """
    conditions = dict(body.get("conditions", {}))
    start_s, end_s = conditions.pop("decode_window_s", (0.0, 0.0))
    n_tokens = conditions.pop("decode_window_tokens", 0)
    body = {**body, "conditions": conditions}
    energy_j = None
    if not absent:
        if not n_tokens or end_s <= start_s:
            absent = "decode was not asked for"
        elif end_s - start_s < 2 * period_s():
            absent = f"the power sensor has a new value every {period_s():.2g} s, too slow for this run"
        else:
            energy_j = meter.energy_j(int(start_s * 1e9), int(end_s * 1e9))
    if energy_j is None:
        reason = {"absent": absent or "the power sensor could not be read during this run"}
        return {**body, "power_w": reason, "energy_j_per_token": reason}
    return {
        **body,
        "conditions": {**conditions, "power_covers": covers},
        "power_w": _measured(energy_j / (end_s - start_s)),
        "energy_j_per_token": _measured(energy_j / n_tokens),
        "notes": [*body.get("notes", []), f"Power covers {covers}; idle power is included."],
    }


def _measured(value: float) -> dict[str, Any]:
    """Return the record of one reading; its spread is not known."""
    return {"median": value, "q05": value, "q95": value, "n": 1, "provenance": "measured"}
