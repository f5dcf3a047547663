"""Pruning of activations: the smallest magnitudes become zero; a bit mask says where, when the rest is packed.

Zeros save no bytes by themselves, and packing saves them only below a kept share of 1 - 1 / bits per value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SAMPLE_SHARE = 1 / 64
QUANTILE_LIMIT = 1 << 24
"""torch.quantile refuses more elements than this."""
_BITS = 1 << torch.arange(8, dtype=torch.uint8)


def threshold(x: Tensor, pruned_share: float) -> float:
    """Return the magnitude below which a share of the values lies, exactly; linear between neighbours.

    Parameters
    ----------
    x : Tensor
        At least one value; any size, also above `QUANTILE_LIMIT`.
    pruned_share : float
        0 <= share <= 1.
    """
    _check_share(pruned_share)
    magnitude = x.detach().abs().flatten().float()
    n = magnitude.numel()
    if n == 0:
        raise ValueError("x: got no values, expected at least 1")
    if n <= QUANTILE_LIMIT:
        return float(torch.quantile(magnitude, pruned_share))
    position = pruned_share * (n - 1)
    low = int(position)
    below = float(magnitude.kthvalue(low + 1).values)
    above = float(magnitude.kthvalue(min(low + 2, n)).values)
    return below + (above - below) * (position - low)


def sampled_threshold(x: Tensor, pruned_share: float, sample_share: float = SAMPLE_SHARE, seed: int = 0) -> float:
    """Return `threshold` of a random sample: the kept share is off by ``sqrt(p (1 - p) / n)``, n values sampled.

    Parameters
    ----------
    x : Tensor
        At least one value.
    pruned_share : float
        0 <= share <= 1.
    sample_share : float
        Share of the values looked at, 0 < share <= 1; at least 1024 values.
    seed : int
        Of the sample.
    """
    if not 0 < sample_share <= 1:
        raise ValueError(f"sample_share: got {sample_share}, expected 0 < share <= 1")
    flat = x.detach().flatten()
    n = min(flat.numel(), max(1024, round(flat.numel() * sample_share)))
    if n == flat.numel():
        return threshold(flat, pruned_share)
    generator = torch.Generator(x.device).manual_seed(seed)
    index = torch.randint(flat.numel(), (n,), generator=generator, device=x.device)
    return threshold(flat[index], pruned_share)


def prune(x: Tensor, at: float, out: Tensor | None = None) -> Tensor:
    """Set to zero what is no larger than a threshold, ``|x| <= at``, into `out` (which may be x).

    A fresh output costs more than the pruning, since its pages are touched for the first time.
    """
    if at < 0:
        raise ValueError(f"at: got {at}, expected 0 or more")
    pruned: Tensor = torch.ops.aten.hardshrink.out(x, at, out=torch.empty_like(x) if out is None else out)
    return pruned


def keep_largest(x: Tensor, kept_share: float) -> Tensor:
    """Set all but the largest magnitudes of each row to zero, in place: ``ceil(kept_share n)`` of n are kept.

    Values as large as the largest dropped one are dropped with it.

    Parameters
    ----------
    x : Tensor
        [n_rows, n].
    kept_share : float
        0 < share <= 1.
    """
    if not 0 < kept_share <= 1:
        raise ValueError(f"kept_share: got {kept_share}, expected 0 < share <= 1")
    n = x.shape[-1]
    n_dropped = n - math.ceil(kept_share * n - 1e-9)
    if not n_dropped:
        return x
    magnitude = x.abs()
    return x.masked_fill_(magnitude <= magnitude.kthvalue(n_dropped, -1, keepdim=True).values, 0)


@dataclass(frozen=True, slots=True)
class Packed:
    """Values that are not zero, in order, and a bit for each place: 1 where there is one."""

    shape: tuple[int, ...]
    mask: Tensor  # uint8 [ceil(n / 8)], lowest bit first
    values: Tensor  # [n_kept]

    @property
    def byte(self) -> int:
        """Bytes held."""
        return self.mask.nbytes + self.values.nbytes


def pack(x: Tensor) -> Packed:
    """Pack a tensor that has zeros."""
    flat = x.flatten()
    kept = flat != 0
    padded = torch.nn.functional.pad(kept, (0, -flat.numel() % 8)).view(-1, 8)
    mask = (padded * _BITS.to(x.device)).sum(-1, dtype=torch.uint8)
    return Packed(tuple(x.shape), mask, flat[kept])


def unpack(packed: Packed) -> Tensor:
    """Undo `pack`, bit for bit but for the sign of zeros."""
    n = torch.Size(packed.shape).numel()
    kept = ((packed.mask[:, None] & _BITS.to(packed.mask.device)) != 0).flatten()[:n]
    out = torch.zeros(n, dtype=packed.values.dtype, device=packed.values.device)
    out[kept] = packed.values
    return out.view(packed.shape)


def _check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"pruned_share: got {share}, expected 0 <= share <= 1")
