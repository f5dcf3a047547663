"""Sensitivity of predictions to inputs: local elasticities, and Sobol indices over ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.predict.scenario import initial_posterior, predict
from core.spec import BY_NAME, NUMERIC, Absent, Catalogue, OperatingPoint, Posterior
from core.units import check_range

Floats = NDArray[np.float64]

STEP = 1e-3  # of the logarithm of an input
STEPWISE = ("perplexity_ratio", "top1_agreement")
KEPT = "kept_frac"  # 1 - alpha, the share of cached tokens that pruning keeps


def elasticities(
    point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None = None, output: str = "decode_s"
) -> dict[str, float] | Absent:
    """Return the elasticities ``d ln(output) / d ln(input)``, by central differences (one-sided at the end of a range).

    Parameters
    ----------
    point : OperatingPoint
        Scalars only.
    catalogue : Catalogue
    posterior : Posterior, optional
        As in `predict`.
    output : str
        Field of `Prediction`, except those of accuracy: they are step functions of whole tokens; see `sobol_of`.

    Returns
    -------
    dict
        By input: bandwidth_byte_s, context_tokens, beta and kept_frac. -1 means that 1 % more of the input lowers the
        output by 1 %.
    """
    if output in STEPWISE:
        raise ValueError(f"output = {output!r} follows whole tokens and has no slope, expected another than {STEPWISE}")
    at = catalogue.resolve(point)
    bandwidth = point.bandwidth_byte_s or (posterior or initial_posterior(at, catalogue)).bandwidth_byte_s
    here = {
        "bandwidth_byte_s": float(bandwidth),
        "context_tokens": float(point.context_tokens),
        "beta": float(point.beta),
        KEPT: 1.0 - float(point.alpha),
    }
    factors = np.ones((len(here), 2 * len(here)))
    for i in range(len(here)):
        factors[i, 2 * i : 2 * i + 2] = np.exp([-STEP, STEP])
    moved = {name: value * factors[i] for i, (name, value) in enumerate(here.items())}
    longest = {"context_tokens": at.model.max_context_tokens}
    for name in (name for name in moved if name != KEPT):
        moved[name] = np.clip(moved[name], BY_NAME[name].low, longest.get(name, BY_NAME[name].high))
    alpha = np.maximum(1.0 - moved.pop(KEPT), 0.0)
    found = getattr(predict(replace(point, **moved, alpha=alpha), catalogue, posterior), output)
    if isinstance(found, Absent):
        return found
    log_output = np.log(np.broadcast_to(np.asarray(found.median), (2 * len(here),)))
    moved[KEPT] = 1.0 - alpha
    slopes = {}
    for i, name in enumerate(here):
        low, high = np.log(moved[name][2 * i : 2 * i + 2])
        slopes[name] = float((log_output[2 * i + 1] - log_output[2 * i]) / (high - low)) if high > low else 0.0
    return slopes


@dataclass(frozen=True, slots=True)
class Sobol:
    """Shares of an output's variance by input, (d,): alone (first order) and with all interactions (total order)."""

    names: tuple[str, ...]
    first_order: Floats
    total_order: Floats
    first_error: Floats  # half width of the 90 % interval, from the spread of the replicates
    total_error: Floats
    n_evaluations: int  # of the function


def sobol(
    function: Callable[[Floats], Floats],
    distributions: Mapping[str, Any],
    n: int = 1024,
    seed: int = 0,
    n_replicates: int = 8,
) -> Sobol:
    """Return Sobol indices by Saltelli's method (`scipy.stats.sobol_indices`).

    They are means over replicates with independently scrambled sequences; the spread of the replicates gives their
    error. The output must vary.

    Parameters
    ----------
    function : callable
        From inputs of shape (d, m), one row per input, to outputs of shape (m,).
    distributions : mapping
        Input to a frozen continuous distribution of `scipy.stats`; two or more independent inputs.
    n : int
        Samples per replicate, a power of 2.
    seed : int
        Seed of the quasi-random sequences.
    n_replicates : int
        At least 2; the function is evaluated ``n_replicates n (d + 2)`` times.

    References
    ----------
    docs/physics.md, M10: an additive function has indices var_i / sum; log-sd 0.237, 0.1 and 0.05 give 0.81797,
    0.14563 and 0.03641.
    """
    from scipy.stats import sobol_indices, t

    def outputs(x: Floats) -> Floats:
        return np.asarray(function(x))[None, :]

    made = [
        sobol_indices(func=outputs, n=n, dists=list(distributions.values()), rng=np.random.default_rng([seed, i]))
        for i in range(n_replicates)
    ]
    first = np.stack([np.ravel(one.first_order) for one in made])
    total = np.stack([np.ravel(one.total_order) for one in made])
    width = t.ppf(0.95, n_replicates - 1) / np.sqrt(n_replicates)
    first_error, total_error = (width * of.std(axis=0, ddof=1) for of in (first, total))
    count = n_replicates * n * (len(distributions) + 2)
    return Sobol(tuple(distributions), first.mean(axis=0), total.mean(axis=0), first_error, total_error, count)


def sobol_of(
    point: OperatingPoint,
    ranges: Mapping[str, tuple[float, float]],
    catalogue: Catalogue,
    posterior: Posterior | None = None,
    output: str = "decode_s",
    n: int = 1024,
) -> Sobol | Absent:
    """Return Sobol indices of the logarithm of an output over ranges of numeric inputs, each uniform in its range.

    Parameters
    ----------
    point : OperatingPoint
        Values of all other inputs.
    ranges : mapping
        Input to its lower and upper end.
    catalogue : Catalogue
    posterior : Posterior, optional
        As in `predict`.
    output : str
        Field of `Prediction`.
    n : int
        Samples per replicate, a power of 2.

    Returns
    -------
    Sobol or Absent
        Absent where the output is, or where it does not vary over the ranges.

    Raises
    ------
    ValueError
        Fewer than two inputs, an input that is not numeric, an empty range, an `n` that is no power of 2, or a range
        with values that `predict` refuses.
    """
    from scipy.stats import uniform

    for name, (low, high) in ranges.items():
        if name not in NUMERIC:
            raise ValueError(f"range of {name!r}: expected one of {', '.join(NUMERIC)}")
        check_range(f"width of the range of {name}", high - low, 0.0, open_low=True)
    if len(ranges) < 2:
        raise ValueError(f"ranges of {len(ranges)} inputs, expected two or more: one alone has all of the variance")
    if n < 1 or n & (n - 1):
        raise ValueError(f"n = {n} is no power of 2")
    missing = getattr(predict(point, catalogue, posterior), output)
    if isinstance(missing, Absent):
        return missing
    names: Sequence[str] = tuple(ranges)

    def function(x: Floats) -> Floats:
        swept: Any = replace(point, **dict(zip(names, x, strict=True)))
        found = getattr(predict(swept, catalogue, posterior), output)
        return np.asarray(np.log(np.broadcast_to(found.median, x.shape[1:])))

    distributions = {name: uniform(low, high - low) for name, (low, high) in ranges.items()}
    probe = np.random.default_rng(0).random((64, len(ranges))) * [high - low for low, high in ranges.values()]
    if np.ptp(function((probe + [low for low, _ in ranges.values()]).T)) < 1e-9:
        return Absent(f"{output} does not vary over these ranges")
    return sobol(function, distributions, n)
