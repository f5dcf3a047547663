"""Attention over cached keys and values: of one new token (decoding), and of several at once (a prompt).

In decoding, the query heads that share a KV head are folded into rows, so that a key is read once for all of them.
Queries are scaled by head_dim**-0.5 beforehand. The order of the keys does not matter: positions are rotated into
them before they are cached.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend over keys and values in a float type: ``softmax(q k^T + mask) v``.

    Parameters
    ----------
    q : Tensor
        [1, n_kv_heads, n_groups, head_dim] in the type of the keys, scaled.
    k, v : Tensor
        [1, n_kv_heads, n_keys, head_dim], n_keys >= 1.
    mask : Tensor, optional
        Added to the scores, [n_kv_heads, 1, n_keys]; -inf hides a key.

    Returns
    -------
    Tensor
        [1, n_kv_heads, n_groups, head_dim] in the same type, contiguous.
    """
    if k.shape[2] < 1:
        raise ValueError("k: got 0 keys, expected at least 1")
    if mask is not None:
        mask = mask.to(k.dtype).expand(1, -1, q.shape[2], -1)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
    return out.contiguous()  # CUDA's kernels lay the heads of a token side by side


def attend_int8(
    q: Tensor,
    k: Sequence[Tensor],
    k_scale: Tensor,
    v_t: Sequence[Tensor],
    v_scale: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Attend over int8 keys and values with one scale per token and head.

    The scale of a key multiplies its score and the scale of a value its probability, so nothing is dequantised. Scores
    and probabilities are rounded to bf16, the only type that torch's int8 kernel takes without falling back to a slow
    path.

    Parameters
    ----------
    q : Tensor
        [1, n_kv_heads, n_groups, head_dim] fp32, scaled.
    k : sequence of Tensor
        Per KV head the keys, [n_keys, head_dim] int8, contiguous, n_keys >= 1.
    k_scale, v_scale : Tensor
        [n_kv_heads, 1, n_keys] fp32.
    v_t : sequence of Tensor
        Per KV head the values, [head_dim, capacity] int8, contiguous; capacity is a multiple of 16, at least n_keys.
        What lies beyond n_keys is not used.
    mask : Tensor, optional
        [n_kv_heads, 1, n_keys], added to the scores.

    Returns
    -------
    Tensor
        [n_kv_heads * n_groups, head_dim] bf16.
    """
    n_keys, (head_dim, capacity) = k[0].shape[0], v_t[0].shape
    if not 1 <= n_keys <= capacity:
        raise ValueError(f"k: got {n_keys} keys, expected 1 to {capacity}")
    if capacity % 16:  # the kernel silently skips the rest
        raise ValueError(f"v_t: got a capacity of {capacity}, expected a multiple of 16")
    unit = torch.ones(max(n_keys, head_dim), dtype=torch.bfloat16, device=q.device)
    n_kv_heads = len(k)
    products = [
        torch._weight_int8pack_mm(row, head, unit[:n_keys]) for row, head in zip(q[0].bfloat16(), k, strict=True)
    ]
    scores = torch.stack(products) * k_scale
    weights = torch.softmax(scores if mask is None else scores + mask, -1).mul_(v_scale)
    if n_keys < capacity:
        weights = F.pad(weights, (0, capacity - n_keys))
    rows = weights.bfloat16()
    return torch.cat([torch._weight_int8pack_mm(rows[h], v_t[h], unit[:head_dim]) for h in range(n_kv_heads)])


def attend_rows(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend causally from the last tokens of a sequence, over all keys cached before and among themselves.

    Parameters
    ----------
    q : Tensor
        [n_heads, n_new, head_dim] fp32, scaled.
    k, v : Tensor
        [n_kv_heads, n_keys, head_dim] fp32; the last n_new belong to the new tokens.
    mask : Tensor, optional
        [n_kv_heads, 1, n_keys], added to the scores.

    Returns
    -------
    Tensor
        [n_heads, n_new, head_dim].
    """
    n_groups = q.shape[0] // k.shape[0]
    n_new, n_keys = q.shape[1], k.shape[1]
    k, v = k.repeat_interleave(n_groups, 0)[None], v.repeat_interleave(n_groups, 0)[None]
    if n_keys == n_new and mask is None:
        return F.scaled_dot_product_attention(q[None], k, v, is_causal=True, scale=1.0)[0]
    hidden = torch.full((n_new, n_keys), -torch.inf, device=q.device).triu_(n_keys - n_new + 1)
    if mask is not None:
        hidden = hidden + mask.repeat_interleave(n_groups, 0)
    return F.scaled_dot_product_attention(q[None], k, v, attn_mask=hidden.expand(1, len(q), -1, -1), scale=1.0)[0]
