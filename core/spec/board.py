"""Boards and their power modes, as data sheets describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PowerMode:
    """One power mode of a board: what its memory and compute units reach in it. None means that no source states it."""

    key: str
    bandwidth_byte_s: float  # peak DRAM bandwidth
    compute_op_s: float | None = None  # peak multiply-add rate counted as 2 operations
    clock_hz: float | None = None
    power_limit_w: float | None = None
    vector_op_s: float | None = None  # of the unit's vector lanes: 32-bit multiply-adds, counted as 2
    cpu_vector_op_s: float | None = None  # the same of the CPU's cores, where another unit decodes
    cpu_bandwidth_byte_s: float | None = None  # what those cores were measured to read
    bandwidth_log_sd: float = 0.0  # > 0 where the bandwidth is a guess in this mode only
    vector_log_sd: float = 0.0  # > 0 where no source states the rate of the vector lanes that unpack weights


@dataclass(frozen=True, slots=True)
class Board:
    """A board as its data sheet describes it. `sources` names the source of each number, by field name."""

    key: str
    name: str
    unit: str  # "cpu", "gpu" or "npu": which unit decodes
    power_modes: Mapping[str, PowerMode]  # the first one is the default
    memory_byte: float | None = None
    most_memory_byte: float | None = None  # of its largest version, where versions differ in nothing else
    available_byte: float | None = None  # of the memory, that the attached board itself says programs can have
    idle_power_w: float | None = None
    system_energy_j_byte: float | None = None  # energy per byte moved during decode, on `power_rail`
    system_energy_log_sd: float = 0.35
    power_rail: str = ""  # what the watts cover
    bandwidth_log_sd: float = 0.0  # > 0 where the peak bandwidth itself is a guess, as on a machine not yet measured
    integer_speedup: float = 1.0  # of a GPU whose lanes take that many times the integer work of Apple M1 or Ampere
    fp8_speedup: float = 1.0  # of matrix units: rate of 8-bit floats over that of 16 bits, which modes state
    fp4_speedup: float = 1.0  # the same of 4-bit floats
    identify: tuple[str, ...] = ()  # patterns of what such a board says of itself, see `core.catalogue.identify`
    listed: bool = False  # in the catalogue, so that runtimes tell whether they run on it
    data_sheet: str = ""  # key of the board whose data sheet describes an attached one; "" where none was found
    sources: Mapping[str, str] = field(default_factory=dict)
