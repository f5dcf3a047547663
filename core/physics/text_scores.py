"""Scores of generated texts against references: BLEU and ROUGE-L, and of token probabilities: perplexity and KL.

References
----------
.. [1] papineni2002, docs/references.md
.. [2] post2018, docs/references.md: sacrebleu
.. [3] lin2004, docs/references.md
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_ORDER = 4
_ENTITIES = {"&quot;": '"', "&amp;": "&", "&lt;": "<", "&gt;": ">"}
_SPLITS = (
    (re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])"), r" \1 "),
    (re.compile(r"([^0-9])([\.,])"), r"\1 \2 "),
    (re.compile(r"([\.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
_WORD = re.compile(r"[^\W_]+")


def tokens_13a(text: str) -> list[str]:
    """Return the tokens of a text as mteval-v13a makes them: words and marks, numbers whole.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    list of str
        Tokens.

    References
    ----------
    .. [1] post2018, docs/references.md

    Examples
    --------
    >>> tokens_13a("It costs $3.50, he said.")
    ['It', 'costs', '$', '3.50', ',', 'he', 'said', '.']
    """
    joined = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, mark in _ENTITIES.items():
        joined = joined.replace(entity, mark)
    joined = f" {joined} "
    for pattern, parts in _SPLITS:
        joined = pattern.sub(parts, joined)
    return joined.split()


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    """Return the corpus BLEU of texts with one reference each, as a share.

    ``BLEU = min(1, exp(1 - r/c)) exp(mean_n ln p_n)``, n = 1 to 4, with sacrebleu's tokens 13a and its smoothing "exp":
    an order without a match counts half of the one before it without a match, of one n-gram. Divided by 100 it is
    sacrebleu's default.

    Parameters
    ----------
    texts : sequence of str
        Generated texts.
    references : sequence of str
        Their references, as many.

    Returns
    -------
    float
        Score [1], 0 to 1.

    Raises
    ------
    ValueError
        The numbers of texts and references differ, or are 0.

    References
    ----------
    .. [1] papineni2002, docs/references.md
    .. [2] post2018, docs/references.md

    Examples
    --------
    >>> round(bleu(["the cat sat on the mat"], ["the cat sat on a mat"]), 6)
    0.537285
    """
    _check_pairs(texts, references)
    correct, total = np.zeros(MOST_ORDER), np.zeros(MOST_ORDER)
    n_text = n_reference = 0
    for text, reference in zip(texts, references, strict=True):
        of_text, of_reference = tokens_13a(text), tokens_13a(reference)
        n_text, n_reference = n_text + len(of_text), n_reference + len(of_reference)
        for order in range(1, MOST_ORDER + 1):
            made, wanted = _n_grams(of_text, order), _n_grams(of_reference, order)
            correct[order - 1] += sum((made & wanted).values())
            total[order - 1] += max(len(of_text) - order + 1, 0)
    if not correct.any() or not total.all():
        return 0.0
    smoothed = 0.5 ** np.cumsum(correct == 0) / total
    precision = np.where(correct > 0, correct / total, smoothed)
    brevity = min(1.0, float(np.exp(1.0 - n_reference / n_text)))
    return brevity * float(np.exp(np.mean(np.log(precision))))


def _n_grams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def rouge_l(text: str, reference: str) -> float:
    """Return ROUGE-L of a text: F1 of the longest common subsequence of words.

    ``P = L/n_text, R = L/n_reference, F = 2 P R / (P + R)``. Words are letters and digits in small letters, without
    stemming.

    Parameters
    ----------
    text : str
        Generated text.
    reference : str
        Its reference.

    Returns
    -------
    float
        Score [1], 0 to 1; 0 where one has no words.

    References
    ----------
    .. [1] lin2004, docs/references.md

    Examples
    --------
    >>> round(rouge_l("police killed the gunman", "the gunman killed police"), 6)
    0.5
    """
    made, wanted = (_WORD.findall(each.lower()) for each in (text, reference))
    if not made or not wanted:
        return 0.0
    best = [0] * (len(wanted) + 1)
    for word in made:
        diagonal = 0
        for j, other in enumerate(wanted, 1):
            diagonal, best[j] = best[j], diagonal + 1 if word == other else max(best[j], best[j - 1])
    longest = best[-1]
    return 2.0 * longest / (len(made) + len(wanted))


def perplexity(log_probability: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the perplexity of tokens, ``exp(-mean ln p)``.

    Parameters
    ----------
    log_probability : sequence of float
        ln p of each token [1], <= 0.

    Returns
    -------
    float
        Perplexity [1], >= 1.

    Raises
    ------
    ValueError
        No token, or a logarithm that is above 0 or not finite.

    References
    ----------
    .. [1] docs/physics.md M5

    Examples
    --------
    >>> perplexity([0.0, 0.0])
    1.0
    """
    values = np.asarray(log_probability, dtype=float)
    if not values.size or not np.all(np.isfinite(values)) or np.any(values > 0.0):
        raise ValueError(f"log_probability = {values.tolist()!r:.60}: expected logarithms of probabilities, at most 0")
    return float(np.exp(-values.mean()))


def top_kl(reference: dict[str, float], other: dict[str, float]) -> float:
    """Return a lower bound of KL(reference || other) from the most probable tokens of two distributions.

    The tokens that both list count one by one, all others together: merging outcomes never raises the divergence.

    Parameters
    ----------
    reference, other : dict
        Token to ln p [1] of the listed tokens.

    Returns
    -------
    float
        Divergence [nat], >= 0.

    Raises
    ------
    ValueError
        No token is in both.

    References
    ----------
    .. [1] cover2006, docs/references.md

    Examples
    --------
    >>> top_kl({"a": -0.5, "b": -2.0}, {"a": -0.5, "b": -2.0})
    0.0
    """
    both = sorted(reference.keys() & other.keys())
    if not both:
        raise ValueError("reference, other = no token in both: expected lists of the same tokens")
    p, q = (np.exp([each[token] for token in both]) for each in (reference, other))
    p, q = (np.append(each, max(1.0 - each.sum(), 1e-12)) for each in (p, q))
    return float(max(np.sum(p * np.log(p / q)), 0.0))


def _check_pairs(texts: Sequence[str], references: Sequence[str]) -> None:
    if not texts or len(texts) != len(references):
        raise ValueError(f"texts = {len(texts)} with {len(references)} references: expected one reference for each")
