"""What can be described: boards, models, formats, runtimes, operating points, and the estimates made of them.

Everything here is a frozen value in SI units. The numeric fields of `OperatingPoint` may be arrays that broadcast
against each other, so that one call of `core.predict.scenario.predict` evaluates a whole sweep; the named fields are
scalars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from core.spec.interval_scale import UNSCALED, HeldOut, IntervalScale
from core.spec.suggestions import instead

Array = float | NDArray[np.float64]
"""A number, or an array that broadcasts against the others of the same call."""


OWN_RUNTIME = "builtin"
"""Trilemma's own decoder, of which no table of published measurements speaks."""


class Provenance(StrEnum):
    """Where a number comes from. It travels with the value through protocol, store, screen, export and report."""

    MEASURED = "measured"  # read off the board
    CALIBRATED = "calibrated"  # model fitted to this board
    PREDICTED = "predicted"  # model with priors only
    PUBLISHED = "published"  # somebody's table, with its source
    SIMULATED = "simulated"  # a simulated board
    AS_PUBLISHED = "as_published"  # an article's formula that fails a check


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 90 % interval (5 % and 95 % quantiles) and its provenance; the unit is in its field's name."""

    median: Array
    q05: Array
    q95: Array
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Absent:
    """A value that does not exist, with the reason in words a user can act on. Never 0."""

    reason: str


Output = Estimate | Absent


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


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only transformer, as far as speed, memory and accuracy need it."""

    key: str
    name: str
    n_layers: int
    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tied_embeddings: bool
    body_params: float  # parameters read per token, without embedding and head (MoE: of the active experts)
    head_params: float  # output head
    total_params: float  # all that must fit in memory
    max_context_tokens: int
    degradation_scale: float = 1.0  # s_model of models.md M5: sensitivity to quantisation relative to Llama-3-8B
    degradation_scale_log_sd: float = 0.5
    weight_byte_by_format: Mapping[str, float] = field(default_factory=dict)  # exact bytes read per token, from a file
    reference_format: str = ""  # accuracy is relative to this format when the model comes from a file
    n_attention_layers: int | None = None  # layers that have a KV cache, where not all do
    n_window_layers: int = 0  # of them, those that attend to and keep only the newest tokens
    window_tokens: float = 0.0  # how many those keep
    aliases: tuple[str, ...] = ()  # other names that it goes by
    depth_log_sd: float = 0.0  # > 0 where the number of layers is a guess
    cache_log_sd: float = 0.0  # > 0 where the size of the KV cache is
    read_log_sd: float = 0.0  # > 0 where the parameters read per token are
    body_log_sd: float = 0.0  # > 0 where the share of them that prompts read at every token is
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_caching_layers(self) -> int:
        """Layers that attend to a KV cache; the others of a hybrid model carry a state of fixed size."""
        return self.n_layers if self.n_attention_layers is None else self.n_attention_layers


PRODUCTS = ("", "fp8", "fp4")
"""What a format's products are of: 16 bits, or small floats."""


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored. `bits_per_weight` includes scales and zero points."""

    key: str
    name: str
    bits_per_weight: float
    head_bits_per_weight: float
    needs_unpacking: bool  # 4..6-bit formats pay rho
    importance_matrix: bool = False
    accuracy_only: bool = False  # no runtime has a kernel for it: it has no speed
    products: str = ""  # one of `PRODUCTS`: activations are rounded to it too, for matrix units that take it
    source: str = ""


@dataclass(frozen=True, slots=True)
class KvFormat:
    """How the KV cache is stored. `bits_per_value` includes scales."""

    key: str
    name: str
    bits_per_value: float
    source: str = ""


@dataclass(frozen=True, slots=True)
class Prior:
    """A log-normal prior: median in SI units and standard deviation of the natural logarithm."""

    median: float
    log_sd: float


@dataclass(frozen=True, slots=True)
class ReselectionCost:
    """What choosing anew which cached tokens are read costs in a runtime; its parts add up.

    `copy`, `read` and `score` are in units of reading elements of 16 bits at the peak bandwidth: the keys and values
    that are copied together, all keys, and these once for each query head, which is the work of products and softmax.
    """

    layer_s: Mapping[str, float]  # of each layer, whatever the context, by policy
    copy: Mapping[str, float]  # of the kept tokens, where the layout is compacted, by KV format
    read: Mapping[str, float]  # of the keys, for a policy that scores all of them at once, by KV format
    score: Mapping[str, float]  # of the scores, by policy; 0 for one that scores tokens as they come
    log_sd: float  # of the whole

    def of_format(self, of: Mapping[str, float], kv: str) -> float:
        """Return what `copy` or `read` has for a KV format: for one that it does not know, the mean of the others."""
        return of[kv] if kv in of else sum(of.values()) / len(of)


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime on a kind of unit: the priors of its cost parameters (models.md M1) and the knobs it can take."""

    key: str
    name: str
    eta: Prior  # true DRAM efficiency, share of the peak bandwidth
    kappa: Prior  # how much dearer a KV byte is than a weight byte
    rho: Prior  # unpacking time in units of reading 4-bit weights at peak
    t_layer_s: Prior  # launch and synchronisation per layer
    t_token_s: Prior  # of choosing a token from a vocabulary of `core.physics.latency.USUAL_VOCABULARY` entries
    eta_compute: Prior  # share of the peak compute rate reached in prefill
    t_layer_prefill_s: Prior  # launch and synchronisation per layer in prefill
    format_log_sd: float = 0.15  # how unequal its kernels for different weight formats are: log-sd of eta between them
    format_eta: Mapping[str, Prior] = field(default_factory=dict)  # by weight format, where eta is known to differ
    format_kappa: Mapping[str, Prior] = field(default_factory=dict)  # by KV format, the same of kappa
    model_log_sd: float = 0.12  # between models on one board: kernel coverage of an architecture
    model_factor: Mapping[str, Prior] = field(
        default_factory=dict
    )  # on decode times, of models known from other boards
    prompt_log_sd: float = 0.0  # between models' times to first token; 0 means as `model_log_sd`
    prompt_factor: Mapping[str, Prior] = field(default_factory=dict)  # on times to first token
    size_log_sd: float = 0.0  # of what models of similar size have in common beyond the equations
    repeat_log_sd: float = 0.03  # of a new run of a model seen on the board, beyond what its parameters explain
    prompt_chunk_tokens: float = 0.0  # of a prompt that it takes at once; 0 means all
    static_graph: bool = False  # compiled: computes the head for all tokens, all experts, and heads one by one
    graph_tokens: float = 0.0  # context that such graphs are compiled for; 0: they attend to what is cached
    prompt_half_width: float = 0.0  # hidden size at which a prompt's products reach half of the rate of wide ones
    reselection: ReselectionCost | None = None  # None where it cannot re-select
    knobs: tuple[str, ...] = ()  # of OperatingPoint fields that it can really apply
    runs_on: tuple[str, ...] = ()  # patterns of the keys of boards that it runs on; empty: of any with its unit
    takes: tuple[str, ...] = ()  # patterns of the weight formats that it takes; empty: any
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def on_cpu(self) -> bool:
        """Whether it runs on the CPU, as its key says."""
        return self.key == OWN_RUNTIME or self.key.endswith("_cpu")


