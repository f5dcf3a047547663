"""Runtimes: priors of their cost parameters, and the knobs they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.spec.parameters import Prior

OWN_RUNTIME = "builtin"
"""Trilemma's own decoder, of which no table of published measurements speaks."""

UNITS = ("cpu", "gpu", "npu")
RUNTIME_CLASSES = (*UNITS, "compiled_gpu")
"""Runtimes of a class have priors in common: those of a unit, but for those on a GPU whose kernels are generated or
written for it, which unpack weights at little cost."""


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
    """A runtime on a kind of unit: the priors of its cost parameters (docs/physics.md M1) and the knobs it can take."""

    key: str
    name: str
    unit: str  # one of `UNITS`, that it runs on
    priors: Mapping[str, Prior]  # by name, of each of `core.spec.PARAMETERS`
    ratios: Mapping[str, Prior] = field(default_factory=dict)  # "eta.int8": to formats that are known to differ
    short_name: str = ""  # for narrow fields; "" means as `name`
    called: tuple[str, ...] = ()  # regular expressions of what it and the programs built on it are called
    others_build_on_it: bool = False  # where a name means such another runtime too, it means that one
    classes: tuple[str, ...] = ()  # of `RUNTIME_CLASSES`, that it may be of; empty means that of its unit
    format_log_sd: float = 0.15  # how unequal its kernels for different weight formats are: log-sd of eta between them
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
    graph_tokens: float = 0.0  # context that such graphs are compiled for and read all of; 0: they read what is cached
    prompt_half_width: float = 0.0  # hidden size at which a prompt's products reach half of the rate of wide ones
    reselection: ReselectionCost | None = None  # None where it cannot re-select
    knobs: tuple[str, ...] = ()  # of OperatingPoint fields that it can really apply
    runs_on: tuple[str, ...] = ()  # patterns of the keys of boards that it runs on; empty: of any with its unit
    takes: tuple[str, ...] = ()  # patterns of the weight formats that it takes; empty: any
    smaller_weights: tuple[str, ...] = ()  # weight formats worth trying, most bits first
    smaller_kv: tuple[str, ...] = ()  # KV formats worth trying, most bits first
    usual_kv: str = "bf16"  # KV format of a published measurement that does not give it
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def on_cpu(self) -> bool:
        """Whether it runs on the CPU."""
        return self.unit == "cpu"

    @property
    def possible_classes(self) -> tuple[str, ...]:
        """The classes of runtimes that it may be of, the likeliest first."""
        return self.classes or (self.unit,)
