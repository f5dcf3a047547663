"""The board's values for a site's own monitoring, as OpenMetrics text.

The format is that of the OpenMetrics specification (1.0.0): each family has ``# TYPE``, ``# HELP`` and, where its name
ends in one, ``# UNIT``; counters end in ``_total``, what is known in words is an info metric, and ``# EOF`` comes last.
A value that cannot be read now has no sample; a channel that is absent is an info metric with the reason.
"""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from app import VERSION
from app.agent.board import describe
from app.agent.channel import Channel
from app.agent.doubt import HOLD_S, PowerCheck
from app.agent.power import total_power
from app.agent.sensor_columns import Columns
from app.agent.sensors import arrange, discover
from app.agent.sensors.feed import lower_priority
from app.agent.sensors.tools import ToolSensor
from app.agent.state import BoardState

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
STEP_S = 0.1
STATE_S = 5.0
SCRAPE_HOLD_S = 0.4  # of the half second that one scrape looks at the sensors


class Family(NamedTuple):
    """One metric: its name without suffixes, its type, the unit that its name ends in, what it is."""

    name: str
    kind: str
    unit: str
    help: str


QUANTITIES = {
    "W": Family("trilemma_power_watts", "gauge", "watts", "Power of a rail, a part or the board."),
    "degC": Family("trilemma_temperature_celsius", "gauge", "celsius", "Temperature of a zone or a part."),
    "Hz": Family("trilemma_clock_hertz", "gauge", "hertz", "Clock of a processor, a GPU, an NPU or the memory."),
    "byte": Family("trilemma_memory_bytes", "gauge", "bytes", "Memory."),
    "frac": Family("trilemma_share_ratio", "gauge", "ratio", "Share of the time that a part was busy."),
    "V": Family("trilemma_voltage_volts", "gauge", "volts", "Voltage of a rail."),
    "A": Family("trilemma_current_amperes", "gauge", "amperes", "Current of a rail."),
    "1": Family("trilemma_value", "gauge", "", "Counts and flags."),
}
"""The family of each unit of a channel."""

TOTAL = Family(
    "trilemma_board_power_watts", "gauge", "watts", "Power of the whole board, as far as its sensors see it."
)
ENERGY = Family(
    "trilemma_board_energy_joules", "counter", "joules", "Energy of the whole board since the agent started."
)
CPU = Family("trilemma_agent_cpu_seconds", "counter", "seconds", "Processor time that the agent itself took.")
PERIOD = Family(
    "trilemma_channel_period_seconds", "gauge", "seconds", "How often a channel has a new value, as counted."
)
BOARD = Family("trilemma_board", "info", "", "What the board is.")
STATE = Family("trilemma_board_state", "info", "", "Power mode, governors, throttling, what else runs.")
WARNING = Family("trilemma_board_warning", "info", "", "What would spoil a measurement made now.")
ABSENT = Family("trilemma_channel_absent", "info", "", "Channels that this board could have, and why it has not.")

_SUFFIX = {"gauge": "", "counter": "_total", "info": "_info"}

Sample = Tuple[Mapping[str, str], float]


