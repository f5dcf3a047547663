"""Rounding of weights to a grid: each weight for itself, or with the error of each column fed back to the next ones.

Rounding a row w of a weight matrix to q changes the output for inputs x by (w - q)'x, in the mean square by
``(w - q)' H (w - q)`` with the second moment H of the inputs. Column by column, the error is spread over the columns
not yet rounded so that this grows least: ``w_k <- w_k - (w_j - q_j) U_jk / U_jj`` for k > j, with the upper Cholesky
factor U of the inverse of H [1]_. Columns with the largest moment come first.

References
----------
.. [1] frantar2023, docs/references.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

DAMPING_FRAC = 0.01
"""Share of the mean moment that is added to the diagonal of H, which may be singular."""
_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class Grid:
    """The values that weights [n_out, n_in] may have: ``scale q + low`` with whole q from `first` to `last`.

    Scale and low are fp32 [n_out, groups], one for `group` inputs; the last group may be shorter.
    """

    scale: Tensor
    low: Tensor
    group: int
    first: int
    last: int

    def by_input(self, n_in: int) -> tuple[Tensor, Tensor]:
        """Return scale and low of each weight, [n_out, n_in]."""
        scale, low = (part.repeat_interleave(self.group, 1)[:, :n_in] for part in (self.scale, self.low))
        return scale, low

    def values(self, q: Tensor) -> Tensor:
        """Return the weights that q [n_out, n_in] stands for."""
        scale, low = self.by_input(q.shape[1])
        return q * scale + low


Rounding = Callable[[Tensor, Grid], Tensor]
"""Returns the whole numbers q of fp32 weights [n_out, n_in] on a grid, as floats."""


def nearest(weight: Tensor, grid: Grid) -> Tensor:
    """Round each weight for itself."""
    scale, low = grid.by_input(weight.shape[1])
    q: Tensor = low.sub_(weight).neg_().div_(scale).round_().clamp_(grid.first, grid.last)
    return q


def with_feedback(moment: Tensor) -> Rounding:
    """Return the rounding that feeds errors back, for inputs of a second moment H [n_in, n_in].

    Each row takes that or plain rounding, whichever has the smaller ``(w - q)' H (w - q)``: never worse than plain.
    """

    def rounded(weight: Tensor, grid: Grid) -> Tensor:
        if moment.shape != (weight.shape[1],) * 2:
            raise ValueError(f"moment: got {tuple(moment.shape)}, expected {(weight.shape[1],) * 2}")
        plain, fed = nearest(weight, grid), _fed_back(weight, grid, moment)
        better = output_error(weight, grid.values(fed), moment) < output_error(weight, grid.values(plain), moment)
        return torch.where(better[:, None], fed, plain)

    return rounded


def output_error(weight: Tensor, rounded: Tensor, moment: Tensor) -> Tensor:
    """Return the mean square change of each output, ``(w - q)' H (w - q)`` by row [n_out]."""
    error = weight - rounded
    return ((error @ moment.to(error.dtype)) * error).sum(1)


def _fed_back(weight: Tensor, grid: Grid, moment: Tensor) -> Tensor:
    order = moment.diagonal().argsort(descending=True)
    factor = _inverse_factor(moment[order][:, order])
    scale, low = (part[:, order] for part in grid.by_input(weight.shape[1]))
    w, q = weight[:, order], torch.empty_like(weight)
    for start in range(0, w.shape[1], _COLUMNS):
        end = min(start + _COLUMNS, w.shape[1])
        block, errors = w[:, start:end].T.contiguous(), torch.empty(end - start, len(w))  # a row is a column of w
        scales, lows, own = scale[:, start:end].T, low[:, start:end].T, factor[start:end, start:end]
        for j in range(end - start):
            q_j = ((block[j] - lows[j]) / scales[j]).round_().clamp_(grid.first, grid.last)
            errors[j] = (block[j] - (q_j * scales[j] + lows[j])) / own[j, j]
            q[:, start + j] = q_j
            block[j + 1 :] -= own[j, j + 1 :, None] * errors[j]
        w[:, end:] -= errors.T @ factor[start:end, end:]
    return q[:, order.argsort()]


def _inverse_factor(moment: Tensor) -> Tensor:
    """Return the upper Cholesky factor of the inverse of the damped moment."""
    exact = moment.double()
    damping = DAMPING_FRAC * float(exact.diagonal().mean()) or 1.0
    exact = exact + damping * torch.eye(len(exact), dtype=torch.float64)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(exact))
    factor: Tensor = torch.linalg.cholesky(inverse, upper=True)
    return factor.to(moment.dtype)
