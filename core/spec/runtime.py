"""Runtimes: priors of their cost parameters, and their knobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from core.spec.board import Board
from core.spec.parameters import Prior

OWN_RUNTIME = "builtin"
"""Trilemma's own decoder. No published table has rows of it."""

ABILITIES = ("adapters", "2:4")
"""What a runtime may be able to do that no run switches: low-rank adapters, and patterns of zero weights."""

UNITS = ("cpu", "gpu", "npu")
RUNTIME_CLASSES = (*UNITS, "compiled_gpu")
"""Runtimes of a class share priors. A class is a unit; runtimes on a GPU whose kernels are generated or written for it
are a class of their own, since they unpack weights at little cost."""


@dataclass(frozen=True, slots=True)
class ReselectionCost:
    """Cost of one KV token re-selection in a runtime, as terms that add up (`core.physics.latency.reselection_parts`).

    `copy`, `read` and `score` are factors on the time of reading 16-bit elements at the peak bandwidth. The elements
    are the keys and values that are compacted, all keys, and all keys once per query head (products and softmax).
    """

    layer_s: Mapping[str, float]  # per layer at any context, by policy
    copy: Mapping[str, float]  # of the kept tokens in the compacted layout, by KV format
    read: Mapping[str, float]  # of the keys, for policies that score all tokens at once, by KV format
    score: Mapping[str, float]  # of the scores, by policy; 0 for policies that score tokens as they arrive
    log_sd: float  # of the sum

    def of_format(self, of: Mapping[str, float], kv: str) -> float:
        """Return the value of `copy` or `read` for a KV format; the mean of the others for an unknown one."""
        return of[kv] if kv in of else sum(of.values()) / len(of)


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime on a kind of unit: the priors of its cost parameters (docs/physics.md M1) and its knobs."""

    key: str
    name: str
    unit: str  # one of `UNITS`
    priors: Mapping[str, Prior]  # of the cost parameters, by name
    ratios: Mapping[str, Prior] = field(default_factory=dict)  # "eta.int8": of formats with a prior of their own
    short_name: str = ""  # for narrow fields; "" means `name`
    called: tuple[str, ...] = ()  # regular expressions of its names and of programs built on it
    others_build_on_it: bool = False  # a name that matches another runtime as well means the other one
    classes: tuple[str, ...] = ()  # possible ones of `RUNTIME_CLASSES`, likeliest first; empty means that of its unit
    format_log_sd: float = 0.15  # log-sd of eta between weight formats, whose kernels differ
    model_log_sd: float = 0.12  # of decode times between models on one board: kernel coverage of an architecture
    model_factor: Mapping[str, Prior] = field(
        default_factory=dict
    )  # on decode times, of models known from other boards
    prompt_log_sd: float = 0.0  # of times to first token between models; 0 means `model_log_sd`
    prompt_factor: Mapping[str, Prior] = field(default_factory=dict)  # on times to first token
    size_log_sd: float = 0.0  # of the effect common to models of similar size, beyond the equations
    repeat_log_sd: float = 0.03  # of a new run of a model measured on the board, beyond its parameters
    prompt_chunk_tokens: float = 0.0  # tokens of one prefill chunk; 0 means all of the prompt
    static_graph: bool = False  # compiled graphs: head for all tokens, all experts, one attention head at a time
    graph_tokens: float = 0.0  # context that compiled graphs read in full; 0: they read the cached tokens
    prompt_half_width: float = 0.0  # hidden size at which prefill products reach half of the rate of wide ones
    reselection: ReselectionCost | None = None  # None where it cannot re-select
    knobs: tuple[str, ...] = ()  # fields of `OperatingPoint` that it can apply
    abilities: tuple[str, ...] = ()  # some of `ABILITIES`
    runs_on: tuple[str, ...] = ()  # patterns of board keys; empty: any board with its unit
    takes: tuple[str, ...] = ()  # patterns of supported weight formats; empty: any
    refuses: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # patterns of weight formats among them that boards lack, by pattern of board keys
    takes_kv: tuple[str, ...] = ()  # patterns of supported KV formats; empty: any
    smaller_weights: tuple[str, ...] = ()  # weight formats worth trying, most bits first
    smaller_kv: tuple[str, ...] = ()  # KV formats worth trying, most bits first
    usual_kv: str = "bf16"  # KV format of published rows that do not give one
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def on_cpu(self) -> bool:
        """Whether it runs on the CPU."""
        return self.unit == "cpu"

    def runs_on_unit(self, board: Board) -> bool:
        """Return whether it runs on the unit of a board that decodes."""
        named = not self.runs_on or any(fnmatchcase(board.key, pattern) for pattern in self.runs_on)
        return self.unit == board.unit and named

    def usual_weights(self, wanted: str, board: Board | None = None) -> str:
        """Return a weight format, or the first of its own tools' formats if it does not take that one on a board."""
        if self.takes_format("weights", wanted, board):
            return wanted
        return next((key for key in self.smaller_weights if self.takes_format("weights", key, board)), wanted)

    def takes_format(self, field: str, key: str, board: Board | None = None) -> bool:
        """Return whether it takes a format of ``weights`` or ``kv``: on a board, or on any."""
        patterns = {"weights": self.takes, "kv": self.takes_kv}[field]
        if field == "weights" and board is not None:
            sheet = board.data_sheet or board.key
            if any(_matches(key, refused) for boards, refused in self.refuses.items() if fnmatchcase(sheet, boards)):
                return False
        return not patterns or _matches(key, patterns)

    @property
    def possible_classes(self) -> tuple[str, ...]:
        """The classes that it may belong to, the likeliest first."""
        return self.classes or (self.unit,)


def _matches(key: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)
