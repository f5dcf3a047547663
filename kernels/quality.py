"""Accuracy of a run against a reference run on the same text: perplexity, its ratio, KL divergence, top-1 agreement.

All four compare the distributions behind the same tokens (teacher forcing), so that the differences are paired: the
text's own difficulty cancels. Intervals are 90 % and take the tokens as independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_Z90 = 1.645  # normal quantile of a two-sided 90 % interval


def default_text() -> str:
    """Return the text that every Python carries: its own reference documentation."""
    from pydoc_data.topics import topics  # 700 kB; only loaded when needed

    return "\n\n".join(topics[name] for name in sorted(topics))


def read_text(file: Path | None) -> str:
    """Read a text file (UTF-8), or return `default_text`. ValueError when it cannot be read."""
    if file is None:
        return default_text()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not a readable UTF-8 text ({error})") from None


@dataclass(frozen=True, slots=True)
class Scored:
    """What a run predicted for a text: log-probabilities behind each token, and the tokens that really followed."""

    log_probs: Tensor  # [n, vocab_size] fp32
    targets: Tensor  # [n] int64

    @classmethod
    def from_logits(cls, logits: Tensor, targets: Tensor) -> Scored:
        """Normalise logits [n, vocab_size]."""
        if len(logits) != len(targets) or len(targets) < 2:
            raise ValueError(
                f"logits, targets: got lengths {len(logits)}, {len(targets)}, expected equal lengths of at least 2"
            )
        return cls(torch.log_softmax(logits.float(), -1), targets)

    @property
    def losses(self) -> Tensor:
        """Negative log-likelihood of each target in nats, [n]."""
        return -self.log_probs.gather(1, self.targets[:, None])[:, 0].double()


def perplexity(run: Scored) -> dict[str, Any]:
    """Return exp of the mean negative log-likelihood."""
    mean, error = _mean_and_error(run.losses)
    return _record(math.exp(mean), math.exp(mean - error), math.exp(mean + error), len(run.targets))


def perplexity_ratio(run: Scored, reference: Scored) -> dict[str, Any]:
    """Perplexity over that of the reference; exactly 1 when the two predict the same."""
    mean, error = _mean_and_error(run.losses - reference.losses)
    return _record(math.exp(mean), math.exp(mean - error), math.exp(mean + error), len(run.targets))


def mean_kl(run: Scored, reference: Scored) -> dict[str, Any]:
    """Mean Kullback-Leibler divergence of the run from the reference, in nats: ``sum_v p_ref (ln p_ref - ln p_run)``.

    The lower end of the interval is at least 0, since a divergence is.
    """
    divergence = (reference.log_probs.exp() * (reference.log_probs - run.log_probs)).sum(-1).double()
    mean, error = _mean_and_error(divergence)
    return _record(mean, max(0.0, mean - error), mean + error, len(run.targets))


def top1_agreement(run: Scored, reference: Scored) -> dict[str, Any]:
    """Share of tokens for which both hold the same next token most likely; Wilson interval."""
    n = len(run.targets)
    share = float((run.log_probs.argmax(-1) == reference.log_probs.argmax(-1)).double().mean())
    low, high = wilson_interval(share, n)
    return _record(share, low, high, n)


def wilson_interval(share: float, n: int, z: float = _Z90) -> tuple[float, float]:
    """Wilson's score interval of a share observed in n trials (E. B. Wilson, 1927)."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def compare(run: Scored, reference: Scored) -> dict[str, dict[str, Any]]:
    """All four measures, by name."""
    return {
        "perplexity": perplexity(run),
        "perplexity_ratio": perplexity_ratio(run, reference),
        "mean_kl": mean_kl(run, reference),
        "top1_agreement": top1_agreement(run, reference),
    }


def _mean_and_error(x: Tensor) -> tuple[float, float]:
    return float(x.mean()), _Z90 * float(x.std()) / math.sqrt(len(x))


def _record(median: float, q05: float, q95: float, n: int) -> dict[str, Any]:
    return {"median": median, "q05": q05, "q95": q95, "n": n, "provenance": "measured"}