POLICIES = (
    "sinks_recent",
    "key_norm",
    "attention_mass",
    "snapkv",
    "expected_attention",
    "page_bounds",
    "rope_sensitivity",
)
"""Which cached tokens a pruning keeps (the method)."""

LAYOUTS = ("compacted", "paged", "masked")
"""How the kept tokens lie in memory: it decides how many bytes pruning really saves."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One point of the design space. Sliders write it; predictions, measurements and presets read it. Batch is 1.

    `bandwidth_byte_s` None means the board's own (its power mode's peak, or what was measured on it).
    `alpha` is the share of cached tokens removed, 0 <= alpha < 1; which ones is chosen anew every `reselect_tokens`
    generated tokens, 0 meaning once, behind the prompt; `beta` is the speed-up of compute and unpacking
    relative to the board's default instruction set, > 0.
    """

    board: str = "this"
    runtime: str = OWN_RUNTIME
    power_mode: str = ""  # "" is the board's default
    model: str = "smollm2-135m"
    weights: str = "int4"
    kv: str = "bf16"
    policy: str = "attention_mass"
    layout: str = "compacted"
    head: str = ""  # weight format of the output head; "" is the one that `weights` gives it
    context_tokens: Array = 1024.0
    alpha: Array = 0.0
    reselect_tokens: Array = 0.0
    beta: Array = 1.0
    bandwidth_byte_s: Array | None = None
    graph_tokens: float = 0.0  # context that the prompt's graphs were compiled for; 0 is what its runtime's usually are


