"""Boards and their power modes, as data sheets describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WHOLE_BOARD_LIMIT_FRAC, WHOLE_BOARD_LIMIT_LOG_SD = 0.95, 0.03
"""[prior] mean power of a limited board over its limit, 0.9 to 1: a regulator keeps peaks below the limit too."""


@dataclass(frozen=True, slots=True)
class PowerMode:
    """A power mode of a board: peak rates of its memory and compute units. None means that no source gives the rate."""

    key: str
    bandwidth_byte_s: float  # peak DRAM bandwidth
    compute_op_s: float | None = None  # peak rate; a multiply-add counts as 2 operations
    clock_hz: float | None = None
    power_limit_w: float | None = None
    vector_op_s: float | None = None  # of the unit's vector lanes; a 32-bit multiply-add counts as 2 operations
    cpu_vector_op_s: float | None = None  # of the CPU's vector lanes, where another unit decodes
    cpu_bandwidth_byte_s: float | None = None  # measured read bandwidth of the CPU, where another unit decodes
    bandwidth_log_sd: float = 0.0  # > 0 where the bandwidth is assumed, in this mode only
    vector_log_sd: float = 0.0  # > 0 where the rate of the vector lanes that unpack weights is assumed


@dataclass(frozen=True, slots=True)
class Board:
    """A board as its data sheet describes it. `sources` gives the source of each number by field name."""

    key: str
    name: str
    unit: str  # the unit that decodes: "cpu", "gpu" or "npu"
    power_modes: Mapping[str, PowerMode]  # the first one is the default
    memory_byte: float | None = None
    most_memory_byte: float | None = None  # of its largest version, where versions differ in memory only
    available_byte: float | None = None  # memory that programs can have, as the attached board reports it
    idle_power_w: float | None = None
    system_energy_j_byte: float | None = None  # energy per byte moved during decode, on `power_rail`
    system_energy_log_sd: float = 0.35
    energy_assumed: bool = False  # whether the energy per byte is a prior of the unit, not of this board
    power_rail: str = ""  # the part of the board that power readings cover
    rail_limit_frac: float = WHOLE_BOARD_LIMIT_FRAC  # share of a power limit of the board that `power_rail` gets
    rail_limit_log_sd: float = WHOLE_BOARD_LIMIT_LOG_SD
    bandwidth_log_sd: float = 0.0  # > 0 where the peak bandwidth is assumed, as on a machine not yet measured
    integer_speedup: float = 1.0  # integer rate of a GPU's lanes over that of Apple M1 or Ampere
    fp8_speedup: float = 1.0  # rate of the matrix units in 8-bit floats over `compute_op_s`, which is of 16 bits
    fp4_speedup: float = 1.0  # the same for 4-bit floats
    instruction_set: str = ""  # that `published_beta` is of; "" where no table has the board
    published_beta: float | None = None  # printed instruction-set factor relative to ARM SVE2
    kv_prefetch: str = ""  # whether the KV cache is prefetched, as printed: "yes", "unrolled by hand"; "" is unknown
    on_chip_byte_s: float | None = None  # bandwidth of the on-chip memory
    sparse_patterns: tuple[str, ...] = ()  # patterns of zero weights that its matrix units read compressed
    identify: tuple[str, ...] = ()  # patterns of the names that such a board reports, see `core.catalogue.identify`
    listed: bool = False  # whether the catalogue has it: `Runtime.runs_on` decides for listed boards only
    data_sheet: str = ""  # key of the board whose data sheet describes an attached one; "" where none was found
    sources: Mapping[str, str] = field(default_factory=dict)
