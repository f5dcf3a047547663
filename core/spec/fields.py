"""The table of the fields of `OperatingPoint`: paths, options, axes, checks and records derive from it.

A new field is a row here and a line of `OperatingPoint` at the same position. The order is that of the dashboard's
controls, of files and of checks: a board and a model come before the fields that depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.spec.point import COMPENSATIONS, LAYOUTS, POLICIES
from core.spec.runtime import OWN_RUNTIME
from core.units import check_range


@dataclass(frozen=True, slots=True)
class Slider:
    """Range of a slider and of a curve, in the unit of its field. A typed value may lie outside it."""

    low: float
    high: float
    step: float  # of sensitivities
    log: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the operating point: a number with a unit, or a name without one.

    Notes
    -----
    The dashboard lists the `offered` values of a number; any other value may be typed. A `rare` field at its default is
    omitted from files and commands, and a rare choice from the dashboard's controls as well. So files of versions
    without the field describe the same points, and their measurements and journals stay valid. Fields that are added
    later are rare.
    """

    name: str  # of `OperatingPoint`; its key in files and in messages to the board
    path: str  # in the dashboard's store
    option: str  # of the command line, and name of the axis of a sweep
    label: str
    help: str  # of the option; {default} is the default
    default: str | float | None  # None: the board's own
    unit: str = ""  # "1", "tokens" or "byte/s"; "" of a name
    placeholder: str = "VALUE"
    # of a number
    low: float = -np.inf
    high: float = np.inf
    open_high: bool = False  # whether `high` lies outside
    whole: bool = False
    expected: str = ""  # the range in words
    array: bool = False  # whether it may be an array
    slider: Slider | None = None  # None where its range depends on the board or the model
    offered: tuple[float, ...] = ()
    offered_text: str = ""  # format of an offered value
    # of a name
    known: str = ""  # attribute of `Catalogue` that holds the keys
    options: tuple[str, ...] = ()  # the keys, where they are the same for every board
    # of both
    unset: str = ""  # label of the default in a list, where the default is "" or 0
    column: str = ""  # of tables of measurements, where it is not `name`
    required: bool = False  # whether a file must have it
    rare: bool = False
    knob: bool = False  # whether runtimes can have it among `Runtime.knobs`
    of_pruning: bool = False  # whether it has no effect without pruning

    @property
    def is_number(self) -> bool:
        """Whether the field is a number, not a name."""
        return bool(self.unit)

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest value [unit of the field]."""
        return self.low, self.high

    def holds(self, value: float) -> bool:
        """Return whether a number lies in the range; NaN does not."""
        return self.low <= value < self.high if self.open_high else self.low <= value <= self.high

    def check(self, value: Any, high: float | None = None) -> None:
        """Raise `ValueError` unless every element of a number or array is in range; `high` replaces the upper end."""
        check_range(self.name, value, self.low, self.high if high is None else high, open_high=self.open_high)


FIELDS = (
    Field(
        name="board",
        path="point.board",
        option="board",
        label="Board",
        help="board, see `trilemma boards`, or its name, such as RK3588; to predict also FILE.toml ({default})",
        default="this",
        placeholder="KEY",
        known="boards",
        column="board_key",
        required=True,
    ),
    Field(
        name="power_mode",
        path="point.power_mode",
        option="mode",
        label="Power mode",
        help="power mode of the board (its first)",
        default="",
        placeholder="KEY",
    ),
    Field(
        name="model",
        path="point.model",
        option="model",
        label="Model",
        help="model, see `trilemma models`, or its name, such as llama3.2:3b ({default})",
        default="smollm2-135m",
        placeholder="KEY",
        known="models",
        column="model_key",
        required=True,
    ),
    Field(
        name="runtime",
        path="point.runtime",
        option="runtime",
        label="Runtime",
        help="runtime, or its name, such as llama.cpp ({default}, Trilemma's own decoder)",
        default=OWN_RUNTIME,
        placeholder="KEY",
        known="runtimes",
    ),
    Field(
        name="alpha",
        path="point.alpha",
        option="alpha",
        label="KV prune rate α",
        help="share of cached tokens pruned, such as 0.3 or 30%% ({default:g})",
        default=0.0,
        unit="1",
        low=0.0,
        high=1.0,
        open_high=True,
        expected="0 <= alpha < 1",
        array=True,
        slider=Slider(0.0, 0.95, 0.1),
        knob=True,
    ),
    Field(
        name="bandwidth_byte_s",
        path="point.bandwidth",
        option="bandwidth",
        label="Memory bandwidth",
        help="peak memory bandwidth, such as 51.2GB/s or '6400 MT/s x 64 bit' (the board's own)",
        default=None,
        unit="byte/s",
        low=1e3,
        high=1e18,
        expected="a bandwidth of 1 kB/s to 1 EB/s",
        array=True,
    ),
    Field(
        name="beta",
        path="point.beta",
        option="beta",
        label="Instruction set β",
        help="speed-up of computing and unpacking by the instruction set, or the name of a published factor, "
        "such as MLU370 or CANN ({default:g})",
        default=1.0,
        unit="1",
        low=1e-3,
        high=1e3,
        expected="0.001 to 1000",
        array=True,
        slider=Slider(0.25, 4.0, 0.1, log=True),
        knob=True,
    ),
    Field(
        name="context_tokens",
        path="point.context",
        option="context",
        label="Context",
        help="tokens in the KV cache, such as 2048 or 2k ({default:g})",
        default=1024.0,
        unit="tokens",
        low=1.0,
        whole=True,
        expected="at least 1 token",
        array=True,
        required=True,
        knob=True,
    ),
    Field(
        name="weights",
        path="point.weights",
        option="weights",
        label="Weights",
        help="weight format: fp32, bf16, int8, int4, q4_k_m... ({default})",
        default="int4",
        placeholder="FORMAT",
        known="weight_formats",
        column="quant",
        required=True,
        knob=True,
    ),
    Field(
        name="kv",
        path="point.kv",
        option="kv",
        label="KV cache",
        help="format of the KV cache: bf16, int8... ({default})",
        default="bf16",
        placeholder="FORMAT",
        known="kv_formats",
        column="kv_quant",
        knob=True,
    ),
    Field(
        name="policy",
        path="point.policy",
        option="policy",
        label="Pruning",
        help=f"which cached tokens pruning keeps: {', '.join(POLICIES)} ({{default}})",
        default="attention_mass",
        placeholder="NAME",
        options=POLICIES,
        knob=True,
        of_pruning=True,
    ),
    Field(
        name="layout",
        path="point.layout",
        option="layout",
        label="Layout of kept tokens",
        help=f"how the kept tokens lie in memory: {', '.join(LAYOUTS)} ({{default}})",
        default="compacted",
        placeholder="NAME",
        options=LAYOUTS,
        knob=True,
        of_pruning=True,
    ),
    Field(
        name="reselect_tokens",
        path="point.reselect",
        option="reselect",
        label="Re-select tokens",
        help="re-select the kept tokens every so many generated ones, such as 64 ({default:g}: once, after the prompt)",
        default=0.0,
        unit="tokens",
        low=0.0,
        whole=True,
        expected="a whole number of tokens, or 0 for once",
        array=True,
        offered=(0.0, 16.0, 32.0, 64.0, 128.0, 256.0),
        offered_text="every {:g} tokens",
        unset="never",
        knob=True,
        of_pruning=True,
    ),
    Field(
        name="head",
        path="point.head",
        option="head",
        label="Output head",
        help="weight format of the output head, such as fp16 (that of the weight format)",
        default="",
        placeholder="FORMAT",
        known="head_formats",
        unset="as the weights",
        rare=True,
    ),
    Field(
        name="graph_tokens",
        path="point.graph",
        option="graph",
        label="Compiled context",
        help="context that the prompt's graphs were compiled for, such as 4096 ({default:g}: the runtime's usual one)",
        default=0.0,
        unit="tokens",
        low=0.0,
        whole=True,
        expected="a whole number of tokens, or 0 for the runtime's usual context",
        offered=(0.0, 1024.0, 2048.0, 4096.0, 8192.0),
        offered_text="{:g} tokens",
        unset="the runtime's usual",
        rare=True,
    ),
    Field(
        name="power_limit_w",
        path="point.power_limit",
        option="power-limit",
        label="Power limit",
        help="power that the board may draw, such as 15W (that of the power mode)",
        default=None,
        unit="W",
        low=0.1,
        high=1e4,
        expected="a power of 0.1 W to 10 kW",
        array=True,
        rare=True,
    ),
    Field(
        name="compensation",
        path="point.compensation",
        option="compensation",
        label="Compensation",
        help=f"compensation of quantised weights: {', '.join(COMPENSATIONS)} ({{default}})",
        default="none",
        placeholder="NAME",
        options=COMPENSATIONS,
        rare=True,
        knob=True,
    ),
)

BY_NAME: Mapping[str, Field] = {field.name: field for field in FIELDS}
BY_PATH: Mapping[str, Field] = {field.path: field for field in FIELDS}

NUMBERS = tuple(field for field in FIELDS if field.is_number)
NUMERIC = tuple(field.name for field in NUMBERS if field.array)
"""The fields of `OperatingPoint` that may be arrays."""
