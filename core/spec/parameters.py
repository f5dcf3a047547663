"""The cost parameters of a runtime on a board, each described once.

`core.physics.latency` has their equations. Files of runtimes, priors, fits, the transfer to another power mode and the
labels on the screen derive from `PARAMETERS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import hypot


@dataclass(frozen=True, slots=True)
class Prior:
    """A log-normal prior: median in SI units and standard deviation of the natural logarithm."""

    median: float
    log_sd: float


class PowerModeRule(StrEnum):
    """Scaling of a parameter from one power mode to another (`core.predict.power_mode_transfer`)."""

    NOTHING = "nothing"
    CORES = "cores"  # by the clocks of several kinds of cores, which change less than that of the unit
    VECTOR_LANES = "vector_lanes"  # by the rate of the vector lanes relative to the peak bandwidth
    COMPUTE_RATE = "compute_rate"  # as a share of the peak compute rate


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of a parameter: standard deviations of its logarithm, all [prior]."""

    classes: float  # between classes of runtimes
    runtimes: float  # between runtimes of a class
    boards: float  # between boards of a runtime, at the start of the fit
    least_boards: float  # lower bound of the same in the fit, since boards are few


@dataclass(frozen=True, slots=True)
class FormatRatio:
    """Ratio of a parameter for one weight or KV format to its common value, such as "eta.int4": kernels differ."""

    of: str  # the field of `OperatingPoint` that names the format: "weights" or "kv"
    log_sd: float | None  # [prior]; None: `Runtime.format_log_sd`
    quantised: bool = False  # whether only formats of fewer than 16 bits have one


@dataclass(frozen=True, slots=True)
class Parameter:
    """A cost parameter.

    Attributes
    ----------
    name : field of `core.physics.latency.LatencyParameters`, and of priors and posteriors
    unit : in SI; "" is a ratio
    low, high : range of the median that the file of a runtime may give
    median : [prior] of an unknown runtime
    spread : [prior] about `median`
    label, meaning : on the screen, short and long; with "{format}" one for each format of `ratio`
    ratio : ratios by format; None where formats do not matter
    follows : a parameter whose ratio for the same point is a factor here too
    power_mode : scaling from one power mode to another
    heavy_tailed : a few boards and formats are outliers, so its prior is a Student-t
    of_prefill : only times to first token depend on it
    of_bandwidth : a share of the peak bandwidth, which the screen shows in byte/s
    """

    name: str
    unit: str
    low: float
    high: float
    median: float
    spread: Spread
    label: str
    meaning: str
    ratio: FormatRatio | None = None
    follows: str = ""
    power_mode: PowerModeRule = PowerModeRule.NOTHING
    heavy_tailed: bool = False
    of_prefill: bool = False
    of_bandwidth: bool = False

    @property
    def prior(self) -> Prior:
        """The prior of a board with an unknown runtime."""
        return Prior(self.median, hypot(self.spread.classes, self.spread.runtimes, self.spread.boards))


PARAMETERS = (
    Parameter(
        "eta",
        unit="",
        low=0.01,
        high=1.1,
        median=0.82,
        spread=Spread(classes=0.2, runtimes=0.18, boards=0.15, least_boards=0.12),
        label="bandwidth, {format}",
        meaning="effective bandwidth of {format} weights",
        ratio=FormatRatio("weights", log_sd=None),
        heavy_tailed=True,
        of_bandwidth=True,
    ),
    Parameter(
        "kappa",
        unit="",
        low=0.1,
        high=100.0,
        median=2.2,
        spread=Spread(classes=0.5, runtimes=0.6, boards=0.5, least_boards=0.25),
        label="KV cost κ, {format}",
        meaning="cost of a KV byte in {format}",
        ratio=FormatRatio("kv", log_sd=0.30),
        follows="eta",  # the efficiency of reading the cache does not depend on the weight format
    ),
    Parameter(
        "rho",
        unit="",
        low=0.0,
        high=100.0,
        median=0.3,
        spread=Spread(classes=1.0, runtimes=1.2, boards=0.6, least_boards=0.4),
        label="unpacking ρ",
        meaning="unpacking cost of 4- to 6-bit weights",
        power_mode=PowerModeRule.VECTOR_LANES,
    ),
    Parameter(
        "t_layer_s",
        unit="s",
        low=0.0,
        high=1.0,
        median=160e-6,
        spread=Spread(classes=0.8, runtimes=0.9, boards=0.45, least_boards=0.4),
        label="per layer",
        meaning="cost per layer",
        ratio=FormatRatio("kv", log_sd=0.20, quantised=True),  # a quantised cache needs operators of its own
        power_mode=PowerModeRule.CORES,
    ),
    Parameter(
        "t_token_s",
        unit="s",
        low=0.0,
        high=10.0,
        median=0.4e-3,  # 8 ns an entry of the logits
        spread=Spread(classes=0.8, runtimes=0.9, boards=0.6, least_boards=0.4),
        label="per token",
        meaning="choosing a token of 49152",
        power_mode=PowerModeRule.CORES,
    ),
    Parameter(
        "eta_compute",
        unit="",
        low=1e-4,
        high=1.1,
        median=0.25,
        spread=Spread(classes=0.6, runtimes=0.6, boards=0.5, least_boards=0.3),
        label="prompt rate, {format}",
        meaning="share of {rate}, {format} prompts",
        ratio=FormatRatio("weights", log_sd=0.50),  # conversion, missing instructions
        power_mode=PowerModeRule.COMPUTE_RATE,
        of_prefill=True,
    ),
    Parameter(
        "t_layer_prefill_s",
        unit="s",
        low=0.0,
        high=1.0,
        median=1.2e-3,
        spread=Spread(classes=2.0, runtimes=1.8, boards=0.9, least_boards=0.6),
        label="per layer, prompts",
        meaning="cost per layer of a prompt",
        power_mode=PowerModeRule.CORES,
        of_prefill=True,
    ),
)
"""The cost parameters, in the order of every vector and matrix of them."""

PARAMETER_NAMES = tuple(parameter.name for parameter in PARAMETERS)
