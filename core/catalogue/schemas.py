"""Schemas of the TOML files, one struct per table: keys, types and ranges. Numbers are in the unit of their name.

Unknown keys are refused. Files have no key ``key``: the key of a record is the name of its file.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, defstruct, field

from core.spec import POLICIES
from core.spec.board import WHOLE_BOARD_LIMIT_FRAC, WHOLE_BOARD_LIMIT_LOG_SD


def within(low: float, high: float) -> Meta:
    """Return the closed range of a number."""
    return Meta(ge=low, le=high)


AT_LEAST_ONE = Meta(min_length=1)


class Table(Struct, forbid_unknown_fields=True):
    """A table of a file. In tables with `sources`, the keys of `needs_source` need a source, as all numbers do."""

    needs_source: ClassVar[tuple[str, ...]] = ()

    def values(self) -> dict[str, Any]:
        """Return the values by name, `sources` left out."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "sources"}


class Sourced(Table, kw_only=True):
    """A table in which each number has a source."""

    sources: dict[str, str] = {}


# --- formats.toml -----------------------------------------------------------------------------------------------------


class WeightFormatTable(Table):
    """A format of weights; one source covers the table."""

    name: str
    bits_per_weight: Annotated[float, within(1.0, 32.0)]
    head_bits_per_weight: Annotated[float, within(1.0, 32.0)]
    needs_unpacking: bool
    source: str
    importance_matrix: bool = False
    accuracy_only: bool = False
    products: Literal["", "fp8", "fp4"] = ""


class KvFormatTable(Table):
    """A format of the KV cache; one source covers the table."""

    bits_per_value: Annotated[float, within(1.0, 32.0)]
    name: str
    source: str


class FormatsTable(Table):
    """Formats by key."""

    weights: dict[str, WeightFormatTable]
    kv: dict[str, KvFormatTable]


# --- held_out.toml ----------------------------------------------------------------------------------------------------

Quantiles = Annotated[tuple[Annotated[float, within(0.0, 1000.0)], ...], AT_LEAST_ONE]


class HeldOutTable(Table):
    """Ascending quantiles of held-out errors by quantity and bucket."""

    source: str
    decode_s: dict[str, Quantiles]
    ttft_s: dict[str, Quantiles]


# --- memory_reserve.toml ----------------------------------------------------------------------------------------------


class MemoryReserve(Table):
    """What a class of boards keeps of its memory: `usable_frac` of it less `system_byte` can be had."""

    LARGEST_BYTE: ClassVar[float] = 1e14

    words: str
    source: str
    boards: tuple[str, ...] = ()  # patterns of name or key in small letters, blanks for underscores; () is any
    units: tuple[Literal["cpu", "gpu", "npu"], ...] = ()  # that decode; () is any
    up_to_byte: Annotated[float, within(1e6, 1e14)] = LARGEST_BYTE
    usable_frac: Annotated[float, within(0.1, 1.0)] = 1.0
    system_byte: Annotated[float, within(0.0, 1e11)] = 0.0
    own_memory: bool = False  # of a card, so that what the system says of its memory is not that


class SmallMemory(Table):
    """The share of a memory that its system takes at most."""

    most_system_frac: Annotated[float, within(0.0, 1.0)]
    source: str


class MemoryReserveTable(Table):
    """What boards keep of their memory, the first that fits."""

    small: SmallMemory
    reserve: Annotated[tuple[MemoryReserve, ...], AT_LEAST_ONE]


# --- boards/*.toml ----------------------------------------------------------------------------------------------------


class PowerModeTable(Sourced):
    """A power mode of a board."""

    bandwidth_byte_s: Annotated[float, within(1e8, 1e14)]
    compute_op_s: Annotated[float, within(1e8, 1e17)] | None = None
    clock_hz: Annotated[float, within(1e6, 1e11)] | None = None
    power_limit_w: Annotated[float, within(0.1, 1e4)] | None = None
    vector_op_s: Annotated[float, within(1e8, 1e17)] | None = None
    cpu_vector_op_s: Annotated[float, within(1e8, 1e17)] | None = None


class PowerClass(Struct, forbid_unknown_fields=True, frozen=True):
    """Energy per byte of a class of boards without a source of their own."""

    words: str
    source: str
    energy_j_byte: Annotated[float, within(1e-12, 1e-6)]
    log_sd: Annotated[float, within(0.0, 3.0)]
    boards: tuple[str, ...] = ()  # patterns of name or key in small letters, blanks for underscores; () is any
    units: tuple[Literal["cpu", "gpu", "npu"], ...] = ()  # that decode; () is any


