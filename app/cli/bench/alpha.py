"""``trilemma bench alpha``: share of the cache's reading time that each policy and layout saves.

The points are journalled as in a sweep: interrupted runs resume.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from app.cli.shared.measured_grid import Work, journal_file, measure_all, point_text, stopped
from app.cli.shared.output import UserError, print_table
from app.cli.shared.target import target_from
from app.client.target import THIS
from app.text.format import quantity_text
from core.catalogue.load import load_catalogue
from core.predict.decode import decode_costs
from core.spec import LAYOUTS, POLICIES, OperatingPoint

CONTEXT_TOKENS, SHORT_TOKENS = 4096.0, 64.0
ALPHAS = (0.3, 0.6, 0.9)
ROUNDS = 3


def measure_alpha(
    rounds: int = ROUNDS,
    context_tokens: float = CONTEXT_TOKENS,
    journal: Path | None = None,
    fresh: bool = False,
) -> dict[str, Any]:
    """Measure decode times at several prune rates by policy and layout, in rounds, and the saved share of cache time.

    ``alpha_eff = (1 - T(alpha) / T(0)) / c``, with c the share of a token that reading the cache takes, from the least
    times on a straight line through the context and a short one. T(0) is measured among the points, once a policy, and
    each run is compared with the T(0) of the same minutes, because a shared machine slows down for minutes.

    Parameters
    ----------
    rounds : int
        Runs of each point.
    context_tokens : float
        Tokens in the cache before pruning.
    journal : Path, optional
        File of finished points. Without one they are kept until the run is complete.
    fresh : bool
        Ignore the journal and measure all points again.

    Returns
    -------
    dict
        ``rows`` of ``{policy, layout, alpha, decode_s, alpha_eff, model, whole}``: the saved share of the cache time,
        the share that the model predicts, and the saved share of the whole time.
    """
    plain = replace(OperatingPoint(), context_tokens=context_tokens)
    points = [
        replace(plain, policy=policy, layout=layout, alpha=alpha)
        for policy, layout, alpha in product(POLICIES, LAYOUTS, ALPHAS)
    ]
    short = replace(plain, context_tokens=SHORT_TOKENS)
    ordered = [short]
    for policy in POLICIES:
        ordered += [plain, *(point for point in points if point.policy == policy)]
    runs = _measured([*ordered, plain], rounds, journal, fresh)
    times: dict[OperatingPoint, list[float]] = {}
    beside: dict[OperatingPoint, list[float]] = {}  # times over the unpruned of that moment
    for (point, seconds), plain_s in zip(runs, _unpruned(runs, plain), strict=True):
        times.setdefault(point, []).append(seconds)
        beside.setdefault(point, []).append(seconds / plain_s)
    full_s, short_s = min(times[plain]), min(times[short])
    cache_s = (full_s - short_s) * context_tokens / (context_tokens - SHORT_TOKENS)
    if cache_s <= 0.0:
        raise UserError(
            f"a context of {context_tokens:g} tokens took {full_s:.3g} s a token and one of {SHORT_TOKENS:g} took "
            f"{short_s:.3g} s: expected the longer one to take longer; the machine is too busy for this"
        )
    at = load_catalogue().resolve(plain)

    def kv_byte(point: OperatingPoint) -> float:
        return float(decode_costs(point, at, 1.0).kv_byte)

    rows = [
        {
            **{name: getattr(point, name) for name in ("policy", "layout", "alpha")},
            "decode_s": _record(times[point]),
            "alpha_eff": _saved(beside[point], cache_s / full_s),
            "model": 1.0 - kv_byte(point) / kv_byte(plain),
            "whole": 1.0 - median(beside[point]),
        }
        for point in points
    ]
    return {"context_tokens": context_tokens, "decode_s": _record(times[plain]), "cache_s": cache_s, "rows": rows}


def _measured(
    points: list[OperatingPoint], rounds: int, journal: Path | None, fresh: bool
) -> list[tuple[OperatingPoint, float]]:
    """Return every run with its decode time, in chronological order."""
    work = Work(tuple(points), ("decode",), rounds=rounds, keep=False)
    kept = journal or journal_file(work)
    outcome = measure_all(work, load_catalogue(), target_from(THIS, None), kept, fresh=fresh)
    for point, reason in outcome.failed:
        raise UserError(f"{point_text(point)}: {reason}")
    if outcome.status:
        print(f"trilemma bench: {stopped(outcome, work)}", file=sys.stderr)
        raise SystemExit(outcome.status)
    if journal is None:
        kept.unlink(missing_ok=True)  # the next run measures again
    in_time = sorted(outcome.measured, key=lambda measurement: measurement.time_utc)
    return [(measurement.point, measurement.body["decode_s"]["median"]) for measurement in in_time]


def _unpruned(runs: list[tuple[OperatingPoint, float]], plain: OperatingPoint) -> list[float]:
    """Return for each run the time without pruning, interpolated between the unpruned runs before and after it."""
    found = {index: seconds for index, (point, seconds) in enumerate(runs) if point == plain}
    between: list[float] = np.interp(range(len(runs)), list(found), list(found.values())).tolist()
    return between


def _record(seconds: list[float]) -> dict[str, Any]:
    least = min(seconds)
    return {"median": least, "q05": least, "q95": max(seconds), "n": len(seconds), "provenance": "measured"}


def _saved(beside: list[float], cache_share: float) -> dict[str, Any]:
    shares = sorted((1.0 - ratio) / cache_share for ratio in beside)
    return {"median": median(shares), "q05": shares[0], "q95": shares[-1], "n": len(shares), "provenance": "measured"}


def show_alpha(found: dict[str, Any]) -> None:
    """Print the saving of each policy and layout."""
    table: list[tuple[str, ...]] = [
        ("POLICY", "LAYOUT", "ALPHA", "TIME PER TOKEN", "SAVED OF THE CACHE", "MODEL", "OF ALL")
    ]
    for row in found["rows"]:
        saved = row["alpha_eff"]
        table.append(
            (
                row["policy"],
                row["layout"],
                f"{row['alpha']:g}",
                quantity_text(row["decode_s"]["median"], "s"),
                f"{saved['median']:.3f} [{saved['q05']:.2f} – {saved['q95']:.2f}]",
                f"{row['model']:.3f}",
                f"{row['whole']:.3f}",
            )
        )
    print_table(table)
    cache, whole = (quantity_text(s, "s") for s in (found["cache_s"], found["decode_s"]["median"]))
    print(f"\nAt {found['context_tokens']:g} tokens reading the cache takes {cache} of {whole} a token.")
