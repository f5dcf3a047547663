"""Attention of many queries at once, tile by tile with an online softmax: scores are never held as a whole.

A partial softmax state (maximum, sum of exponentials, weighted values) describes attention over some of the keys;
states over different keys merge into that over all, in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.attention.cached import attend_rows
from kernels.bench.harness import Case
from kernels.decoder.autotune import choose


class SoftmaxState(NamedTuple):
    """Attention of rows over some keys: ``values / total`` is the output over them alone."""

    largest: Tensor  # [..., n_rows, 1] the largest score; -inf over no keys
    total: Tensor  # [..., n_rows, 1] sum of exp(score - largest)
    values: Tensor  # [..., n_rows, head_dim] sum of exp(score - largest) v

    def output(self) -> Tensor:
        """Return the attention output over the keys seen."""
        return self.values / self.total


def softmax_state(scores: Tensor, v: Tensor) -> SoftmaxState:
    """Return the state of scores [b, n_rows, n_keys] over values [b, n_keys, head_dim]."""
    largest = scores.amax(-1, keepdim=True)
    finite = largest.masked_fill(largest == -torch.inf, 0)
    weights = (scores - finite).exp_()
    return SoftmaxState(largest, weights.sum(-1, keepdim=True), torch.bmm(weights.to(v.dtype), v).float())


def merge(a: SoftmaxState, b: SoftmaxState) -> SoftmaxState:
    """Merge two states over different keys; associative and commutative up to rounding."""
    largest = torch.maximum(a.largest, b.largest)
    finite = largest.masked_fill(largest == -torch.inf, 0)
    x, y = (a.largest - finite).exp(), (b.largest - finite).exp()
    return SoftmaxState(largest, a.total * x + b.total * y, a.values * x + b.values * y)


def attend_tiles(q: Tensor, k: Tensor, v: Tensor, row_tile: int = 64, key_tile: int = 512) -> Tensor:
    """Attend causally from the last tokens of a sequence, over all keys before and among themselves.

    The query heads of a KV head are folded into rows, so that a tile of keys is read once for all of them; tiles that
    lie in the future of all their rows are left out.

    Parameters
    ----------
    q : Tensor
        [n_heads, n_new, head_dim], scaled, in the type of the keys.
    k, v : Tensor
        [n_kv_heads, n_keys, head_dim]; the last n_new belong to the new tokens.
    row_tile, key_tile : int
        Queries and keys worked on together, >= 1.

    Returns
    -------
    Tensor
        [n_heads, n_new, head_dim] in the type of the keys.
    """
    if row_tile < 1 or key_tile < 1:
        raise ValueError(f"row_tile, key_tile: got {row_tile}, {key_tile}, expected at least 1")
    _, n_new, head_dim = q.shape
    n_kv_heads, n_keys, _ = k.shape
    if n_new > n_keys:
        raise ValueError(f"q: got {n_new} queries, expected at most the {n_keys} keys")
    grouped = q.view(n_kv_heads, -1, n_new, head_dim)
    out = torch.empty_like(q)
    for first in range(0, n_new, row_tile):
        rows = grouped[:, :, first : first + row_tile]
        n_rows = rows.shape[2]
        seen = n_keys - n_new + first  # keys before the tile's first row
        folded = rows.reshape(n_kv_heads, -1, head_dim)
        state: SoftmaxState | None = None
        for start in range(0, seen + n_rows, key_tile):
            end = min(start + key_tile, seen + n_rows)
            scores = torch.bmm(folded, k[:, start:end].transpose(1, 2)).float()
            if end > seen + 1:
                future = torch.full((n_rows, end - start), -torch.inf, device=q.device).triu_(seen - start + 1)
                scores.view(n_kv_heads, -1, n_rows, end - start).add_(future)
            part = softmax_state(scores, v[:, start:end])
            state = part if state is None else merge(state, part)
        assert state is not None
        target = out.view(n_kv_heads, -1, n_new, head_dim)[:, :, first : first + row_tile]
        target.copy_(state.output().view(target.shape))
    return out


VARIANTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "torch SDPA": attend_rows,
    "tiles 64x512": lambda q, k, v: attend_tiles(q, k, v, 64, 512),
    "tiles 128x512": lambda q, k, v: attend_tiles(q, k, v, 128, 512),
}
"""Which one is the fastest depends on the head's size, the type, and whether heads share keys."""
MIN_ROWS = 64
"""Fewer queries than this are left to SDPA."""
_TUNED_NEW, _TUNED_KEYS = 256, 1024  # the size that variants are compared at


def attend_prompt(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend as `kernels.attention.cached.attend_rows` does, by the variant that is fastest for these heads here."""
    n_new, n_keys = q.shape[1], k.shape[1]
    if mask is not None or n_new < MIN_ROWS or n_new > n_keys:
        return attend_rows(q, k, v, mask)
    return VARIANTS[fastest_variant(q.shape[0], k.shape[0], q.shape[2])](q, k, v)


@functools.cache
def fastest_variant(n_heads: int, n_kv_heads: int, head_dim: int) -> str:
    """Return the name of the fastest of `VARIANTS` in fp32; the first time on a machine it is measured, about 1 s."""
    shape = (n_heads, n_kv_heads, head_dim, _TUNED_NEW, _TUNED_KEYS)
    return choose("prefill attention", "fp32", shape, list(VARIANTS), cases(shape, torch.float32))


def cases(shape: tuple[int, int, int, int, int], dtype: torch.dtype, device: str = "cpu") -> Iterator[Case]:
    """Yield the variants for (n_heads, n_kv_heads, head_dim, n_new, n_keys)."""
    n_heads, n_kv_heads, head_dim, n_new, n_keys = shape
    generator = torch.Generator().manual_seed(0)

    def randn(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator).to(device, dtype)

    q = randn(n_heads, n_new, head_dim) * head_dim**-0.5
    k, v = randn(n_kv_heads, n_keys, head_dim), randn(n_kv_heads, n_keys, head_dim)
    name = str(dtype).removeprefix("torch.")
    byte = float(2 * q.nbytes + k.nbytes + v.nbytes)
    for variant, attend in VARIANTS.items():
        run = functools.partial(attend, q, k, v)
        check = functools.partial(_check, attend, q, k, v)
        yield Case("prefill attention", variant, shape, name, byte, run, check)


def _check(attend: Callable[[Tensor, Tensor, Tensor], Tensor], q: Tensor, k: Tensor, v: Tensor) -> None:
    n_new, n_keys = q.shape[1], k.shape[1]
    n_groups = q.shape[0] // k.shape[0]
    wide_k, wide_v = (x.double().repeat_interleave(n_groups, 0) for x in (k, v))
    future = torch.full((n_new, n_keys), -torch.inf, dtype=torch.float64, device=q.device).triu_(n_keys - n_new + 1)
    expected = torch.softmax(torch.bmm(q.double(), wide_k.transpose(1, 2)) + future, -1) @ wide_v
    error = float((attend(q, k, v).double() - expected).abs().max())
    allowed = 1e-5 if q.dtype == torch.float32 else 3e-2
    if not error <= allowed:
        raise ValueError(f"largest error {error:.2g}, expected at most {allowed:g}")
