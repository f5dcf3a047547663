"""Cases of the bench: causal attention of a prompt's tokens. Shapes are (n_heads, n_kv_heads, head_dim, n_new, n_keys).

It is bound by arithmetic, so no share of the bandwidth is asked for; the variants are there to be compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernels.bench import Case
from kernels.prefill import cases as variants

QUICK_SHAPES = ((9, 3, 64, 512, 1024),)
SHAPES = (*QUICK_SHAPES, (32, 8, 128, 256, 1024), (16, 16, 64, 1024, 1024))


def cases(quick: bool, device: str) -> Iterator[Case]:
    """Yield the cases; `quick` takes one shape."""
    for shape in QUICK_SHAPES if quick else SHAPES:
        yield from variants(shape, torch.float32, device)
