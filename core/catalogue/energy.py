"""Cells, cooling, throttling, tables of operating points and scenarios from the resource files.

Checked strictly: ``file: key: got X, expected Y``, and no number without a source.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from core.catalogue.toml_table import Table, parse, read_columns, resource_tables
from core.physics import thermal
from core.physics.battery import Cell, chen_rincon_mora_cell
from core.physics.heatfield import Plate, steady_field_k
from core.physics.objectives import Scenario
from core.physics.throttle import PowerAllocator, Throttle, Trip, TripCaps

Floats = NDArray[np.float64]
_HALVINGS = 20  # of four decades, down to 1e-5


# --- resources --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cooling:
    """How a board is cooled: its ladder, die first."""

    key: str
    name: str
    ladder: thermal.Ladder
    sources: Mapping[str, str]

    @property
    def resistance_k_w(self) -> float:
        """Die to ambient, all of it [K/W]."""
        return math.fsum(self.ladder.resistance_k_w)


@dataclass(frozen=True, slots=True)
class Spreader:
    """The plate that the chip's heat spreads in: its size, what it conducts and stores, and the side of the chip."""

    key: str
    name: str
    width_m: float
    height_m: float
    thickness_m: float
    conductivity_w_mk: float
    volumetric_heat_j_m3k: float
    chip_m: float
    sources: Mapping[str, str]

    def plate(self, resistance_k_w: float, n_across: int = 48) -> Plate:
        """The plate in square cells, with the even loss over its face that makes it, seen from the chip, a resistance.

        The resistance from the chip through the plate to the ambient falls with the loss; found by bisection.
        """
        cell = self.width_m / n_across
        shape = max(2, round(self.height_m / cell)), n_across
        flat = 1 / (resistance_k_w * shape[0] * shape[1] * cell**2)  # would do without spreading
        low, high = 0.5 * flat, 1e4 * flat
        for _ in range(_HALVINGS):
            plate = self._plate(shape, cell, math.sqrt(low * high))
            source = self.source_w(plate, 1.0)
            seen = float((steady_field_k(plate, source) * source).sum())
            low, high = (math.sqrt(low * high), high) if seen > resistance_k_w else (low, math.sqrt(low * high))
        return plate

    def _plate(self, shape: tuple[int, int], cell_m: float, loss_w_m2k: float) -> Plate:
        return Plate(shape, cell_m, self.thickness_m, self.conductivity_w_mk, self.volumetric_heat_j_m3k, loss_w_m2k)

    def source_w(self, plate: Plate, power_w: float) -> Floats:
        """A power spread over the cells of the chip, in the middle of the plate [W per cell]."""
        found = np.zeros(plate.shape)
        rows, columns = (
            slice(n // 2 - half, n // 2 + half)
            for n, half in ((n, max(1, round(self.chip_m / plate.cell_m / 2))) for n in plate.shape)
        )
        found[rows, columns] = 1.0
        return np.asarray(found * (power_w / found.sum()))


@dataclass(frozen=True, slots=True)
class ThrottleRule:
    """What a board does when it is hot, before its cooling is known."""

    key: str
    name: str
    switch_on_temp_c: float
    target_temp_c: float
    trips: tuple[Trip, ...]
    shutdown_temp_c: float
    top_clock_hz: float | None  # of the board, where its power modes do not say
    sources: Mapping[str, str]

    def throttle(self, resistance_k_w: float) -> Throttle:
        """The throttle of a board behind a thermal resistance; its sustainable power is that of a 25 deg C room."""
        if self.trips:
            return TripCaps(self.trips)
        sustainable = float(thermal.sustained_power_w(self.target_temp_c, 25.0, resistance_k_w))
        return PowerAllocator.estimated(sustainable, self.switch_on_temp_c, self.target_temp_c)


@dataclass(frozen=True, slots=True)
class DvfsTable:
    """Operating points of a unit: (n,) rising clocks, and voltages or power and throughput; empty if unknown."""

    key: str
    name: str
    board: str
    unit: str
    clock_hz: Floats
    voltage_v: Floats
    power_w: Floats
    throughput: Floats
    throughput_unit: str
    sources: Mapping[str, str]


@functools.cache
def load_cells() -> Mapping[str, Cell]:
    """Every cell by key; the first one is the default."""
    found = {key: _cell(key, table) for key, table in resource_tables("cells")}
    default = found.pop("molicel-p42a")
    polymer = chen_rincon_mora_cell(850e-3 * 3600)
    return {default.key: default, **found, polymer.key: polymer}


def _cell(key: str, table: Table) -> Cell:
    name = table.text("ocv")
    where = f"cells/{name}"
    soc, ocv = read_columns(where, files("resources").joinpath("cells", name).read_text("utf-8"), ("soc", "ocv_v"))
    rc_ohm, rc_s = table.numbers_of("rc_ohm", 0.0, 100.0), table.numbers_of("rc_s", 1e-3, 1e6)
    if len(rc_ohm) != len(rc_s):
        table.fail("rc_s", list(rc_s), f"{len(rc_ohm)} time constants, one for each of rc_ohm")
    flat = np.ones_like(soc)
    cell = Cell(
        key=key,
        name=table.text("name"),
        chemistry=table.text("chemistry"),
        charge_c=table.number("charge_c", 1.0, 1e7),
        cutoff_v=table.number("cutoff_v", 0.5, 5.0),
        soc=soc,
        ocv_v=ocv,
        r0_ohm=table.number("r0_ohm", 1e-6, 100.0) * flat,
        rc_ohm=np.outer(rc_ohm, flat),
        rc_s=np.outer(rc_s, flat),
    )
    table.numbers.append("ocv")
    table.close()
    return cell


@functools.cache
def load_cooling() -> Mapping[str, Cooling]:
    """Every way of cooling by key."""
    return {key: _cooling(key, table) for key, table in _resource("thermal/cooling.toml").tables()}


def _cooling(key: str, table: Table) -> Cooling:
    name, gain, tau = (
        table.text("name"),
        table.numbers_of("resistance_k_w", 1e-3, 1e3),
        table.numbers_of("tau_s", 1e-3, 1e5),
    )
    if len(gain) != len(tau):
        table.fail("tau_s", list(tau), f"{len(gain)} time constants, one for each of resistance_k_w")
    return Cooling(key, name, thermal.ladder_from_foster(gain, tau), table.close())


@functools.cache
def load_spreaders() -> Mapping[str, Spreader]:
    """What the heat spreads in, by the key of the cooling."""
    return {key: _spreader(key, table) for key, table in _resource("thermal/spreaders.toml").tables()}


def _spreader(key: str, table: Table) -> Spreader:
    return Spreader(
        key=key,
        name=table.text("name"),
        width_m=table.number("width_m", 1e-3, 1.0),
        height_m=table.number("height_m", 1e-3, 1.0),
        thickness_m=table.number("thickness_m", 1e-5, 0.1),
        conductivity_w_mk=table.number("conductivity_w_mk", 0.1, 3000.0),
        volumetric_heat_j_m3k=table.number("volumetric_heat_j_m3k", 1e5, 1e7),
        chip_m=table.number("chip_m", 1e-3, 0.1),
        sources=table.close(),
    )


@functools.cache
def load_plate(cooling: str) -> Plate:
    """The plate behind the chip of a way of cooling, by its key."""
    return load_spreaders()[cooling].plate(load_cooling()[cooling].ladder.resistance_k_w[-1])


@functools.cache
def load_throttle_rules() -> Mapping[str, ThrottleRule]:
    """Every board's throttling by board key, and "default" for the others."""
    return {key: _throttle_rule(key, table) for key, table in _resource("thermal/throttle.toml").tables()}


def _throttle_rule(key: str, table: Table) -> ThrottleRule:
    name, kind = table.text("name"), table.text("kind")
    shutdown, top = table.optional("shutdown_temp_c", 40.0, 200.0), table.optional("top_clock_hz", 1e6, 1e11)
    switch_on = target = math.inf
    trips: tuple[Trip, ...] = ()
    if kind == "allocator":
        switch_on, target = table.number("switch_on_temp_c", 0.0, 150.0), table.number("target_temp_c", 0.0, 150.0)
    elif kind == "caps":
        temps, clocks = table.numbers_of("trip_temp_c", 0.0, 150.0), table.numbers_of("max_clock_hz", 1e6, 1e11)
        if len(temps) != len(clocks):
            table.fail("max_clock_hz", list(clocks), f"{len(temps)} clocks, one for each trip temperature")
        hysteresis = table.number("hysteresis_k", 0.0, 50.0)
        trips = tuple(Trip(t, f, hysteresis) for t, f in zip(temps, clocks, strict=True))
    else:
        table.fail("kind", kind, "allocator or caps")
    sources = table.close()
    off = math.inf if shutdown is None else shutdown
    return ThrottleRule(key, name, switch_on, target, trips, off, top, sources)


@functools.cache
def load_dvfs() -> Mapping[str, DvfsTable]:
    """Every table of operating points by key."""
    return {key: dvfs_table(key, table) for key, table in resource_tables("dvfs")}


def dvfs_table(key: str, table: Table) -> DvfsTable:
    """Read one table of operating points."""
    clock = np.asarray(table.numbers_of("clock_hz", 1.0, 1e12))
    if not (np.diff(clock) > 0).all():
        table.fail("clock_hz", clock.tolist(), "rising clocks")

    def column(name: str, high: float) -> Floats:
        if name not in table.left:
            return np.empty(0)
        values = np.asarray(table.numbers_of(name, 1e-9, high))
        if values.size != clock.size:
            table.fail(name, values.tolist(), f"{clock.size} numbers, one for each clock")
        return values

    made = DvfsTable(
        key=key,
        name=table.text("name"),
        board=table.text("board", ""),
        unit=table.text("unit", ""),
        clock_hz=clock,
        voltage_v=column("voltage_v", 10.0),
        power_w=column("power_w", 1e5),
        throughput=column("throughput", 1e12),
        throughput_unit=table.text("throughput_unit", "1/s"),
        sources=table.close(),
    )
    if made.power_w.size != made.throughput.size or not (made.voltage_v.size or made.power_w.size):
        table.fail("power_w", made.power_w.tolist(), "power_w and throughput together, or voltage_v")
    return made


@functools.cache
def load_scenarios() -> Mapping[str, Scenario]:
    """Every published scenario by key."""
    found = {}
    for key, table in resource_tables("scenarios"):
        found[key] = scenario_of(key, table, source="")
        found[key] = replace(found[key], source=table.close()["max_latency_s"])
    return found


def scenario_of(key: str, table: Table, source: str) -> Scenario:
    """Take the limits of a scenario from a table, which stays open."""
    return Scenario(
        key=key,
        name=table.text("name"),
        min_accuracy_frac=table.number("min_accuracy_frac", 0.0, 0.999999),
        max_latency_s=table.number("max_latency_s", 1e-9, 1e6),
        max_energy_j=table.number("max_energy_j", 1e-12, 1e9),
        energy_weight=table.number("energy_weight", 1e-3, 1e3, 1.0),
        source=source,
    )


def _resource(name: str) -> Table:
    return Table(name, parse(name, files("resources").joinpath(name).read_text("utf-8")))
