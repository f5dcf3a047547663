"""Accuracy of a run against a reference run on the same text: perplexity, its ratio, KL divergence, top-1 agreement.

All four compare the distributions behind the same tokens (teacher forcing), so that the differences are paired: the
text's own difficulty cancels. Tokens of one stretch of text are alike, so several windows of it are pooled: an interval
is 90 % and the wider of two, one that takes all tokens as independent and one that takes only the windows as such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_Z90 = 1.645  # normal quantile of a two-sided 90 % interval
_T90 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)  # the same of Student's t, 1 to 10 df


def default_text() -> str:
    """Return the text that every Python carries: its own reference documentation."""
    from pydoc_data.topics import topics  # 700 kB; only loaded when needed

    return "\n\n".join(topics[name] for name in sorted(topics))


def read_text(file: Path | None, most_characters: int) -> str:
    """Return the beginning of a text file (UTF-8), or of `default_text`. ValueError when it cannot be read."""
    if file is None:
        return default_text()[:most_characters]
    try:
        if file.exists() and not file.is_file():
            raise ValueError(f"{file}: not a file (a folder, a pipe or a device): expected a UTF-8 text file")
        with file.open(encoding="utf-8") as text:
            return text.read(most_characters)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{file}: not a readable UTF-8 text ({error})") from None


@dataclass(frozen=True, slots=True)
class Scored:
    """Predictions of a run for a text: log-probabilities after each token, and the tokens that followed."""

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


@dataclass(frozen=True, slots=True)
class Window:
    """A run against the reference, token by token, over one window of text; each [n] float64."""

    loss: Tensor  # negative log-likelihood of the token that followed [nat]
    reference_loss: Tensor
    divergence: Tensor  # sum_v p_ref (ln p_ref - ln p_run) [nat]
    agrees: Tensor  # 1 where both hold the same next token most likely
    lost: Tensor  # 1 where the reference holds the token that followed most likely and the run does not, -1 vice versa

    @classmethod
    def of(cls, run: Scored, reference: Scored) -> Window:
        """Compare two runs over the same tokens."""
        divergence = (reference.log_probs.exp() * (reference.log_probs - run.log_probs)).sum(-1).double()
        chosen, expected = run.log_probs.argmax(-1), reference.log_probs.argmax(-1)
        right = [(each == reference.targets).double() for each in (chosen, expected)]
        return cls(run.losses, reference.losses, divergence, (chosen == expected).double(), right[1] - right[0])


def pooled(windows: Sequence[Window]) -> dict[str, dict[str, Any]]:
    """Return the four measures by name, over windows of equal length, each a measured record.

    ``perplexity`` is exp of the mean negative log-likelihood; ``perplexity_ratio`` that over the reference's, exactly 1
    when the two predict the same; ``mean_kl`` the mean divergence from the reference in nats, the lower end of its
    interval at least 0; ``top1_agreement`` a share of tokens with Wilson's interval, its number of trials reduced where
    windows differ by more than chance.
    """
    n = sum(len(window.loss) for window in windows)
    mean, error = mean_and_error([window.loss for window in windows])
    ratio, ratio_error = mean_and_error([window.loss - window.reference_loss for window in windows])
    kl, kl_error = mean_and_error([window.divergence for window in windows])
    return {
        "perplexity": _record(math.exp(mean), math.exp(mean - error), math.exp(mean + error), n),
        "perplexity_ratio": _record(math.exp(ratio), math.exp(ratio - ratio_error), math.exp(ratio + ratio_error), n),
        "mean_kl": _record(kl, max(0.0, kl - kl_error), kl + kl_error, n),
        "top1_agreement": share_record([window.agrees for window in windows]),
    }


def compare(run: Scored, reference: Scored) -> dict[str, dict[str, Any]]:
    """All four measures of one window, by name."""
    return pooled([Window.of(run, reference)])


def share_record(windows: Sequence[Tensor]) -> dict[str, Any]:
    """Describe a share of yes (1) among answers that come in windows, [n] each, with its 90 % interval."""
    n = sum(map(len, windows))
    share, error = mean_and_error(windows)
    by_chance = _Z90 * math.sqrt(share * (1 - share) / n)
    more_frac = max(1.0, (error / by_chance) ** 2) if by_chance > 0 else 1.0
    low, high = wilson_interval(share, n / more_frac)
    return _record(share, low, high, n)


def wilson_interval(share: float, n: float, z: float = _Z90) -> tuple[float, float]:
    """Wilson's score interval of a share observed in n trials (E. B. Wilson, 1927)."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_and_error(windows: Sequence[Tensor]) -> tuple[float, float]:
    """Return the mean of values that come in windows of equal length, and half its 90 % interval.

    The larger of the two: all values independent (normal quantile), or only the windows' means (Student's t).
    """
    values = torch.cat(list(windows))
    within = _Z90 * float(values.std()) / math.sqrt(len(values))
    n = len(windows)
    if n < 2:
        return float(values.mean()), within
    between = _t90(n - 1) * float(torch.stack([window.mean() for window in windows]).std()) / math.sqrt(n)
    return float(values.mean()), max(within, between)


def _t90(df: int) -> float:
    """Quantile of Student's t for a two-sided 90 % interval (beyond the table by the Cornish-Fisher expansion)."""
    z = _Z90
    return (
        _T90[df - 1] if df <= len(_T90) else z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    )


def _record(median: float, q05: float, q95: float, n: int) -> dict[str, Any]:
    return {"median": median, "q05": q05, "q95": q95, "n": n, "provenance": "measured"}