def exposition(families: Iterable[Tuple[Family, Sequence[Sample]]]) -> str:
    """Return the text of all families that have samples."""
    lines: List[str] = []
    for family, samples in families:
        if not samples:
            continue
        lines.append(f"# TYPE {family.name} {family.kind}")
        if family.unit:
            lines.append(f"# UNIT {family.name} {family.unit}")
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        for labels, value in samples:
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{family.name}{_SUFFIX[family.kind]}{{{inside}}} {_number(value)}")
    return "\n".join([*lines, "# EOF", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def scrape(root: Path) -> str:
    """Return the text of one scrape."""
    meters = Meters(root, SCRAPE_HOLD_S)
    try:
        meters.settle()
        return meters.text()
    finally:
        meters.close()


class Meters:
    """The sensors of a board, read all the time, for whoever asks for their newest values.

    Parameters
    ----------
    root
        Where the file system of the board starts.
    hold_s
        How long a power must be out of order before it is doubted [s].
    """

    def __init__(self, root: Path = Path("/"), hold_s: float = HOLD_S) -> None:
        self._root = root
        self._sensors, self._absent = discover(root)
        self._tools = [sensor for sensor in self._sensors if isinstance(sensor, ToolSensor)]
        self._columns = Columns(self._sensors)
        self._board = describe(root)
        self._state = BoardState(root)
        self._shown_state = self._state.read()
        self._lock = threading.Lock()
        self._check = PowerCheck(hold_s)
        self._energy_j = 0.0
        self._last: Tuple[int, float] = (0, math.nan)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meters", daemon=True)

    def start(self) -> None:
        """Begin to read: once at once, then all the time."""
        self._step()
        self._thread.start()

    def close(self) -> None:
        """End the thread and the tools."""
        self._closed.set()
        for tool in self._tools:
            tool.close()

    def settle(self) -> None:
        """Read twice, so that what is a difference of two reads has a value; for one scrape without `start`."""
        for _ in range(2):
            self._step()
            self._closed.wait(0.25)
        self._step()
        self._columns.set_periods()

    def _run(self) -> None:
        lower_priority()
        state_s = time.monotonic() + STATE_S
        self._state.look_at_processes()
        while not self._closed.wait(STEP_S):
            self._step()
            if time.monotonic() >= state_s:
                state_s = time.monotonic() + STATE_S
                self._state.look_at_processes()
                self._shown_state = self._state.read()
                self._columns.set_periods()

    def _step(self) -> None:
        with self._lock:
            outdated = [tool for tool in self._tools if tool.outdated]
            if outdated:
                for tool in outdated:
                    tool.refresh()
                arrange(self._root, self._sensors, self._absent)
                self._columns = Columns(self._sensors)
            t_ns = time.monotonic_ns()
            self._columns.read(t_ns)
            self._columns.count(t_ns)
            self._check.see(t_ns * 1e-9, self._columns.channels, self._columns.row)
            power_w = self._total()[0]
            last_ns, last_w = self._last
            if not math.isnan(power_w + last_w):
                self._energy_j += (power_w + last_w) / 2 * (t_ns - last_ns) * 1e-9
            self._last = (t_ns, power_w)

    def _total(self) -> Tuple[float, str, str]:
        """Return the power of the board, what it covers, and why there is none."""
        columns, words = total_power([*self._columns.channels, *self._absent])
        if not columns:
            return math.nan, "", words
        return sum(self._columns.row[i] for i in columns), words, ""

    def families(self) -> List[Tuple[Family, Sequence[Sample]]]:
        """Return all metric families; a metric without a value has no sample."""
        with self._lock:
            values = list(zip(self._columns.channels, self._columns.row))
            total_w, covers, reason = self._total()
            energy_j, state = self._energy_j, self._shown_state
        missing = [*self._absent, *(channel for tool in self._tools for channel in tool.absent)]
        if reason and not any(channel.key == "board.power_w" for channel in missing):
            missing.append(Channel("board.power_w", "W", "", absent=reason))
        name = str(self._board.get("name", "unknown"))
        found: List[Tuple[Family, Sequence[Sample]]] = [
            (BOARD, [({"board": name, **_words(self._board), "agent": VERSION}, 1.0)]),
            (STATE, _entries(name, state, _value_words)),
            (WARNING, _entries(name, state, lambda entry: str(entry.get("warning", "")))),
        ]
        for unit, family in QUANTITIES.items():
            known = [(c, value) for c, value in values if c.unit == unit and not math.isnan(value)]
            found.append((family, [(_labels(name, c), value) for c, value in known]))
        periods = [(_labels(name, c), c.native_period_s) for c, _ in values if c.native_period_s is not None]
        return [
            *found,
            (PERIOD, periods),
            (TOTAL, [] if math.isnan(total_w) else [({"board": name, "covers": covers}, total_w)]),
            (ENERGY, [] if math.isnan(total_w) else [({"board": name, "covers": covers}, energy_j)]),
            (CPU, [({"board": name}, time.process_time())]),
            (ABSENT, [({**_labels(name, channel), "reason": channel.absent}, 1.0) for channel in missing]),
        ]

    def text(self) -> str:
        """Return one scrape."""
        return exposition(self.families())


def _labels(board: str, channel: Channel) -> Dict[str, str]:
    return {"board": board, "channel": channel.key, "source": channel.source}


def _words(board: Mapping[str, Any]) -> Dict[str, str]:
    return {key: str(board[key]) for key in ("cpu", "os", "kernel", "machine") if key in board}


def _entries(board: str, state: Mapping[str, Any], words: Callable[[Mapping[str, Any]], str]) -> List[Sample]:
    found = [(entry, words(value)) for entry, value in state.items()]
    return [({"board": board, "entry": entry, "value": said}, 1.0) for entry, said in found if said]


def _value_words(entry: Mapping[str, Any]) -> str:
    """Return a state that is words; numbers that move all the time would make a new series each time."""
    value = entry.get("value")
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items() if isinstance(item, str))
    return ""
