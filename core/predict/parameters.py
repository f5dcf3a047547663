"""The cost parameters: priors, ratios between formats, and the sums that link both to the terms of a time.

All parameters are Gaussian in natural logarithms, so a parameter of one format is a sum: ``ln eta(int4) = ln eta +
ln eta.int4``. Through the common term, a measurement of one format informs the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.catalogue.typical_rates import USUAL_OP_PER_BYTE
from core.physics import traffic
from core.predict.shape_uncertainty import shape_log_sd
from core.spec import (
    PARAMETER_NAMES,
    PARAMETERS,
    Array,
    Board,
    KvFormat,
    ModelShape,
    OperatingPoint,
    Parameter,
    Posterior,
    Prior,
    ResolvedPoint,
    WeightFormat,
)

RECURRENT_LOG_SD = 0.5  # [prior] of prefill with recurrent layers: few runtimes have fast kernels for them
SPARSE_LOG_SD = 0.4  # [prior] of prefill of mixtures of experts: many products of few tokens each
SPARSE_SHARE = 0.5  # idle over read weights of a token, beyond which a model counts as a mixture of experts
TTFT_LOG_SD = 0.15  # of a measured time to first token about its prediction
DECODE_FACTOR, PREFILL_FACTOR = FACTORS = ("model.", "prompt.")
"""Prefixes of the names of a model's factors on decode time and on time to first token."""

UNKNOWN_OP_PER_BYTE: Mapping[str, float] = {"cpu": 17.0, "gpu": 200.0, "npu": 170.0}
"""[prior] peak operations per byte of peak bandwidth, where no source gives the compute rate."""
UNKNOWN_OP_LOG_SD = 1.0

USUAL_MATRIX_SPEEDUP = 8.0  # rate of matrix units over that of vector lanes, on boards that eta_compute refers to
MATRIX_EXPONENT = 0.25  # [prior] llama.cpp reaches 0.2 of the rate of matrix units, and 0.4 of that of vector lanes

ROWS = (*PARAMETER_NAMES, *FACTORS)
"""Rows of `loadings`: the cost parameters, and the model's factors on decode time and on time to first token."""
ROW = {name: i for i, name in enumerate(ROWS)}

_RATIO_OF = {p.name: p.ratio.of for p in PARAMETERS if p.ratio is not None}
_HEAVY_TAILED = {
    "model",
    "prompt",
    "recurrent_prompt",
    "sparse_prompt",
    *(p.name for p in PARAMETERS if p.heavy_tailed),
}

_SIZE_KNOTS = np.log([3e7, 8e7, 2e8, 5e8, 1.3e9, 3.3e9, 8.5e9, 2.2e10, 5.5e10, 1.4e11])  # parameters read per token
_SIZE_LENGTH = 0.8  # [prior] correlation length in ln(size): beyond a factor of e**0.8, models have little in common


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    correlation: NDArray[np.float64] = np.exp(-0.5 * np.square((one[:, None] - other[None, :]) / _SIZE_LENGTH))
    return correlation


_SIZE_ROOT = np.linalg.cholesky(_correlation(_SIZE_KNOTS, _SIZE_KNOTS) + 1e-6 * np.eye(len(_SIZE_KNOTS)))
_SIZE_NAMES = tuple(f"size.{i}" for i in range(len(_SIZE_KNOTS)))


def prefill_op_s(at: ResolvedPoint) -> float:
    """Return the compute rate that prefill refers to [op/s]: that of the power mode, else an assumed one.

    Where matrix units multiply smaller floats m times as fast, the rate rises by ``m**0.75`` only: faster units are
    less utilised, as in `data_sheet_shift`.
    """
    rate = at.mode.compute_op_s or UNKNOWN_OP_PER_BYTE[at.board.unit] * at.mode.bandwidth_byte_s
    return float(rate * product_speedup(at.board, at.weights) ** (1.0 - MATRIX_EXPONENT))


def product_speedup(board: Board, weights: WeightFormat) -> float:
    """Return the rate of a board's matrix units in the products of a format, over that in 16 bits."""
    return {"fp8": board.fp8_speedup, "fp4": board.fp4_speedup}.get(weights.products, 1.0)


