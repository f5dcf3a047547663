"""Heat, throttling and battery of a device, one step at a time; `core.predict.cosim` takes a whole run at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from core.physics.battery import Cell
from core.physics.discharge import discharge
from core.physics.thermal import modes
from core.predict.cosim import RUNAWAY_TEMP_C, Device

STEP_S = 0.1
DRAIN_S = 10.0
MEMORY = 120


@dataclass(frozen=True, slots=True)
class Moment:
    """A step that is over: operating level in it, mean power, die temperature at its end."""

    level: int
    power_w: float
    temp_c: float


class Heat:
    """The state of a device: mode states of its ladder and of its throttle.

    Parameters
    ----------
    device : Device
    ambient_temp_c : Surroundings, and the temperature of the whole device at first [deg C].
    """

    def __init__(self, device: Device, ambient_temp_c: float) -> None:
        self.ambient_temp_c = ambient_temp_c
        m = modes(device.ladder)
        self._decay = np.exp(-STEP_S / m.tau_s)
        self._gain = m.resistance_k_w * (1 - self._decay)
        self._rise_k = np.zeros(m.tau_s.size)
        self.put(device)

    @property
    def temp_c(self) -> float:
        """Temperature of the die [deg C]."""
        return self.ambient_temp_c + float(self._rise_k.sum())

    def put(self, device: Device) -> None:
        """Run another workload from now on: other levels on the same ladder."""
        self.device, levels = device, device.levels
        self._power_w = levels.core_w + levels.dram_w
        self._allowed = device.throttle.controller((self._power_w + device.idle_w).tolist(), levels.clock_hz.tolist())

    def step(self, load_frac: float) -> Moment:
        """Let `STEP_S` pass, busy for a share of it."""
        device, before_c = self.device, min(self.temp_c, RUNAWAY_TEMP_C)
        level = self._allowed(before_c)
        leak_w = device.leakage_w * math.expm1(device.leakage_rate_per_k * (before_c - device.leakage_temp_c))
        power_w = device.idle_w + load_frac * float(self._power_w[level]) + leak_w
        self._rise_k = self._decay * self._rise_k + self._gain * power_w
        return Moment(level, power_w + device.periphery_w, self.temp_c)


class Charge:
    """A battery drained in pieces of `DRAIN_S`, each at its mean power and peak.

    What it delivers depends on the minutes before, so each piece is run together with up to `MEMORY` before it.
    """

    def __init__(self, cell: Cell, soc: float = 1.0) -> None:
        self.cell, self.soc, self.end = cell, soc, ""
        self.voltage_v = math.nan
        self._power_w: list[float] = []  # of the piece that goes on
        self._pieces: list[tuple[float, float, float]] = []  # mean, peak and charge before it

    def step(self, power_w: float) -> None:
        """Draw a power for `STEP_S`."""
        self._power_w.append(power_w)
        if len(self._power_w) * STEP_S < DRAIN_S or self.end:
            return
        self._pieces.append((float(np.mean(self._power_w)), max(self._power_w), self.soc))
        self._power_w = []
        if len(self._pieces) > 2 * MEMORY:
            del self._pieces[:MEMORY]
        mean, peak, before = np.array(self._pieces).T
        ran = discharge(self.cell, mean, DRAIN_S, start_soc=float(before[0]), peak_w=peak)
        self.end = ran.end
        if ran.soc.size:
            self.soc, self.voltage_v = float(ran.soc[-1]), float(ran.voltage_v[-1])
