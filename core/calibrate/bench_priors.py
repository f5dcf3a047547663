"""What a bench of the kernels says of a machine before any token was timed: priors of its cost parameters.

A kernel's share of the read bandwidth is the efficiency that its format will have in a token; the cache's kernels say
how dearer their bytes are. Both are of warm loops on one shape, so they are priors with a spread, not measurements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from core.spec import Prior, Runtime

LINEAR, ATTENTION = "linear", "decode attention"
ETA_LOG_SD = 0.12  # [prior] of a format's efficiency in a token about that of its kernel alone
KAPPA_LOG_SD = 0.20  # [prior] the same of the cache, of the formats together and of each about them
UNPACKED_RHO = 1e-3  # unpacking that a kernel's measured efficiency already holds
LEAST_SHARE, MOST_SHARE = 0.02, 1.5  # of the read bandwidth: a share outside was not measured on a quiet machine


def shares(rows: Sequence[Mapping[str, Any]], kind: str) -> dict[str, float]:
    """Return the share of the read bandwidth that the best kernel of each format reaches.

    Parameters
    ----------
    rows : sequence of mapping
        As the bench of the kernels gives them: ``name``, ``variant``, ``shape``, ``dtype``, ``read_share``, ``trap``.
    kind : str
        First words of the names of the kernels wanted: `LINEAR` or `ATTENTION`.

    Returns
    -------
    dict
        By format: the median over shapes of the best variant's share; traps and rows without a number are left out.
    """
    best: dict[tuple[str, tuple[int, ...]], float] = {}
    for row in rows:
        share = row.get("read_share")
        is_kind = f"{row['name']} ".startswith(f"{kind} ")
        if row.get("trap") or not is_kind or not isinstance(share, int | float):
            continue
        if LEAST_SHARE <= share <= MOST_SHARE:
            key = (str(row["dtype"]), tuple(int(n) for n in row["shape"]))
            best[key] = max(best.get(key, 0.0), float(share))
    by_format: defaultdict[str, list[float]] = defaultdict(list)
    for (dtype, _), share in best.items():
        by_format[dtype].append(share)
    return {dtype: float(np.median(found)) for dtype, found in by_format.items()}


def with_bench_priors(runtime: Runtime, rows: Sequence[Mapping[str, Any]]) -> Runtime:
    """Return a runtime whose priors of eta by weight format, and of kappa, are those that a bench found.

    The formats' efficiencies include their unpacking, so that is left at nothing where they were measured. Cache
    formats without a row keep their ratio to the others. Without rows of linear kernels the runtime is as it was.
    """
    linear, attention = shares(rows, LINEAR), shares(rows, ATTENTION)
    if not linear:
        return runtime
    centre = float(np.exp(np.mean(np.log(list(linear.values())))))
    ratios = {f"eta.{dtype}": Prior(share / centre, ETA_LOG_SD) for dtype, share in linear.items()}
    source = "measured: bench of the kernels of this machine"
    runtime = replace(
        runtime,
        priors={
            **runtime.priors,
            "eta": Prior(centre, ETA_LOG_SD),
            "rho": Prior(UNPACKED_RHO, runtime.priors["rho"].log_sd),
        },
        ratios={**runtime.ratios, **ratios},
        sources={**runtime.sources, "eta": source, "format_eta": source, "rho": source},
    )
    if not attention:
        return runtime
    known = {dtype: runtime.ratios.get(f"kappa.{dtype}", Prior(1.0, 0.0)).median for dtype in attention}
    plain = float(np.exp(np.mean([np.log(share * known[dtype]) for dtype, share in attention.items()])))
    return replace(
        runtime,
        priors={**runtime.priors, "kappa": Prior(centre / plain, KAPPA_LOG_SD)},
        ratios={
            **runtime.ratios,
            **{f"kappa.{dtype}": Prior(plain / share, KAPPA_LOG_SD) for dtype, share in attention.items()},
        },
        sources={**runtime.sources, "kappa": source, "format_kappa": source},
    )