def data_sheet_log_sd(at: ResolvedPoint) -> dict[str, float]:
    """Return the log-sd that assumed rates of a board add to its parameters."""
    compute = UNKNOWN_OP_LOG_SD if at.mode.compute_op_s is None else 0.0
    bandwidth = float(np.hypot(at.board.bandwidth_log_sd, at.mode.bandwidth_log_sd))
    return {"eta": bandwidth, "rho": at.mode.vector_log_sd, "eta_compute": compute}


def data_sheet_shift(at: ResolvedPoint) -> dict[str, float]:
    """Return the shift of the logarithms of parameters by the rates of a board's data sheet.

    Zero is a board with usual ratios of rates. Unpacking is work of the vector lanes: its time per weight goes with the
    inverse of their rate, so rho, in units of reading at peak bandwidth, goes with bandwidth over rate. It consists
    mostly of integer operations, which some GPUs execute at a higher rate. Faster matrix units are less utilised: at a
    rate m times that of the vector lanes, prefill reaches a share that goes with ``m**-0.25``. Without known rates
    there is no shift.
    """
    usual, vector, compute = USUAL_OP_PER_BYTE.get(at.board.unit), at.mode.vector_op_s, at.mode.compute_op_s
    if usual is None or vector is None:
        return {}
    unpacking = vector * (at.board.integer_speedup if at.board.unit == "gpu" else 1.0)
    shift = {"rho": float(np.log(usual * at.mode.bandwidth_byte_s / unpacking))}
    if compute is not None:
        shift["eta_compute"] = -MATRIX_EXPONENT * float(np.log(compute / (USUAL_MATRIX_SPEEDUP * vector)))
    return shift


def prior(at: ResolvedPoint) -> Posterior:
    """Return the prior of a board, runtime and power mode, before any measurement of the board."""
    names = PARAMETER_NAMES
    given = [at.runtime.priors[name] for name in names]
    log_sd = np.array([p.log_sd for p in given])
    for name, added in data_sheet_log_sd(at).items():
        log_sd[names.index(name)] = np.hypot(log_sd[names.index(name)], added)
    log_mean = np.log([p.median for p in given])
    for name, shift in data_sheet_shift(at).items():
        log_mean[names.index(name)] += shift
    return Posterior(
        at.board.key,
        at.runtime.key,
        at.mode.key,
        names,
        log_mean,
        np.diag(log_sd**2),
        at.mode.bandwidth_byte_s,
        decode_log_sd=at.runtime.repeat_log_sd,
        ttft_log_sd=TTFT_LOG_SD,
    )


def ratio_names(at: ResolvedPoint) -> dict[str, float | Prior]:
    """Return the ratios that the times of a point depend on, each with its prior, or with the log-sd about median 1."""
    shared = dict.fromkeys(_SIZE_NAMES, at.runtime.size_log_sd) if at.runtime.size_log_sd else {}
    model = same_model(at.model.key)
    decode_log_sd, prefill_log_sd = shape_log_sd(at)
    return {
        **_format_ratios(at, quantised=False),
        f"{DECODE_FACTOR}{model}": at.runtime.model_factor.get(
            model, float(np.hypot(at.runtime.model_log_sd, decode_log_sd))
        ),
        f"{PREFILL_FACTOR}{model}": at.runtime.prompt_factor.get(
            model, float(np.hypot(at.runtime.prompt_log_sd or at.runtime.model_log_sd, prefill_log_sd))
        ),
        **_prefill_kinds(at.model),
        **_format_ratios(at, quantised=True),
        **shared,
    }


def _format_ratios(at: ResolvedPoint, *, quantised: bool) -> dict[str, float | Prior]:
    """Return the ratios of the point's formats: those of all formats, or those of quantised formats only."""
    found = dict[str, float | Prior]()
    for parameter in PARAMETERS:
        ratio = parameter.ratio
        if ratio is None or ratio.quantised != quantised:
            continue
        form: WeightFormat | KvFormat = getattr(at, ratio.of)
        if not quantised or _bits(form) < 16:
            name = f"{parameter.name}.{form.key}"
            log_sd = at.runtime.format_log_sd if ratio.log_sd is None else ratio.log_sd
            found[name] = at.runtime.ratios.get(name, log_sd)
    return found


