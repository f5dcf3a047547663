"""Both bounds of pruning in words: by measured attention mass, and by the article's sparsity and entropy."""

from __future__ import annotations

from app.library.attention import RetainedMass
from app.library.prediction_curves import DROPPED_MASS
from app.text.format import at_most_text, number_text
from core.articles.as_printed.article_a import R_MAX_CHECK

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
