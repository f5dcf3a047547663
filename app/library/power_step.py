"""A step of power and the temperature after it, from a recording or a CSV, as input of a thermal fit. Free of Qt."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from app.agent.power import total_power
from app.client.events import Channel
from app.client.recording import Recording
from core.catalogue.csv_rows import read_columns
from core.catalogue.inputs import read_text

if TYPE_CHECKING:
    from app.agent.channel import Channel as AgentChannel

Floats = NDArray[np.float64]

FEWEST, SHORTEST_S = 20, 30.0  # readings under load, and their length
LEAST_STEP_FRAC = 0.2  # of the load's power: a smaller step tells too little
MOST_DRIFT_FRAC = 0.1  # of the step, between the first and the last third: by more the load is not constant
REST_S = 30.0  # before the step that counts as its idle power
SMOOTHED = 5  # readings of the running median in which a step is found

_UNITS: Mapping[str, Mapping[str, float]] = {
    "time": {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0},
    "power": {"W": 1.0, "mW": 1e-3, "kW": 1e3},
    "temperature": {"degC": 1.0, "°C": 1.0, "C": 1.0},
}
"""Quantity -> unit -> its size in s, W or degC."""
_EXAMPLES = {
    "time": "time_s or 'time [s]'",
    "power": "power_w or 'power [W]'",
    "temperature": "temp_c or 'temp [degC]'",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """Power and temperature over time, (m,) each, and the names of their columns by quantity."""

    time_s: Floats
    power_w: Floats
    temp_c: Floats
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PowerStep:
    """The load after a step: seconds since the step, temperatures, and the powers before and after."""

    time_s: Floats
    temp_c: Floats
    at_s: float  # in the trace
    idle_w: float
    load_w: float
    rest_s: float  # recorded before the step, of which the idle power is
    rest_change_k: float  # of the temperature in that time; 0 where the board was at rest

    @property
    def height_w(self) -> float:
        """Height of the step, > 0 [W]."""
        return self.load_w - self.idle_w


# ---- reading


def read_trace(path: Path, power: str | None = None, temperature: str | None = None, time: str | None = None) -> Trace:
    """Read a CSV whose columns name their units, or a recording.

    Parameters
    ----------
    power, temperature, time : str, optional
        Columns or channels to take. By default the first ones of their unit, and of a recording the power of the whole
        board.

    Raises
    ------
    ValueError
        One sentence: the file, the column, and what was expected.
    RecordingError
        The recording cannot be read.
    """
    named = {"time": time, "power": power, "temperature": temperature}
    found = _of_csv(path, named) if path.suffix.lower() == ".csv" else _of_recording(path, named)
    for before_s, after_s in pairwise(found.time_s.tolist()):
        if not before_s < after_s:
            name = found.names["time"]
            raise ValueError(f"{path.name}: {name}: got {after_s:g} s after {before_s:g} s, expected times that rise")
    return found


def _of_csv(path: Path, named: Mapping[str, str | None]) -> Trace:
    text = read_text(path)
    headings = [cell.strip() for cell in next(csv.reader(text.splitlines()[:1]), [])]
    if not any(headings):
        raise ValueError(f"{path.name}: got an empty file, expected columns such as time_s, power_w, temp_c")
    offered = {heading.partition(" [")[0]: _unit(heading) for heading in headings}
    names = {quantity: _chosen(path.name, quantity, name, offered) for quantity, name in named.items()}
    whole = {heading.partition(" [")[0]: heading for heading in headings}
    read = read_columns(path.name, text, tuple(whole[name] for name in names.values()))
    sizes = (_UNITS[quantity][offered[name]] for quantity, name in names.items())
    time_s, power_w, temp_c = (values * size for values, size in zip(read, sizes, strict=True))
    return Trace(time_s, power_w, temp_c, names)


def _of_recording(path: Path, named: Mapping[str, str | None]) -> Trace:
    if named["time"] is not None:
        raise ValueError(f"{path.name}: time: got {named['time']!r}, expected none: a recording has its own clock")
    from app.library.tables import recorded_samples

    with Recording(path) as recording:
        channels = [channel for channel in recording.channels if not channel.absent]
        offered = {channel.key: channel.unit for channel in channels}
        of_temp = _chosen(path.name, "temperature", named["temperature"], offered)
        of_power = [_chosen(path.name, "power", named["power"], offered)]
        if named["power"] is None:
            of_power = _whole_board(path.name, channels)
        table = recorded_samples(recording, {of_temp, *of_power})
    power_w = np.sum([table.frame[key].to_numpy() for key in of_power], axis=0, dtype=float)
    temp_c = table.frame[of_temp].to_numpy(dtype=float)
    known = np.isfinite(power_w) & np.isfinite(temp_c)
    if 2 * known.sum() < known.size or not known.any():
        raise ValueError(f"{path.name}: {known.size - known.sum()} of {known.size} readings are missing, expected most")
    names = {"time": "time_s", "power": " + ".join(of_power), "temperature": of_temp}
    return Trace(table.frame["time_s"].to_numpy(dtype=float)[known], power_w[known], temp_c[known], names)


def _whole_board(where: str, channels: Sequence[Channel]) -> list[str]:
    """Return the channels whose sum is the power of the whole board, or the only power channel."""
    columns, words = total_power(cast("Sequence[AgentChannel]", channels))  # the same fields
    present = [channel.key for channel in channels if channel.unit in _UNITS["power"]]
    if not columns and len(present) > 1:
        raise ValueError(f"{where}: power: {words}; expected one of {', '.join(present)} to be chosen")
    return [channels[i].key for i in columns] or present


def _chosen(where: str, quantity: str, name: str | None, offered: Mapping[str, str]) -> str:
    """Return the column or channel of a quantity: the named one, else the first with a unit of it."""
    units = _UNITS[quantity]
    if name is not None and name not in offered:
        raise ValueError(f"{where}: {quantity}: got {name!r}, expected one of {', '.join(offered)}")
    found = name if name is not None else next((each for each, unit in offered.items() if unit in units), "")
    if not found or offered[found] not in units:
        got = f"{found!r}, which has no unit of it" if found else ", ".join(offered) or "no channels"
        raise ValueError(f"{where}: {quantity}: got {got}, expected a name with a unit, such as {_EXAMPLES[quantity]}")
    return found


def _unit(heading: str) -> str:
    """Return the unit in ``power [W, measured]`` or ``power_w`` as in `_UNITS`; "" without one."""
    inside = re.search(r"\[([^\],]+)", heading)
    written = inside.group(1).strip() if inside else heading.rpartition("_")[2] if "_" in heading else ""
    spelled = {unit.lower(): unit for units in _UNITS.values() for unit in units}
    return spelled.get(written.lower(), "")


# ---- the step


def power_step(trace: Trace, idle_w: float | None = None, since_s: float = 0.0, until_s: float = np.inf) -> PowerStep:
    """Return the longest load at constant power after a lower one, or from the start if `idle_w` is given.

    Parameters
    ----------
    idle_w : float, optional
        Power before the start of a trace that begins with the load [W].
    since_s, until_s : float
        Part of the trace to use [s].

    Raises
    ------
    ValueError
        One sentence: too short, no step, a constant temperature, or a power that is not constant.
    """
    kept = (trace.time_s >= since_s) & (trace.time_s <= until_s)
    time_s, power_w, temp_c = trace.time_s[kept], trace.power_w[kept], trace.temp_c[kept]
    if time_s.size < FEWEST or time_s[-1] - time_s[0] < SHORTEST_S:
        length_s = time_s[-1] - time_s[0] if time_s.size else 0.0
        raise ValueError(f"got {time_s.size} readings in {length_s:.3g} s, {_expected()}")
    if np.ptp(temp_c) == 0.0:
        raise ValueError(f"{trace.names['temperature']}: constant at {temp_c[0]:g} deg C, expected it to follow a load")
    first, last = (0, time_s.size) if idle_w is not None else _load(power_w, trace.names["power"])
    load_w = _constant(power_w[first:last], trace.names["power"], idle_w)
    if last - first < FEWEST or time_s[last - 1] - time_s[first] < SHORTEST_S:
        got = f"{last - first} readings in {time_s[last - 1] - time_s[first]:.3g} s"
        raise ValueError(f"the load from {time_s[first]:.4g} s has {got}, {_expected()}")
    before = (time_s < time_s[first]) & (time_s >= time_s[first] - REST_S)
    before[: _begin_of_rest(power_w, first)] = False
    if idle_w is None:
        idle_w, rest = float(power_w[before].mean()), temp_c[before]
        rest_s, change_k = float(time_s[first] - time_s[before][0]), _change(rest)
    else:
        rest_s = change_k = 0.0
    if load_w - idle_w < LEAST_STEP_FRAC * load_w:
        raise ValueError(f"{trace.names['power']}: rises from {idle_w:.3g} to {load_w:.3g} W, expected a larger step")
    within = slice(first, last)
    start_s = float(time_s[first])
    return PowerStep(time_s[within] - start_s, temp_c[within], start_s, idle_w, load_w, rest_s, change_k)


def _expected() -> str:
    return f"expected at least {FEWEST} in {SHORTEST_S:g} s (three minutes show a slow pole)"


def _load(power_w: Floats, name: str) -> tuple[int, int]:
    """Return the longest run of readings above mid-range power that begins within the trace."""
    low, high = np.quantile(power_w, (0.02, 0.98))
    if high - low < LEAST_STEP_FRAC * high:
        raise ValueError(
            f"{name}: constant at {np.median(power_w):.3g} W, expected a step, or --idle where it begins with the load"
        )
    padded = np.pad(power_w, SMOOTHED // 2, mode="edge")
    above = np.median(sliding_window_view(padded, SMOOTHED), axis=1) > (low + high) / 2.0
    edges = np.flatnonzero(np.diff(above.astype(int), prepend=0, append=0))
    runs = [(first, last) for first, last in edges.reshape(-1, 2).tolist() if first > 0]
    if not runs:
        raise ValueError(f"{name}: falls and never rises, expected a load that begins within the trace")
    return max(runs, key=lambda run: run[1] - run[0])


def _begin_of_rest(power_w: Floats, first: int) -> int:
    """Return the index of the first reading of the rest before the step."""
    middle = (power_w[first - 1] + power_w[min(first + 1, power_w.size - 1)]) / 2.0 if first else 0.0
    above = np.flatnonzero(power_w[:first] > middle)
    return int(above[-1]) + 1 if above.size and above[-1] + 1 < first else 0


def _constant(power_w: Floats, name: str, idle_w: float | None) -> float:
    load_w = float(power_w.mean())
    third = max(power_w.size // 3, 1)
    drift_w = float(power_w[-third:].mean() - power_w[:third].mean())
    if abs(drift_w) > MOST_DRIFT_FRAC * (load_w - (idle_w or 0.0)):
        way = "falls" if drift_w < 0 else "rises"
        by = f"{way} by {abs(drift_w):.3g} W under load"
        raise ValueError(f"{name}: {by}, expected constant power (--since and --until cut the file)")
    return load_w


def _change(temp_c: Floats) -> float:
    """Return the change of a temperature, between the means of its first and last third."""
    third = max(temp_c.size // 3, 1)
    return float(temp_c[-third:].mean() - temp_c[:third].mean())
