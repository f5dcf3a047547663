"""Cells, cooling, throttling, DVFS tables and scenarios from the resource files.

Errors are reported as ``file: key: got X, expected Y``; each number needs a source.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from core.catalogue.csv_rows import read_columns
from core.catalogue.refusal import refusal
from core.catalogue.schemas import (
    AllocatorTable,
    CapsTable,
    CellTable,
    CoolingTable,
    DvfsFile,
    PublishedScenario,
    SpreaderTable,
)
from core.catalogue.toml_files import converted, resource, resource_folder, sources_of
from core.physics import thermal
from core.physics.battery import Cell, chen_rincon_mora_cell
from core.physics.heatfield import Plate, steady_field_k
from core.physics.objectives import Scenario
from core.physics.throttle import PowerAllocator, Throttle, Trip, TripCaps

Floats = NDArray[np.float64]
SWITCH_ON_BELOW_K = 10.0  # [prior] below a junction limit, where a power allocator starts to act
_HALVINGS = 20  # of four decades, down to 1e-5


# --- resources --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cooling:
    """Cooling of a board: its thermal ladder, die first."""

    key: str
    name: str
    ladder: thermal.Ladder
    sources: Mapping[str, str]

    @property
    def resistance_k_w(self) -> float:
        """Total resistance from die to ambient [K/W]."""
        return math.fsum(self.ladder.resistance_k_w)


@dataclass(frozen=True, slots=True)
class Spreader:
    """The plate that spreads the heat of a chip: dimensions, conductivity, heat capacity, and the side of the chip."""

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
        """Return the plate in square cells, with the uniform heat loss that gives a resistance from chip to ambient.

        The resistance falls with the loss, which is found by bisection.

        Parameters
        ----------
        resistance_k_w : float
            Resistance from the chip through the plate to the ambient, > 0 [K/W].
        n_across : int
            Cells along the width.
        """
        cell = self.width_m / n_across
        shape = max(2, round(self.height_m / cell)), n_across
        flat = 1 / (resistance_k_w * shape[0] * shape[1] * cell**2)  # the loss of an isothermal plate
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
        """Return a power distributed over the cells of the chip, in the middle of the plate [W per cell]."""
        found = np.zeros(plate.shape)
        rows, columns = (
            slice(n // 2 - half, n // 2 + half)
            for n, half in ((n, max(1, round(self.chip_m / plate.cell_m / 2))) for n in plate.shape)
        )
        found[rows, columns] = 1.0
        return np.asarray(found * (power_w / found.sum()))


@dataclass(frozen=True, slots=True)
class ThrottleRule:
    """Throttling of a board at high temperature, without its cooling."""

    key: str
    name: str
    switch_on_temp_c: float
    target_temp_c: float
    trips: tuple[Trip, ...]
    shutdown_temp_c: float
    top_clock_hz: float | None  # of the board, where its power modes have none
    sources: Mapping[str, str]

    def with_limit(self, limit_temp_c: float) -> ThrottleRule:
        """Return the rule of a power allocator that holds a junction limit [deg C], and acts from 10 K below it."""
        return replace(self, trips=(), switch_on_temp_c=limit_temp_c - SWITCH_ON_BELOW_K, target_temp_c=limit_temp_c)

    def throttle(self, resistance_k_w: float) -> Throttle:
        """Return the throttle for a thermal resistance to ambient; its sustainable power is that at 25 deg C."""
        if self.trips:
            return TripCaps(self.trips)
        sustainable = float(thermal.sustained_power_w(self.target_temp_c, 25.0, resistance_k_w))
        return PowerAllocator.estimated(sustainable, self.switch_on_temp_c, self.target_temp_c)


@dataclass(frozen=True, slots=True)
class DvfsTable:
    """DVFS levels of a unit: (n,) rising clocks, and voltages or power and throughput; empty if unknown."""

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
    """Return the cells by key; the first one is the default."""
    found = {key: _cell(key, where, table) for key, where, table in resource_folder("cells")}
    default = found.pop("molicel-p42a")
    polymer = chen_rincon_mora_cell(850e-3 * 3600)
    return {default.key: default, **found, polymer.key: polymer}


def _cell(key: str, where: str, table: Mapping[str, Any]) -> Cell:
    made = converted(where, table, CellTable)
    text = files("resources").joinpath("cells", made.ocv).read_text("utf-8")
    soc, ocv = read_columns(f"cells/{made.ocv}", text, ("soc", "ocv_v"))
    _check_as_many(where, made, "rc_ohm", "rc_s", "time constants")
    sources_of(where, table, made)
    flat = np.ones_like(soc)
    return Cell(
        key=key,
        name=made.name,
        chemistry=made.chemistry,
        charge_c=made.charge_c,
        cutoff_v=made.cutoff_v,
        soc=soc,
        ocv_v=ocv,
        r0_ohm=made.r0_ohm * flat,
        rc_ohm=np.outer(made.rc_ohm, flat),
        rc_s=np.outer(made.rc_s, flat),
    )


@functools.cache
def load_cooling() -> Mapping[str, Cooling]:
    """Return the coolings by key."""
    return {key: _cooling(key, where, table) for key, where, table in _tables("thermal/cooling.toml")}


def _cooling(key: str, where: str, table: Mapping[str, Any]) -> Cooling:
    made = converted(where, table, CoolingTable)
    _check_as_many(where, made, "resistance_k_w", "tau_s", "time constants")
    ladder = thermal.ladder_from_foster(made.resistance_k_w, made.tau_s)
    return Cooling(key, made.name, ladder, sources_of(where, table, made))


@functools.cache
def load_spreaders() -> Mapping[str, Spreader]:
    """Return the heat spreaders by the key of the cooling."""
    return {key: _spreader(key, where, table) for key, where, table in _tables("thermal/spreaders.toml")}


def _spreader(key: str, where: str, table: Mapping[str, Any]) -> Spreader:
    made = converted(where, table, SpreaderTable)
    return Spreader(key=key, sources=sources_of(where, table, made), **made.values())


@functools.cache
def load_plate(cooling: str) -> Plate:
    """Return the plate behind the chip of a cooling, by its key."""
    return load_spreaders()[cooling].plate(load_cooling()[cooling].ladder.resistance_k_w[-1])


@functools.cache
def load_throttle_rules() -> Mapping[str, ThrottleRule]:
    """Return the throttling rules by board key; "default" is that of other boards."""
    return {key: _throttle_rule(key, where, table) for key, where, table in _tables("thermal/throttle.toml")}


def _throttle_rule(key: str, where: str, table: Mapping[str, Any]) -> ThrottleRule:
    made: AllocatorTable | CapsTable
    switch_on = target = math.inf
    trips: tuple[Trip, ...] = ()
    if table.get("kind") == "caps":
        made = converted(where, table, CapsTable)
        _check_as_many(where, made, "trip_temp_c", "max_clock_hz", "clocks")
        pairs = zip(made.trip_temp_c, made.max_clock_hz, strict=True)
        trips = tuple(Trip(temp_c, clock_hz, made.hysteresis_k) for temp_c, clock_hz in pairs)
    else:
        made = converted(where, table, AllocatorTable)
        switch_on, target = made.switch_on_temp_c, made.target_temp_c
    off = math.inf if made.shutdown_temp_c is None else made.shutdown_temp_c
    sources = sources_of(where, table, made)
    return ThrottleRule(key, made.name, switch_on, target, trips, off, made.top_clock_hz, sources)


@functools.cache
def load_dvfs() -> Mapping[str, DvfsTable]:
    """Return the DVFS tables by key."""
    return {key: dvfs_table(key, where, table) for key, where, table in resource_folder("dvfs")}


def dvfs_table(key: str, where: str, table: Mapping[str, Any]) -> DvfsTable:
    """Return one DVFS table from TOML; `where` is its place for messages."""
    made = converted(where, table, DvfsFile)
    columns = {name: np.asarray(getattr(made, name)) for name in ("clock_hz", "voltage_v", "power_w", "throughput")}
    if not (np.diff(made.clock_hz) > 0).all():
        raise refusal(f"{where}: clock_hz", list(made.clock_hz), "rising clocks")
    for name in ("voltage_v", "power_w", "throughput"):
        if getattr(made, name):
            _check_as_many(where, made, "clock_hz", name, "numbers")
    sources = sources_of(where, table, made)
    if len(made.power_w) != len(made.throughput) or not (made.voltage_v or made.power_w):
        raise refusal(f"{where}: power_w", list(made.power_w), "power_w and throughput together, or voltage_v")
    return DvfsTable(key=key, sources=sources, **{**made.values(), **columns})


@functools.cache
def load_scenarios() -> Mapping[str, Scenario]:
    """Return the published scenarios by key."""
    return {key: _scenario(key, where, table) for key, where, table in resource_folder("scenarios")}


def _scenario(key: str, where: str, table: Mapping[str, Any]) -> Scenario:
    made = converted(where, table, PublishedScenario)
    return Scenario(key=key, source=sources_of(where, table, made)["max_latency_s"], **made.values())


def _tables(name: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield key, place for messages and content of each table of a resource file."""
    for key, table in resource(name).items():
        yield key, f"{name}: {key}", table


def _check_as_many(where: str, table: Struct, one: str, other: str, what: str) -> None:
    """Raise a refusal unless two lists of a table have the same length."""
    expected, got = getattr(table, one), getattr(table, other)
    if len(expected) != len(got):
        raise refusal(f"{where}: {other}", list(got), f"{len(expected)} {what}, one for each of {one}")
