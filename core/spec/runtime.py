"""Runtimes: priors of their cost parameters, and the knobs they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OWN_RUNTIME = "builtin"
"""Trilemma's own decoder, of which no table of published measurements speaks."""


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
    """A runtime on a kind of unit: the priors of its cost parameters (docs/physics.md M1) and the knobs it can take."""

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
