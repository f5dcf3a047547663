"""Sustained operation: power breakdown, thermals, throttling and battery over a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.catalogue.energy import (
    load_cells,
    load_cooling,
    load_dvfs,
    load_plate,
    load_spreaders,
    load_throttle_rules,
)
from core.catalogue.inputs import Workload, read_workload
from core.physics.battery import Cell, at_temperature, pack_of_energy
from core.physics.dvfs import Knee, knees
from core.physics.heatfield import steady_field_k
from core.predict.cosim import Device, Run, load_of_phases
from core.predict.endurance import Speeds, device_of, predicted_speeds, results, simulate_at_quantiles
from core.spec import Absent, Catalogue, OperatingPoint, Output, Posterior

STEP_S = 0.1
N_SERIES = 3  # cells in a row of the pack
ROW_LOG_SD = 0.03  # of power and speed of a level, for the intervals of the knees


@dataclass(frozen=True, slots=True)
class Around:
    """Surroundings of the board; a field is the last part of its path in the store, ``energy.*``."""

    ambient: float = 25.0  # deg C
    battery: float | None = None  # J
    duration: float = 3600.0  # s
    cooling: str = "heatsink"
    limit_temp: float | None = None  # junction limit, deg C; None is the board's own rule
    power: float | None = None  # W while decoding at the top clock; None is the predicted one
    idle: float | None = None  # W of the board at rest; None is the measured or assumed one
    profile: str = "steady"  # a workload of the resources, or a file


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The steady-state temperatures (ny, nx) of the heat spreader [deg C], at the sustained power of the die."""

    temp_c: NDArray[np.float64]
    name: str
    power_w: float
    cell_m: float


@dataclass(frozen=True, slots=True)
class Endurance:
    """The simulated run at the median power, its results with intervals, and their basis."""

    device: Device
    speeds: Speeds
    runs: tuple[Run, ...]  # at the median power, then at its 5 and 95 % quantiles
    results: Mapping[str, Output]
    profile: str
    knees: Mapping[str, Knee | Absent]
    heat: HeatMap

    @property
    def run(self) -> Run:
        """The run at the median power."""
        return self.runs[0]


def workloads() -> dict[str, str]:
    """Return the name of each workload of the resources by its key."""
    folder = files("resources").joinpath("workloads")
    keys = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {key: read_workload(Path(str(folder.joinpath(f"{key}.toml")))).name for key in keys}


def coolings() -> dict[str, str]:
    """Return the name of each cooling by its key."""
    return {key: cooling.name for key, cooling in load_cooling().items()}


def hold(point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None, around: Around) -> Endurance:
    """Simulate sustained operation of the board at a point (scalars only).

    Raises
    ------
    ValueError
        The board's power is unknown, or a file or a value is invalid; one sentence.
    """
    speeds = board_speeds(point, catalogue, posterior, idle_w=around.idle, power_w=around.power)
    cooling = load_cooling()
    if around.cooling not in cooling:
        raise ValueError(f"cooling: got {around.cooling!r}, expected one of {', '.join(cooling)}")
    rules = load_throttle_rules()
    rule = rules.get(point.board, rules["default"])
    device = device_of(
        speeds,
        cooling[around.cooling],
        rule if around.limit_temp is None else rule.with_limit(around.limit_temp),
        battery=None if around.battery is None else pack(around.battery, around.ambient),
    )
    workload = workload_of(around.profile)
    load = load_of_workload(workload, device, around.duration)
    runs = simulate_at_quantiles(device, speeds, load, STEP_S, around.ambient)
    said = results(runs, speeds, STEP_S * load.size)
    heat = heat_map(around, runs[0])
    return Endurance(device, speeds, runs, said, workload.name, level_knees(speeds), heat)


def sustained_speed(point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None, around: Around) -> Output:
    """Return the speed at the end of sustained operation [tokens/s], or the reason that it is not simulated."""
    try:
        return hold(point, catalogue, posterior, around).results["sustained_tokens_s"]
    except ValueError as error:
        return Absent(f"sustained operation is not simulated: {error}")


def heat_map(around: Around, run: Run) -> HeatMap:
    """Return the heat map of a run: its mean power over the last quarter, in the plate behind the die."""
    spreader, plate = load_spreaders()[around.cooling], load_plate(around.cooling)
    power_w = max(run.sustained_w - run.terms_w["periphery"], 0.0)
    rise = steady_field_k(plate, spreader.source_w(plate, power_w))
    return HeatMap(around.ambient + rise, spreader.name, power_w, plate.cell_m)


def board_speeds(
    point: OperatingPoint,
    catalogue: Catalogue,
    posterior: Posterior | None,
    *,
    idle_w: float | None = None,
    power_w: float | None = None,
) -> Speeds:
    """Return the operating levels of the point's board, from its table of clocks and voltages if there is one."""
    unit = catalogue.resolve(point).board.unit
    tables = (t for t in load_dvfs().values() if (t.board, t.unit) == (point.board, unit))
    return predicted_speeds(
        point,
        catalogue,
        posterior,
        table=next(tables, None),
        rule=load_throttle_rules().get(point.board),
        idle_w=idle_w,
        power_w=power_w,
    )


def level_knees(speeds: Speeds) -> dict[str, Knee | Absent]:
    """Return the knees of the board's levels at full load."""
    levels = speeds.levels
    watts = speeds.idle_w + levels.core_w + levels.dram_w
    return knees(levels.clock_hz, watts, levels.tokens_s, log_sd=ROW_LOG_SD)


def pack(energy_j: float, temp_c: float, cell: str = "", n_series: int = N_SERIES) -> Cell:
    """Return a pack with an energy at a temperature; the default cell is the first of the resources."""
    cells = load_cells()
    key = cell or next(iter(cells))
    if key not in cells:
        raise ValueError(f"cell: got {key!r}, expected one of {', '.join(cells)}")
    return at_temperature(pack_of_energy(cells[key], energy_j, n_series), temp_c)


def workload_of(profile: str) -> Workload:
    """Return a workload by its name among the resources, such as ``video_enc``, or from a file."""
    known = files("resources").joinpath("workloads", f"{profile}.toml")
    return read_workload(Path(str(known)) if known.is_file() else Path(profile))


def load_of_workload(workload: Workload, device: Device, duration_s: float) -> NDArray[np.float64]:
    """Return the decoding share of each step, from phases or from a recorded power.

    Raises
    ------
    ValueError
        A recorded power is outside the range of the board.
    """
    load = workload.load_frac if workload.load_frac.size else _load_of_power(workload, device)
    return load_of_phases(workload.seconds, load, duration_s, STEP_S)


def _load_of_power(workload: Workload, device: Device) -> NDArray[np.float64]:
    """Return the decoding share at the top level that draws a recorded power."""
    top = float(device.levels.core_w[-1] + device.levels.dram_w[-1])
    load = (workload.power_w - device.idle_w) / top
    if (load < -1e-9).any() or (load > 1 + 1e-9).any():
        worst = float(workload.power_w[np.argmax(np.abs(load - 0.5))])
        raise ValueError(
            f"profile: power_w: got {worst:g}, expected {device.idle_w:.3g} (idle) to {device.idle_w + top:.3g}"
            " (decoding), the idle and the decoding power"
        )
    return np.asarray(np.clip(load, 0.0, 1.0))