class PowerPriorsTable(Struct, forbid_unknown_fields=True, frozen=True):
    """Classes of boards, of which the first that fits counts."""

    classes: Annotated[tuple[PowerClass, ...], AT_LEAST_ONE] = field(name="class")


class BoardTable(Sourced):
    """A board."""

    needs_source: ClassVar[tuple[str, ...]] = ("identify", "instruction_set", "kv_prefetch", "sparse_patterns")

    unit: Literal["cpu", "gpu", "npu"]
    power_modes: Annotated[dict[str, PowerModeTable], AT_LEAST_ONE]
    name: str
    memory_byte: Annotated[float, within(1e6, 1e14)] | None = None
    most_memory_byte: Annotated[float, within(1e6, 1e14)] | None = None
    idle_power_w: Annotated[float, within(0.0, 1e4)] | None = None
    system_energy_j_byte: Annotated[float, within(1e-12, 1e-6)] | None = None
    system_energy_log_sd: Annotated[float, within(0.0, 3.0)] = 0.35
    power_rail: str = ""
    rail_limit_frac: Annotated[float, within(0.05, 1.0)] = WHOLE_BOARD_LIMIT_FRAC
    rail_limit_log_sd: Annotated[float, within(0.0, 3.0)] = WHOLE_BOARD_LIMIT_LOG_SD
    bandwidth_log_sd: Annotated[float, within(0.0, 3.0)] = 0.0
    integer_speedup: Annotated[float, within(1.0, 8.0)] = 1.0
    fp8_speedup: Annotated[float, within(1.0, 8.0)] = 1.0
    fp4_speedup: Annotated[float, within(1.0, 8.0)] = 1.0
    instruction_set: str = ""
    published_beta: Annotated[float, within(1e-3, 1e3)] | None = None
    kv_prefetch: str = ""
    on_chip_byte_s: Annotated[float, within(1e9, 1e16)] | None = None
    sparse_patterns: tuple[Literal["2:4"], ...] = ()
    identify: tuple[str, ...] = ()


# --- models/*.toml ----------------------------------------------------------------------------------------------------

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
ParameterCount = Annotated[float, within(1e3, 1e14)]


class CachingLayersTable(Table):
    """Layers whose KV caches are alike."""

    n_layers: Count
    n_kv_heads: Count
    key_dim: Count
    value_dim: Annotated[int, Meta(ge=0, le=10_000_000)]
    window_tokens: Annotated[float, within(0.0, 1e7)] = 0.0
    batch_tokens: Annotated[float, within(0.0, 1e7)] = 0.0


class ModelTable(Sourced):
    """A decoder-only transformer. Missing numbers of parameters follow from its shape."""

    needs_source: ClassVar[tuple[str, ...]] = ("aliases", "weight_byte_by_format", "cache_groups")

    n_layers: Count
    hidden_size: Count
    n_heads: Count
    n_kv_heads: Count
    head_dim: Count
    intermediate_size: Count
    vocab_size: Count
    max_context_tokens: Count
    tied_embeddings: bool
    name: str
    body_params: ParameterCount | None = None
    total_params: ParameterCount | None = None
    weight_byte_by_format: dict[str, Annotated[float, within(1e3, 1e14)]] = {}
    reference_format: str = ""
    n_attention_layers: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None
    n_window_layers: Count | None = None
    window_tokens: Count | None = None
    cache_groups: tuple[CachingLayersTable, ...] = ()
    cache_bound: str = ""
    aliases: tuple[str, ...] = ()
    degradation_scale: Annotated[float, within(0.01, 100.0)] | None = None
    degradation_scale_log_sd: Annotated[float, within(0.0, 3.0)] = 0.5  # a factor of 2.3 either way at 90 %


# --- runtimes/*.toml --------------------------------------------------------------------------------------------------


class PriorTable(Table, kw_only=True):
    """A prior, without its `median`, whose range depends on the parameter; one source covers the table."""

    log_sd: Annotated[float, within(0.0, 3.0)]
    source: str


def prior_table(low: float, high: float) -> type[Struct]:
    """Return the schema of a prior with a range of its median."""
    return defstruct("PriorOf", [("median", Annotated[float, within(low, high)])], bases=(PriorTable,), kw_only=True)