def _bits(form: WeightFormat | KvFormat) -> float:
    return form.bits_per_weight if isinstance(form, WeightFormat) else form.bits_per_value


def heavy_tailed(name: str) -> bool:
    """Whether the prior of a parameter is heavy-tailed, so that outliers do not bias the others.

    Outliers are models that no board's parameters explain, weight formats with a slow kernel in a runtime, and boards
    that reach an unusually small share of their bandwidth.
    """
    return name.partition(".")[0] in _HEAVY_TAILED


def _prefill_kinds(model: ModelShape) -> dict[str, float]:
    """Return the prefill factors that are common to models with recurrent layers or with experts, with their log-sd."""
    kinds = {"recurrent_prompt": RECURRENT_LOG_SD} if model.n_caching_layers < model.n_layers else {}
    if traffic.idle_params(model) > SPARSE_SHARE * (model.body_params + model.head_params):
        kinds["sparse_prompt"] = SPARSE_LOG_SD
    return kinds


def same_model(key: str) -> str:
    """Return a model's key without the suffix "~..." that distinguishes files of different size."""
    return key.partition("~")[0]


def extended(posterior: Posterior, ratios: Mapping[str, float | Prior]) -> Posterior:
    """Return the posterior with missing ratios added as independent parameters, each with its prior.

    Parameters
    ----------
    posterior : Posterior
    ratios : mapping
        Name to prior, or to the log-sd of a prior with median 1.
    """
    new = {name: prior for name, prior in ratios.items() if name not in posterior.names}
    if not new:
        return posterior
    added = [prior if isinstance(prior, Prior) else Prior(1.0, prior) for prior in new.values()]
    n = len(posterior.names)
    cov = np.zeros((n + len(new), n + len(new)))
    cov[:n, :n] = posterior.log_cov
    cov[range(n, n + len(new)), range(n, n + len(new))] = np.square([prior.log_sd for prior in added])
    mean = np.concatenate([posterior.log_mean, np.log([prior.median for prior in added])])
    return replace(posterior, names=(*posterior.names, *new), log_mean=mean, log_cov=cov)


def loadings(names: tuple[str, ...], point: OperatingPoint, at: ResolvedPoint) -> NDArray[np.float64]:
    """Return the loadings of the logarithms of a point's parameters and factors on the parameters `names`.

    A parameter is the sum of itself, its ratio for the point's format, and the ratio of the parameter that it follows:
    kappa follows eta, so that ``kappa / eta`` does not depend on the weight format.

    The effect common to models of similar size is a smooth function of the logarithm of the parameters read per token:
    a Gaussian process of unit variance at ten knots, which is part of the factor on the decode time.

    Parameters
    ----------
    names : tuple of str
        Names of a posterior.
    point : OperatingPoint
    at : ResolvedPoint

    Returns
    -------
    array, shape (9, n_names)
        Its rows are `ROWS`. Elements are 0 or 1, except those of "size.".
    """
    ratios = {name: f"{name}.{getattr(point, of)}" for name, of in _RATIO_OF.items()}
    model = same_model(point.model)
    made_of = {
        **{p.name: (p.name, ratios.get(p.name), ratios.get(p.follows)) for p in PARAMETERS},
        DECODE_FACTOR: (f"{DECODE_FACTOR}{model}",),
        PREFILL_FACTOR: (f"{PREFILL_FACTOR}{model}", *_prefill_kinds(at.model)),
    }
    column = {name: j for j, name in enumerate(names)}
    loading = np.zeros((len(ROWS), len(names)))
    for row, parts in made_of.items():
        for name in parts:
            if name in column:
                loading[ROW[row], column[name]] = 1.0
    if _SIZE_NAMES[0] in names:
        size = np.log([at.model.body_params + at.model.head_params])
        first = names.index(_SIZE_NAMES[0])
        loading[ROW[DECODE_FACTOR], first : first + len(_SIZE_NAMES)] = np.linalg.solve(
            _SIZE_ROOT, _correlation(_SIZE_KNOTS, size)
        )[:, 0]
    return loading


