"""A board of the catalogue as if it were there: what it would take for a point, and what its sensors would show.

How fast it truly is, within what its priors allow, is drawn from the seed, so that a calibration has something to find.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.simulator.heat import STEP_S, Charge, Heat, Moment
from core.calibrate.energy_fit import ENERGY_NAMES, energy_prior
from core.catalogue.energy import load_cells, load_cooling, load_dvfs, load_throttle_rules
from core.catalogue.load import load_catalogue
from core.physics.battery import at_temperature, pack_of_energy
from core.predict.cosim import RUNAWAY_TEMP_C
from core.predict.endurance import Speeds, device_of, predicted_speeds
from core.predict.scenario import initial_posterior, predict
from core.spec import BY_NAME, Absent, Board, OperatingPoint, Posterior, Prediction
from core.spec.suggestions import suggestion

MOST_IDLE_FRAC = 0.8  # [assumed] idle over decoding power where the stated idle power is the larger one
POWER_NOISE_FRAC, POWER_STEP_W = 0.01, 0.005  # [assumed] of a monitor like INA3221: 5 V rail, 1 mA steps
TEMP_NOISE_K, TEMP_STEP_K = 0.15, 0.1  # [assumed]
N_CELLS = 3


@dataclass(frozen=True)
class Work:
    """An operating point on the board: what it does at each level, and what the engine says about the rest of it."""

    point: OperatingPoint
    speeds: Speeds
    prediction: Prediction

    def decode_s(self, level: int) -> float:
        """Time of a token at a level [s]."""
        return 1.0 / float(self.speeds.levels.tokens_s[level])

    def ttft_s(self, level: int) -> float | None:
        """Time to the first token at a level [s]: the compute units do it, so it follows the clock."""
        output, clock = self.prediction.ttft_s, self.speeds.levels.clock_hz
        return None if isinstance(output, Absent) else float(output.median) * float(clock[-1] / clock[level])


class SimulatedBoard:
    """A board that is simulated.

    Parameters
    ----------
    key : str
        Of the catalogue.
    seed : int
        Decides how fast it is within its priors, and all noise.
    ambient_temp_c : float
        Surroundings, -40 to 85 [deg C].
    cooling : str
        "bare", "heatsink" or "fan".
    battery_j : float, optional
        Energy of its full battery [J]; None is a mains supply.

    Raises
    ------
    ValueError
        Unknown board or cooling.
    """

    def __init__(
        self,
        key: str,
        *,
        seed: int = 0,
        ambient_temp_c: float = 25.0,
        cooling: str = "heatsink",
        battery_j: float | None = None,
    ) -> None:
        self.catalogue = load_catalogue()
        if key not in self.catalogue.boards or key == "this":
            raise ValueError(f"board: got {key!r}, {suggestion('board', key, set(self.catalogue.boards) - {'this'})}")
        coolings = load_cooling()
        if cooling not in coolings:
            raise ValueError(f"cooling: got {cooling!r}, expected one of {', '.join(coolings)}")
        self.board: Board = self.catalogue.boards[key]
        self.seed, self._cooling = seed, coolings[cooling]
        rules = load_throttle_rules()
        self._rule = rules.get(key, rules["default"])
        tables = (table for table in load_dvfs().values() if (table.board, table.unit) == (key, self.board.unit))
        self._table = next(tables, None)
        self._noise = np.random.default_rng([seed, 1])
        self._work = self.work({})
        self._heat = Heat(self._device(self._work), ambient_temp_c)
        self.charge = None if battery_j is None else Charge(self._pack(battery_j, ambient_temp_c))
        self._moment = Moment(len(self._work.speeds.levels.clock_hz) - 1, self._work.speeds.idle_w, ambient_temp_c)
        self._load_frac = 0.0

    def _pack(self, battery_j: float, ambient_temp_c: float) -> Any:
        cells = load_cells()
        return at_temperature(pack_of_energy(cells[next(iter(cells))], battery_j, N_CELLS), ambient_temp_c)

    # ---- what it would take

    def work(self, point: Mapping[str, Any]) -> Work:
        """Return the work of a point on this board.

        Parameters
        ----------
        point
            Fields of an operating point; board "this" is this one.

        Raises
        ------
        ValueError
            The point names another board, something unknown or a number out of range; in one sentence.
        """
        asked = self._point(point)
        truth = self._truth(asked)
        prediction = predict(asked, self.catalogue, truth)
        for sentence in prediction.outside:
            if "does not fit" in sentence:
                raise ValueError(sentence)
        speeds = predicted_speeds(
            asked,
            self.catalogue,
            truth,
            table=self._table,
            rule=self._rule,
            idle_w=self._idle_w(prediction),
        )
        return Work(asked, speeds, prediction)

    def _idle_w(self, prediction: Prediction) -> float | None:
        """Return the idle power where the board's own cannot be meant; None leaves it to the engine."""
        watts, idle_w = prediction.power_w, self.board.idle_power_w
        if isinstance(watts, Absent) or idle_w is None or idle_w < float(watts.median):
            return None
        return MOST_IDLE_FRAC * float(watts.median)  # stated for more than the rail, or drawn so low by the seed

    def _point(self, given: Mapping[str, Any]) -> OperatingPoint:
        values = {name: value for name, value in given.items() if name in BY_NAME and name != "board"}
        if given.get("board", "this") not in ("this", self.board.key):
            raise ValueError(f"board: got {given['board']!r}, expected this board, {self.board.key}")
        for name, value in values.items():
            field = BY_NAME[name]
            fits = isinstance(value, (int, float) if field.is_number else str) and not isinstance(value, bool)
            if not fits and not (value is None and field.default is None):
                raise ValueError(f"{name}: got {value!r:.40}, expected a {'number' if field.is_number else 'text'}")
        return OperatingPoint(**self.catalogue.with_usual({"board": self.board.key, **values}))

    def _truth(self, point: OperatingPoint) -> Posterior:
        """Draw the board's own parameters from what is known of it: the same ones for a seed."""
        known = initial_posterior(self.catalogue.resolve(point), self.catalogue)
        names = f"{known.board} {known.runtime} {known.power_mode}".encode()
        dice = np.random.default_rng([self.seed, zlib.crc32(names)])
        variance, axes = np.linalg.eigh(known.log_cov)
        drawn = axes @ (np.sqrt(np.maximum(variance, 0.0)) * dice.standard_normal(len(variance)).clip(-2, 2))
        truth = replace(known, log_mean=known.log_mean + drawn, log_cov=np.zeros_like(known.log_cov))
        return self._with_static_power(truth)

    def _with_static_power(self, truth: Posterior) -> Posterior:
        """Return the parameters with static power, which the board draws at rest too: decoding never takes less."""
        per_byte, of_board = self.board.system_energy_j_byte, self.board
        if per_byte is None or ENERGY_NAMES[0] in truth.names:
            return truth
        mean, _ = energy_prior(of_board.power_rail, truth.bandwidth_byte_s, per_byte, of_board.system_energy_log_sd)
        names = (*truth.names, *ENERGY_NAMES)
        cov = np.zeros((len(names), len(names)))
        return replace(truth, names=names, log_mean=np.append(truth.log_mean, mean), log_cov=cov, n_energy=1)

    def _device(self, work: Work) -> Any:
        return device_of(work.speeds, self._cooling, self._rule, battery=None)

    @property
    def read_byte_s(self) -> float:
        """Streaming read bandwidth [byte/s]: the largest share of the peak that boards reach."""
        mode = next(iter(self.board.power_modes.values()))
        return 0.9 * mode.bandwidth_byte_s

    # ---- what happens

    @property
    def level(self) -> int:
        """The operating level of the last step."""
        return self._moment.level

    @property
    def clock_hz(self) -> float:
        """Clock of the last step [Hz]."""
        return float(self._heat.device.levels.clock_hz[self._moment.level])

    @property
    def unthrottled(self) -> bool:
        """True if it ran at its top clock in the last step."""
        return self._moment.level == len(self._heat.device.levels.clock_hz) - 1

    @property
    def temp_c(self) -> float:
        """Temperature of its die [deg C]."""
        return self._moment.temp_c

    @property
    def busy(self) -> bool:
        """True if it worked in the last step."""
        return self._load_frac > 0

    def begin(self, work: Work | None) -> None:
        """Take up a point; None is idle."""
        if work is not None and work is not self._work:
            self._work = work
            self._heat.put(self._device(work))

    def step(self, load_frac: float) -> None:
        """Let `STEP_S` pass, busy for a share of it."""
        self._load_frac = load_frac
        self._moment = self._heat.step(load_frac)
        if self.charge is not None:
            self.charge.step(self._moment.power_w)

    @property
    def off(self) -> str:
        """Why it has switched off, in one sentence; "" while it runs."""
        if self._moment.temp_c >= self._heat.device.shutdown_temp_c:
            return f"the simulated board switched off at {self._moment.temp_c:.0f} deg C"
        if self._moment.temp_c >= RUNAWAY_TEMP_C:
            return "the simulated board burnt: it heats faster than it cools, and no source states when it switches off"
        if self.charge is not None and self.charge.end:
            return f"the simulated board switched off: its battery ended by {self.charge.end}"
        return ""

    # ---- its sensors

    def channels(self) -> list[dict[str, Any]]:
        """Return the catalogue message of its sensors."""
        source = power = "the simulation"
        covers = self.board.power_rail or "the whole board"
        if self.board.energy_assumed:
            power = f"{source}; [assumed] by its class: nothing states its power"
        unit = f"{source}: of the unit that decodes, the CPU where its runtime runs there"
        made = [
            _channel("board.power_w", "W", power, covers),
            _channel("package.temp_c", "degC", source),
            _channel("decoder.clock_hz", "Hz", unit),
            _channel("decoder.busy_frac", "frac", unit),
        ]
        if self.charge is not None:
            made += [
                _channel("battery.soc_frac", "frac", f"{source}, every 10 s", period_s=10.0),
                _channel("battery.voltage_v", "V", f"{source}, every 10 s", period_s=10.0),
            ]
        return made

    def read(self) -> list[float]:
        """Return the values of the channels, with their noise and resolution."""
        power, temp = self._noise.standard_normal(2)
        values = [
            _rounded(self._moment.power_w * (1 + POWER_NOISE_FRAC * power), POWER_STEP_W),
            _rounded(self._moment.temp_c + TEMP_NOISE_K * temp, TEMP_STEP_K),
            self.clock_hz,
            self._load_frac,
        ]
        if self.charge is not None:
            values += [self.charge.soc, self.charge.voltage_v]
        return values

    def power_mode_state(self) -> dict[str, str]:
        """Return the state entry of the power mode as a real board reports it; none for a board with one mode."""
        modes = list(self.board.power_modes)
        return {"value": modes[0]} if len(modes) > 1 else {"absent": "this board has a single power mode"}

    def facts(self) -> dict[str, Any]:
        """Return the identity that the board reports."""
        mode = next(iter(self.board.power_modes))
        told = {
            "name": self.board.name,
            "key": self.board.key,
            "cpu": f"simulated {self.board.unit} of {self.board.name}, seed {self.seed}",
            "memory_byte": None if self.board.memory_byte is None else int(self.board.memory_byte),
            "power_mode": mode if len(self.board.power_modes) > 1 else None,
            "governor": "simulated",
        }
        return {key: value for key, value in told.items() if value is not None}


def _channel(key: str, unit: str, source: str, covers: str = "", period_s: float = STEP_S) -> dict[str, Any]:
    return {"key": key, "unit": unit, "source": source, "covers": covers, "absent": "", "native_period_s": period_s}


def _rounded(value: float, step: float) -> float:
    return round(value / step) * step