def by_policy(high: float) -> type[Struct]:
    """Return the schema of a table with one number per pruning policy."""
    return defstruct("ByPolicy", [(name, Annotated[float, within(0.0, high)]) for name in POLICIES], bases=(Table,))


class ReselectionTable(Table):
    """Terms of the cost of KV token re-selection that do not depend on the policy; one source covers the table."""

    copy: dict[str, Annotated[float, within(0.0, 1e4)]]
    read: dict[str, Annotated[float, within(0.0, 1e4)]]
    log_sd: Annotated[float, within(0.0, 3.0)]
    source: str


Factors = dict[str, tuple[Annotated[float, within(1e-6, 20.0)], Annotated[float, within(1e-6, 20.0)]]]


class RuntimeTable(Sourced, kw_only=True):
    """A runtime, without the tables of its cost parameters; a factor of a model is a median and a log-sd."""

    needs_source: ClassVar[tuple[str, ...]] = (
        *("called", "classes", "static_graph", "usual_kv", "smaller_weights", "smaller_kv", "refuses", "abilities"),
        *("model_factor", "prompt_factor"),
    )

    name: str
    unit: str
    short_name: str = ""
    called: tuple[str, ...] = ()
    others_build_on_it: bool = False
    classes: tuple[str, ...] = ()
    format_log_sd: Annotated[float, within(0.0, 3.0)] = 0.15
    model_log_sd: Annotated[float, within(0.0, 3.0)] = 0.12
    model_factor: Factors = {}
    prompt_log_sd: Annotated[float, within(0.0, 3.0)] = 0.0
    prompt_factor: Factors = {}
    size_log_sd: Annotated[float, within(0.0, 3.0)] = 0.0
    repeat_log_sd: Annotated[float, within(0.001, 3.0)] = 0.03
    prompt_chunk_tokens: Annotated[float, within(0.0, 1e6)] = 0.0
    static_graph: bool = False
    graph_tokens: Annotated[float, within(0.0, 1e7)] = 0.0
    prompt_half_width: Annotated[float, within(0.0, 1e5)] = 0.0
    knobs: tuple[str, ...]
    abilities: tuple[str, ...] = ()
    runs_on: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    refuses: dict[str, tuple[str, ...]] = {}
    takes_kv: tuple[str, ...] = ()
    smaller_weights: tuple[str, ...] = ()
    smaller_kv: tuple[str, ...] = ()
    usual_kv: str = "bf16"


# --- cells/*.toml, thermal/*.toml, dvfs/*.toml, scenarios/*.toml ------------------------------------------------------


class CellTable(Sourced):
    """A battery cell; `ocv` is the CSV file of its open-circuit voltage."""

    needs_source: ClassVar[tuple[str, ...]] = ("ocv",)

    ocv: str
    rc_ohm: Annotated[tuple[Annotated[float, within(0.0, 100.0)], ...], AT_LEAST_ONE]
    rc_s: Annotated[tuple[Annotated[float, within(1e-3, 1e6)], ...], AT_LEAST_ONE]
    name: str
    chemistry: str
    charge_c: Annotated[float, within(1.0, 1e7)]
    cutoff_v: Annotated[float, within(0.5, 5.0)]
    r0_ohm: Annotated[float, within(1e-6, 100.0)]


class CoolingTable(Sourced):
    """A cooling: its step response as resistances and time constants."""

    name: str
    resistance_k_w: Annotated[tuple[Annotated[float, within(1e-3, 1e3)], ...], AT_LEAST_ONE]
    tau_s: Annotated[tuple[Annotated[float, within(1e-3, 1e5)], ...], AT_LEAST_ONE]


class SpreaderTable(Sourced):
    """The plate that spreads the heat of a chip."""

    name: str
    width_m: Annotated[float, within(1e-3, 1.0)]
    height_m: Annotated[float, within(1e-3, 1.0)]
    thickness_m: Annotated[float, within(1e-5, 0.1)]
    conductivity_w_mk: Annotated[float, within(0.1, 3000.0)]
    volumetric_heat_j_m3k: Annotated[float, within(1e5, 1e7)]
    chip_m: Annotated[float, within(1e-3, 0.1)]


Temperature = Annotated[float, within(0.0, 150.0)]
Clock = Annotated[float, within(1e6, 1e11)]


class ThrottleTable(Sourced, kw_only=True):
    """Throttling of a board."""

    name: str
    kind: Literal["allocator", "caps"]
    shutdown_temp_c: Annotated[float, within(40.0, 200.0)] | None = None
    top_clock_hz: Clock | None = None


