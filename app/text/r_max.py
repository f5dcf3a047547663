"""Bounds of pruning in words: by attention mass, by the article's sparsity and entropy, by a knee of the accuracy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.library.attention import RetainedMass
from app.library.prediction_curves import DROPPED_MASS
from app.text.format import at_most_text, number_text
from core.articles.as_printed.article_a import R_MAX_CHECK
from core.spec import Absent

UNMEASURED = "Measure the accuracy of this model to see the bound of article A beside it."


def bounds_text(known: RetainedMass | None) -> str:
    """Return the bounds of r_max beside that of the attention mass, in sentences."""
    if known is None:
        return UNMEASURED
    found = known.bounds(DROPPED_MASS)
    if found is None or known.sparse_share is None or known.entropy_nat is None:
        return f"This measurement holds no entropy of attention. {UNMEASURED}"
    entropy = (
        f"The entropy bound is {at_most_text(found.entropy, 2)}"
        if found.entropy > 0.0
        else f"The entropy bound says nothing, since H / {DROPPED_MASS:g} > ln L"
    )
    return (
        f"r_max of article A, as published: {number_text(found.as_published, 2)}, from a measured sparsity of "
        f"{100 * known.sparse_share:.0f} % and entropy of {number_text(known.entropy_nat, 2)} nat at {known.n_tokens} "
        f"tokens; by attention mass it is {at_most_text(known.r_max(DROPPED_MASS), 2)}. {entropy}; outside the "
        f"effective support lie {100 * found.effective_support:.0f} % of the tokens, a heuristic. {R_MAX_CHECK}"
    )


RECOMPUTED = (
    "beyond its knee article A recomputes layers 12, 18 and 24, 1.8 ms and 0.15 of perplexity a layer, as published"
)


def knee_text(alpha: NDArray[np.float64], perplexity_ratio: NDArray[np.float64]) -> str:
    """Return the knee of a measured sweep of prune rates in a sentence, or the reason that there is none.

    Parameters
    ----------
    alpha : ndarray, shape (n,)
        Prune rates, n >= 2 [1].
    perplexity_ratio : ndarray, shape (n,)
        Perplexity over that of the reference, measured at each [1].
    """
    from core.articles.curve_fit import fit_knee

    found = fit_knee(alpha, perplexity_ratio)
    if isinstance(found, Absent):
        return f"No knee of the perplexity over α: {found.reason}."
    edge = ", at an end of the sweep: it may lie beyond" if found.edge else ""
    return (
        f"Knee of the measured perplexity at α {number_text(found.x, 2)} [{number_text(found.q05, 2)} – "
        f"{number_text(found.q95, 2)}]{edge}; {RECOMPUTED}."
    )