NUMERIC = ("context_tokens", "alpha", "reselect_tokens", "beta", "bandwidth_byte_s")
"""The fields of `OperatingPoint` that may be arrays."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """All outputs of one operating point (or a broadcast array of them)."""

    decode_s: Output  # time per generated token
    ttft_s: Output  # time to first token of a prompt of context_tokens
    power_w: Output
    energy_j_per_token: Output
    perplexity_ratio: Output  # perplexity over that of the reference format without pruning, >= 1
    top1_agreement: Output  # share of tokens whose most likely next token is the reference's, 0..1
    memory_byte: Output  # weights plus kept KV
    parts_s: Mapping[str, Array]
    """Decode time by term: weights, kv, unpack, compute (its excess), layers, token, reselection; {} where absent."""
    binding: NDArray[np.str_] | str  # "memory" or "compute"; "" where the decode time is absent
    outside: tuple[str, ...] = ()  # sentences: which input is outside the range the model is valid for


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that an operating point can name, by key."""

    boards: Mapping[str, Board]
    models: Mapping[str, ModelShape]
    runtimes: Mapping[str, Runtime]
    weight_formats: Mapping[str, WeightFormat]
    kv_formats: Mapping[str, KvFormat]
    published: Mapping[tuple[str, str, str], Posterior] = field(default_factory=dict)
    """What published measurements teach, by board, runtime and power mode."""
    held_out: HeldOut | None = None
    benched: Mapping[tuple[str, str], Runtime] = field(default_factory=dict)
    """A runtime as the bench of a board's kernels found it there, by board and runtime: it holds for no other board."""

    def resolve(self, point: OperatingPoint) -> ResolvedPoint:
        """Look up what a point names; `ValueError` says which key is unknown and which ones exist."""
        board = _named("board", point.board, self.boards)
        mode = point.power_mode or next(iter(board.power_modes))
        heads = {key: each for key, each in self.weight_formats.items() if not each.accuracy_only}
        described = _named(f"power mode of {board.key}", mode, board.power_modes)
        runtime = _named("runtime", point.runtime, self.runtimes)
        runtime = self.benched.get((board.key, runtime.key), runtime)
        if runtime.on_cpu and board.unit != "cpu":
            board, described = replace(board, unit="cpu"), _of_cores(described)
        return ResolvedPoint(
            board,
            described,
            runtime,
            _named("model", point.model, self.models),
            _named("weight format", point.weights, self.weight_formats),
            _named("KV format", point.kv, self.kv_formats),
            self.weight_formats.get(self.models[point.model].reference_format),
            _named("weight format of the head", point.head, heads) if point.head else None,
        )


@dataclass(frozen=True, slots=True)
class ResolvedPoint:
    """What the keys of an operating point name."""

    board: Board
    mode: PowerMode
    runtime: Runtime
    model: ModelShape
    weights: WeightFormat
    kv: KvFormat
    reference: WeightFormat | None  # what accuracy is relative to when the model comes from a file
    head: WeightFormat | None = None  # of the output head, where it is not the one that `weights` gives it


def _of_cores(mode: PowerMode) -> PowerMode:
    """Return a mode of a board whose GPU or NPU decodes as a runtime on its CPU meets it: its rates are the cores'."""
    rate = mode.cpu_vector_op_s
    bandwidth = mode.cpu_bandwidth_byte_s or mode.bandwidth_byte_s
    return replace(mode, bandwidth_byte_s=bandwidth, compute_op_s=rate, vector_op_s=rate, clock_hz=None)


_Described = TypeVar("_Described")


def _named(kind: str, key: str, known: Mapping[str, _Described]) -> _Described:
    try:
        return known[key]
    except KeyError:
        raise ValueError(f"{kind} {key!r} is unknown; {instead(kind, key, known)}") from None


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is known of the cost parameters of a board, runtime and power mode: a Gaussian in their natural logarithms.

    Parameters are the priors of `Runtime` ("eta", "kappa", "rho", "t_layer_s", ..., in its units), and ratios to them,
    median 1 unless taught otherwise: "eta.int4" (of a weight format), "kappa.int8" (of a KV format),
    "eta_compute.int4", "model.smollm2-135m" and "prompt.smollm2-135m" (factors on one model's decode time and time to
    first token), "size.0", ... (what models of similar size share), those of accuracy (`core.predict.accuracy`), and
    "energy_j_byte" and "static_power_w" (energy per byte moved, and power beside it) once they were measured.
    `core.predict.parameters.prior` makes the one that no measurement has taught.
    """

    board: str
    runtime: str
    power_mode: str
    names: tuple[str, ...]
    log_mean: NDArray[np.float64]  # shape (n_parameters,)
    log_cov: NDArray[np.float64]  # shape (n_parameters, n_parameters)
    bandwidth_byte_s: float  # the bandwidth that eta is a share of; predictions that name none use it
    decode_log_sd: float  # a new measurement of decode_s about its prediction, beyond the parameters
    ttft_log_sd: float
    degradation_log_sd: float = 0.1  # of a measured divergence from the reference
    top1_log_sd: float = 0.1  # of ln(top-1 agreement)
    energy_log_sd: float = 0.15  # of the energy of a token: between models on one board and rail
    power_covers: str = ""  # what the measured power covers; "" while the board's own `power_rail` is meant
    idle_power_w: float | None = None  # of the idle board, measured on the same rail
    reselection: ReselectionCost | None = None  # of KV token re-selection, where that was measured
    n_decode: int = 0  # measurements that taught it, by output: 0 leaves that output "predicted"
    n_ttft: int = 0
    n_quality: int = 0
    n_energy: int = 0
    interval_scale: IntervalScale = UNSCALED
    interval_scale_basis: str = ""  # why intervals are wider or narrower than the model's own, as a sentence
    basis: str = ""  # what it was learned from, as a phrase, where that was not this machine's measurements