@dataclass(frozen=True, slots=True)
class Physical:
    """A parameter for display: a product of posterior parameters, and of the bandwidth where it is a share of it."""

    key: str
    names: tuple[str, ...]
    meaning: str
    label: str  # for a narrow column
    unit: str = ""
    of_bandwidth: bool = False  # a share of the board's bandwidth, shown in byte/s

    def median(self, posterior: Posterior) -> float:
        """Return the median [`unit`]."""
        share = float(np.exp(self._pick(posterior) @ posterior.log_mean))
        return share * posterior.bandwidth_byte_s if self.of_bandwidth else share

    def log_sd(self, posterior: Posterior) -> float:
        """Return the standard deviation of the logarithm."""
        pick = self._pick(posterior)
        return float(np.sqrt(pick @ posterior.log_cov @ pick))

    def _pick(self, posterior: Posterior) -> NDArray[np.float64]:
        return np.array([float(name in self.names) for name in posterior.names])


def physical_parameters(
    points: Sequence[OperatingPoint], *, with_ttft: bool, with_accuracy: bool = False, rate_known: bool = True
) -> tuple[Physical, ...]:
    """Return the parameters for display that these points depend on.

    Parameters
    ----------
    points : sequence of OperatingPoint
    with_ttft, with_accuracy : bool
        Whether to include parameters of prefill and of degradation by pruning.
    rate_known : bool
        Whether a source gives the compute rate.
    """
    rate = "the compute rate" if rate_known else "a compute rate that was assumed, since no source states it"
    found = [
        _physical(parameter, form, rate)
        for parameter in PARAMETERS
        if with_ttft or not parameter.of_prefill
        for form in _formats(parameter, points)
    ]
    if with_accuracy:
        policies = sorted({point.policy for point in points if point.alpha > 0.0})
        found += [
            Physical(name, (name,), f"degradation by pruning, {policy}, over its prior", name)
            for policy in policies
            for name in (f"degradation.{policy}",)
        ]
    models = sorted({same_model(point.model) for point in points})
    if len(models) > 1:
        found += [
            Physical(f"model.{m}", (f"model.{m}",), f"factor of {m} on the decode time", f"factor of {m}")
            for m in models
        ]
    return tuple(found)


def _formats(parameter: Parameter, points: Sequence[OperatingPoint]) -> list[str]:
    """Return the formats of the points that a parameter is shown for; [""] where it is shown once for all."""
    if parameter.ratio is None or "{format}" not in parameter.meaning:
        return [""]
    return sorted({getattr(point, parameter.ratio.of) for point in points})


def _physical(parameter: Parameter, form: str, rate: str) -> Physical:
    """Return a parameter for display, for one format or for all ("")."""
    key = f"{parameter.name}.{form}" if form else parameter.name
    return Physical(
        key,
        (parameter.name, key) if form else (key,),
        parameter.meaning.format(format=form, rate=rate),
        parameter.label.format(format=form),
        "byte/s" if parameter.of_bandwidth else parameter.unit,
        of_bandwidth=parameter.of_bandwidth,
    )


def quadratic(gradient: Mapping[int, Any], cov: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quadratic form of a covariance with a gradient; the gradient has a number or an array by row."""
    matters = [(i, slope) for i, slope in gradient.items() if isinstance(slope, np.ndarray) or slope]
    rows: list[list[float]] = cov.tolist()
    total: Any = 0.0
    for n, (i, slope) in enumerate(matters):
        inner: Any = rows[i][i] * slope
        for j, other in matters[:n]:
            if rows[i][j] != 0.0:
                inner = inner + 2.0 * rows[i][j] * other
        total = total + inner * slope
    return np.asarray(total)


def plain(value: Any) -> Array:
    """Return a float for a value without dimensions, and an array unchanged."""
    return value if isinstance(value, np.ndarray) and value.ndim else float(value)
