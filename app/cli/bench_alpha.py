"""``trilemma bench alpha``: which share of the cache's reading time each policy and layout really saves here.

Its points are journalled as those of a sweep: a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from app.cli.measured_grid import Work, journal_file, measure_all, point_text, stopped
from app.cli.output import UserError, print_table
from app.cli.target import target_from
from app.client.target import THIS
from app.views.format import quantity_text
from core.load import load_catalogue
from core.scenario import decode_costs
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
    """Measure decode times at several prune rates by policy and layout, in rounds, and what they save of the cache.

    ``alpha_eff = (T(0) - T(alpha)) / (T(0) - T_0)``, with T_0 the time without a cache, a straight line through the
    context and a short one: the share of the time that reading the cache takes. Of each point's repeats the least
    counts, since other work only ever adds.

    Parameters
    ----------
    rounds : int
        How often each point is measured.
    context_tokens : float
        Tokens in the cache before pruning.
    journal : Path, optional
        Where finished points are kept. Without one they are kept until all are there.
    fresh : bool
        Measure all points again, whatever the journal has.

    Returns
    -------
    dict
        ``rows`` of ``{policy, layout, alpha, decode_s, alpha_eff, model, whole}``: what is saved of the cache's time,
        what the prediction model takes it to be, and what is saved of the whole time.
    """
    plain = replace(OperatingPoint(), context_tokens=context_tokens)
    points = {
        (policy, layout, alpha): replace(plain, policy=policy, layout=layout, alpha=alpha)
        for policy in POLICIES
        for layout in LAYOUTS
        for alpha in ALPHAS
    }
    short = replace(plain, context_tokens=SHORT_TOKENS)
    times = _measured([plain, short, *points.values()], rounds, journal, fresh)
    full_s, short_s = min(times[plain]), min(times[short])
    cache_s = (full_s - short_s) * context_tokens / (context_tokens - SHORT_TOKENS)
    if cache_s <= 0.0:
        raise UserError(
            f"a context of {context_tokens:g} tokens took {full_s:.3g} s a token and one of {SHORT_TOKENS:g} took "
            f"{short_s:.3g} s: expected the longer one to take longer; the machine is too busy for this"
        )
    at = load_catalogue().setting(plain)
    rows = [
        {
            "policy": policy,
            "layout": layout,
            "alpha": alpha,
            "decode_s": _record(times[point]),
            "alpha_eff": _saved(times[point], full_s, cache_s),
            "model": 1.0 - float(decode_costs(point, at, 1.0).kv_byte) / float(decode_costs(plain, at, 1.0).kv_byte),
            "whole": 1.0 - min(times[point]) / full_s,
        }
        for (policy, layout, alpha), point in points.items()
    ]
    return {
        "context_tokens": context_tokens,
        "decode_s": _record(times[plain]),
        "cache_s": cache_s,
        "rows": rows,
    }


def _measured(
    points: list[OperatingPoint], rounds: int, journal: Path | None, fresh: bool
) -> dict[OperatingPoint, list[float]]:
    work = Work(tuple(points), ("decode",), rounds=rounds, keep=False)
    kept = journal or journal_file(work)
    outcome = measure_all(work, load_catalogue(), target_from(THIS, None), kept, fresh=fresh)
    for point, reason in outcome.failed:
        raise UserError(f"{point_text(point)}: {reason}")
    if not outcome.complete:
        raise UserError(stopped(outcome, work))
    if journal is None:
        kept.unlink(missing_ok=True)  # the next run measures anew
    times: dict[OperatingPoint, list[float]] = {point: [] for point in points}
    for measurement in outcome.measured:
        times[measurement.point].append(measurement.body["decode_s"]["median"])
    return times


def _record(seconds: list[float]) -> dict[str, Any]:
    least = min(seconds)
    return {"median": least, "q05": least, "q95": max(seconds), "n": len(seconds), "provenance": "measured"}


def _saved(seconds: list[float], full_s: float, cache_s: float) -> dict[str, Any]:
    shares = sorted((full_s - time_s) / cache_s for time_s in seconds)
    return {"median": shares[-1], "q05": shares[0], "q95": shares[-1], "n": len(shares), "provenance": "measured"}


def show_alpha(found: dict[str, Any]) -> None:
    """Print what each policy and layout saves."""
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