class AllocatorTable(ThrottleTable):
    """The power allocator of Linux."""

    switch_on_temp_c: Temperature
    target_temp_c: Temperature


class CapsTable(ThrottleTable):
    """Clocks capped above trip temperatures."""

    trip_temp_c: Annotated[tuple[Temperature, ...], AT_LEAST_ONE]
    max_clock_hz: Annotated[tuple[Clock, ...], AT_LEAST_ONE]
    hysteresis_k: Annotated[float, within(0.0, 50.0)]


class DvfsFile(Sourced):
    """DVFS levels of a unit: voltages, or powers and throughputs, one for each clock."""

    clock_hz: Annotated[tuple[Annotated[float, within(1.0, 1e12)], ...], AT_LEAST_ONE]
    name: str
    board: str = ""
    unit: str = ""
    voltage_v: Annotated[tuple[Annotated[float, within(1e-9, 10.0)], ...], AT_LEAST_ONE] = ()
    power_w: Annotated[tuple[Annotated[float, within(1e-9, 1e5)], ...], AT_LEAST_ONE] = ()
    throughput: Annotated[tuple[Annotated[float, within(1e-9, 1e12)], ...], AT_LEAST_ONE] = ()
    throughput_unit: str = "1/s"


class ScenarioTable(Table, kw_only=True):
    """Limits of an application."""

    name: str
    min_accuracy_frac: Annotated[float, within(0.0, 0.999999)]
    max_latency_s: Annotated[float, within(1e-9, 1e6)]
    max_energy_j: Annotated[float, within(1e-12, 1e9)]
    energy_weight: Annotated[float, within(1e-3, 1e3)] = 1.0


class PublishedScenario(ScenarioTable, kw_only=True):
    """A published application."""

    sources: dict[str, str] = {}


class OwnScenario(ScenarioTable):
    """The user's application."""

    source: str = ""


# --- files of the user ------------------------------------------------------------------------------------------------


class PhaseRow(Table):
    """A phase of a workload."""

    seconds: Annotated[float, within(1e-3, 1e7)]
    load_frac: Annotated[float, within(0.0, 1.0)]


class WorkloadFile(Table):
    """A workload: phases that repeat."""

    phase: Annotated[tuple[PhaseRow, ...], AT_LEAST_ONE]
    name: str = ""


class GraphFile(Table):
    """A graph of operations on equal workers; the keys of an operation depend on its formula."""

    operation: Annotated[tuple[dict[str, Any], ...], AT_LEAST_ONE]
    name: str = ""
    n_workers: Annotated[int, within(1, 1024)] = 1
    deadline_s: Annotated[float, within(0.0, 1e9)] = math.inf
    default: dict[str, Any] = {}
    memory: dict[str, Annotated[float, within(1.0, 1e18)]] = {}
    formula: dict[str, str] = {}


class OperationRow(Table, kw_only=True):
    """An operation, without the keys of its length."""

    name: str
    after: tuple[str, ...] = ()
    memory_frac: Annotated[float, within(0.0, 1.0)] = 0.0
    memory: str = ""
    formula: str = ""


class PlainOperation(OperationRow):
    """An operation with a given length."""

    length_s: Annotated[float, within(0.0, 1e9)]


class StageRow(Table):
    """A stage of a chain."""

    name: str
    length: Annotated[float, within(1e-12, 1e12)]
    overlap: Annotated[float, within(0.0, 1e12)] = 0.0


class ChainFile(Table):
    """A pipeline of stages with one engine each."""

    stage: Annotated[tuple[StageRow, ...], AT_LEAST_ONE]
    name: str = ""
    n_items: Annotated[int, within(1, 1_000_000)] = 1
    unit: str = "s"


class TaskRow(Table):
    """A task of fixed priority."""

    name: str
    cost_s: Annotated[float, within(1e-9, 1e4)]
    period_s: Annotated[float, within(1e-9, 1e5)]
    deadline_s: Annotated[float, within(0.0, 1e5)] = 0.0
    jitter_s: Annotated[float, within(0.0, 1e5)] = 0.0
    section_s: Annotated[float, within(0.0, 1e4)] = 0.0


class TasksFile(Table):
    """Tasks on one processor, the first with the highest priority."""

    task: Annotated[tuple[TaskRow, ...], AT_LEAST_ONE]
    name: str = ""
    switch_s: Annotated[float, within(0.0, 1.0)] = 0.0
