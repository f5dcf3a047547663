"""Board posteriors: fits to published rows, one for each board, runtime and power mode with enough of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.calibrate.fit import calibrate
from core.calibrate.observations import MeasuredPoint
from core.catalogue.calibration_file import without
from core.predict import conformal
from core.predict.parameters import same_model
from core.spec import PARAMETERS, Catalogue, Posterior
from core.spec.interval_scale import IntervalScale
from core.tables.as_points import ComparedRow, Comparison
from core.tables.hierarchical_priors import subsampled
from core.tables.scores import Residuals, Score
from core.tables.splits import SplitResiduals, TimeSplits

FEWEST_ROWS, FEWEST_MODELS = 4, 2
MOST_ROWS = 96  # in a fit: more rows of the same models add no information


@dataclass(frozen=True, slots=True)
class BoardPosterior:
    """Fit to the published rows of one board, runtime and power mode, with its errors on left-out models."""

    posterior: Posterior
    n_rows: int
    n_models: int
    leave_one_model_out: Score | None  # of decode times
    sources: tuple[str, ...]


def fit_boards(compared: Comparison, catalogue: Catalogue) -> list[BoardPosterior]:
    """Fit each board, runtime and power mode of the catalogue with enough rows.

    Parameters
    ----------
    compared : Comparison
        Its catalogue has the priors of the fits.
    catalogue : Catalogue
        Only boards, runtimes and power modes of this catalogue are fitted, and only parameters of its models and
        formats are kept.
    """
    found = dict[tuple[str, str, str], list[ComparedRow]]()
    for row in compared.rows:
        board = catalogue.boards.get(row.decode.board)
        known = row.decode.runtime in catalogue.runtimes
        if row.outside or not known or board is None or row.decode.power_mode not in board.power_modes:
            continue
        found.setdefault((row.decode.board, row.decode.runtime, row.decode.power_mode), []).append(row)
    fits = []
    for rows in found.values():
        rows = _distinct(rows)
        decoded = [row for row in rows if row.row.decode_s is not None]
        if len(decoded) >= FEWEST_ROWS and len({same_model(row.decode.model) for row in decoded}) >= FEWEST_MODELS:
            fits.append(_fit(rows, compared.catalogue, catalogue))
    return fits


def _distinct(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Return the rows without duplicates, which occur where tables copy each other."""
    seen = set[tuple[object, ...]]()
    kept = []
    for row in rows:
        figures = (row.decode.model, row.weights, row.row.decode_s, row.row.ttft_s, row.row.energy_j_per_token)
        if figures not in seen:
            seen.add(figures)
            kept.append(row)
    return kept


def _fit(rows: Sequence[ComparedRow], extended: Catalogue, catalogue: Catalogue) -> BoardPosterior:
    points = list[MeasuredPoint]()
    for row in subsampled(rows, MOST_ROWS):
        energy_j = row.row.energy_j_per_token
        if row.row.decode_s is not None or energy_j is not None:
            covers = row.row.text["power_rail"] if energy_j is not None else ""
            points.append(
                MeasuredPoint(row.decode, row.row.decode_s, row.log_sd, energy_j=energy_j, power_covers=covers)
            )
        if row.row.ttft_s is not None:
            points.append(MeasuredPoint(row.prefill, None, ttft_s=row.row.ttft_s, ttft_log_sd=row.log_sd))
    n_models = len({same_model(row.decode.model) for row in rows})
    posterior = calibrate(points, extended, check=False).posterior
    left_out = _left_out(rows, extended)
    score = Score.of(left_out["decode_s"], [same_model(row.decode.model) for row in rows])
    posterior = replace(posterior, interval_scale=_interval_scale(posterior, n_models, left_out, extended))
    error = f"; a model left out is predicted to {100 * score.median_error_frac:.1f} % (median)" if score else ""
    sources = tuple(sorted({row.row.extra.get("source_repo", "") for row in rows} - {""}))
    where = f" ({', '.join(sources)})" if sources else ""
    basis = f"{len(rows)} published rows of {n_models} models{where}{error}"
    kept = without(posterior, {name for name in posterior.names if not _in_catalogue(name, catalogue)})
    return BoardPosterior(replace(kept, basis=basis), len(rows), n_models, score, sources)


def _left_out(rows: Sequence[ComparedRow], catalogue: Catalogue) -> dict[str, Residuals]:
    """Return the residuals of each model predicted from the others, by quantity, with unscaled intervals."""
    found = SplitResiduals()
    TimeSplits(rows, range(len(rows)), catalogue).evaluate(found)
    return {q: Residuals.joined(found.parts.get((q, "leave_one_model_out"), [])) for q in ("decode_s", "ttft_s")}


def _interval_scale(
    posterior: Posterior, n_models: int, left_out: Mapping[str, Residuals], catalogue: Catalogue
) -> IntervalScale:
    """Return the interval scale: from other boards for models of the fit, and with own residuals for other models."""
    of_seen, of_other = dict[str, float](), dict[str, float]()
    for quantity, residuals in left_out.items():
        seen, other = (
            conformal.population(catalogue.held_out, posterior.runtime, quantity, of)
            for of in (conformal.SEEN, conformal.bucket(n_models))
        )
        of_seen[quantity] = conformal.factor(seen, np.zeros(0))
        of_other[quantity] = conformal.factor(other, np.abs(residuals.log_error) / residuals.log_sd)
    return IntervalScale(of_seen["decode_s"], of_seen["ttft_s"], of_other["decode_s"], of_other["ttft_s"])


def _in_catalogue(name: str, catalogue: Catalogue) -> bool:
    kind, _, of = name.partition(".")
    formats = {"weights": catalogue.weight_formats, "kv": catalogue.kv_formats}
    known = {
        "model": catalogue.models,
        "prompt": catalogue.models,
        **{p.name: formats[p.ratio.of] for p in PARAMETERS if p.ratio is not None},
    }
    return not of or kind not in known or of in known[kind]
