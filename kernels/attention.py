"""Attention of one new token over cached keys and values.

The query heads that share a KV head are folded into rows, so that a key is read once for all of them:
q is [n_kv_heads, n_groups, head_dim], already scaled by head_dim**-0.5; keys and values are [n_kv_heads, n_keys,
head_dim]. The order of the keys does not matter: positions are rotated into them before they are cached.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def attend_float(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend over fp32 keys and values: ``softmax(q k^T + mask) v``.

    Parameters
    ----------
    q : Tensor
        [n_kv_heads, n_groups, head_dim] fp32, scaled.
    k, v : Tensor
        [n_kv_heads, n_keys, head_dim] fp32, n_keys >= 1.
    mask : Tensor, optional
        Added to the scores, [n_kv_heads, 1, n_keys]; -inf hides a key.

    Returns
    -------
    Tensor
        [n_kv_heads, n_groups, head_dim] fp32.
    """
    if k.shape[1] < 1:
        raise ValueError("k: got 0 keys, expected at least 1")
    scores = torch.bmm(q, k.transpose(1, 2)) if mask is None else torch.baddbmm(mask, q, k.transpose(1, 2))
    return torch.bmm(torch.softmax(scores, -1), v)


def attend_half(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend over bf16 keys and values; as `attend_float`, with q fp32 and the products in bf16."""
    if k.shape[1] < 1:
        raise ValueError("k: got 0 keys, expected at least 1")
    if mask is not None:
        mask = mask.to(k.dtype).expand(-1, q.shape[1], -1)[None]
    out = F.scaled_dot_product_attention(q.to(k.dtype)[None], k[None], v[None], attn_mask=mask, scale=1.0)
    return out[0].float()


def attend_int8(
    q: Tensor, k: Tensor, k_scale: Tensor, v_t: Tensor, v_scale: Tensor, n_keys: int, mask: Tensor | None = None
) -> Tensor:
    """Attend over int8 keys and values with one scale per token and head.

    The scale of a key multiplies its score and the scale of a value its probability, so nothing is dequantised.

    Parameters
    ----------
    q : Tensor
        [n_kv_heads, n_groups, head_dim] fp32, scaled.
    k : Tensor
        [n_kv_heads, capacity, head_dim] int8.
    k_scale : Tensor
        [n_kv_heads, capacity] bf16.
    v_t : Tensor
        [n_kv_heads, head_dim, capacity] int8; zero beyond `n_keys`. capacity is a multiple of 32.
    v_scale : Tensor
        [n_kv_heads, 1, capacity] fp32.
    n_keys : int
        How many keys are there, 1..capacity.
    mask : Tensor, optional
        [n_kv_heads, 1, n_keys], added to the scores.
    """
    if not 1 <= n_keys <= k.shape[1]:
        raise ValueError(f"n_keys: got {n_keys}, expected 1..{k.shape[1]}")
    if k.shape[1] % 32:
        raise ValueError(f"capacity: got {k.shape[1]}, expected a multiple of 32")
    q16 = q.bfloat16()
    scores = torch.stack([torch._weight_int8pack_mm(q16[h], k[h, :n_keys], k_scale[h, :n_keys]) for h in range(len(k))])
    scores = scores.float() if mask is None else scores + mask
    weights = torch.softmax(scores, -1).mul_(v_scale[:, :, :n_keys])
    if n_keys < k.shape[1]:
        weights = F.pad(weights, (0, k.shape[1] - n_keys))
    weights16 = weights.bfloat16()
    ones = torch.ones(v_t.shape[1], dtype=torch.bfloat16)
    return torch.stack([torch._weight_int8pack_mm(weights16[h], v_t[h], ones) for h in range(len(k))]).float()


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
    hidden = torch.full((n_new, n_keys), -torch.inf).triu_(n_keys - n_new + 1)
    if mask is not None:
        hidden = hidden + mask.repeat_interleave(n_groups, 0)
    return F.scaled_dot_product_attention(q[None], k, v, attn_mask=hidden.expand(1, len(q), -1, -1), scale=1.0)[0]
