"""Priors of the cost parameters of a machine from a bench of its kernels, before any token is timed.

The share of the read bandwidth that a linear kernel reaches is the prior of its format's eta in a token; shares of the
attention kernels give the prior of kappa. Both are from warm loops on single shapes, so they are priors with a spread,
not measurements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from core.spec import Prior, Runtime

LINEAR, ATTENTION = "linear", "decode attention"
ETA_LOG_SD = 0.12  # [prior] of a format's eta in a token about the share of its kernel alone
KAPPA_LOG_SD = 0.20  # [prior] of kappa, common to the formats, and of each format about it
UNPACKED_RHO = 1e-3  # nearly 0: the measured share of a kernel includes unpacking
LEAST_SHARE, MOST_SHARE = 0.02, 1.5  # of the read bandwidth: shares outside come from a disturbed machine


def shares(rows: Sequence[Mapping[str, Any]], kind: str) -> dict[str, float]:
    """Return the share of the read bandwidth that the best kernel of each format reaches.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of the bench of the kernels: ``name``, ``variant``, ``shape``, ``dtype``, ``read_share``, ``trap``.
    kind : str
        First words of the names of the kernels: `LINEAR` or `ATTENTION`.

    Returns
    -------
    dict
        By format: the median over shapes of the best variant's share, without traps and rows without a number.
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
    """Return the runtime with priors of eta by weight format, and of kappa, from a bench of the kernels.

    The measured shares include unpacking, so rho is set to nearly 0. KV formats without a row keep their ratio to the
    others. Without rows of linear kernels the runtime is returned unchanged.

    Parameters
    ----------
    runtime : Runtime
    rows : sequence of mapping
        As in `shares`.
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
