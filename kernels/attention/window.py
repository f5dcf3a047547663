"""Attention beyond a softmax over all tokens: windows by layer, and soft-capped scores.

A soft cap c turns a score s into ``c tanh(s / c)`` before the softmax (Gemma 2, arXiv 2408.00118). A window of w tokens
lets a token attend to itself and the w - 1 before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """Attention of the layers of a model.

    Attributes
    ----------
    windows : by layer, the tokens that a token attends to, itself among them; None for all. Empty for no windows.
    soft_cap : of the scores; None for none
    """

    windows: tuple[int | None, ...] = ()
    soft_cap: float | None = None

    def window(self, layer: int) -> int | None:
        """Return the window of a layer; None when it attends to all tokens."""
        return self.windows[layer] if self.windows else None

    def first_key(self, layer: int, n_keys: int) -> int:
        """Return the first of `n_keys` keys that the last token attends to in a layer."""
        window = self.window(layer)
        return 0 if window is None else max(0, n_keys - window)

    def tokens_read(self, n_keys: int) -> float:
        """Return the number of keys that the last token attends to, mean over the layers."""
        if not self.windows:
            return n_keys
        return sum(n_keys - self.first_key(layer, n_keys) for layer in range(len(self.windows))) / len(self.windows)


PLAIN = AttentionRule()
"""Softmax over all tokens."""


def capped(scores: Tensor, soft_cap: float | None) -> Tensor:
    """Bound scores softly; they are overwritten."""
    return scores if soft_cap is None else scores.div_(soft_cap).tanh_().mul_(soft_cap)


def causal_scores(q: Tensor, k: Tensor, window: int | None = None, soft_cap: float | None = None) -> Tensor:
    """Return the scores of the last queries of a sequence, -inf where a query does not attend.

    Parameters
    ----------
    q : Tensor
        [n_heads, n_queries, head_dim], scaled: of the last tokens.
    k : Tensor
        [n_kv_heads, n_tokens, head_dim].
    window, soft_cap : int, float, optional
        As in `AttentionRule`.

    Returns
    -------
    Tensor
        [n_kv_heads, n_groups, n_queries, n_tokens].
    """
    n_kv_heads, n_tokens, head_dim = k.shape
    n_queries = q.shape[1]
    if not 1 <= n_queries <= n_tokens:
        raise ValueError(f"q: got {n_queries} queries, expected 1..{n_tokens}")
    scores = capped(torch.bmm(q.reshape(n_kv_heads, -1, head_dim), k.transpose(1, 2)), soft_cap)
    age = torch.arange(n_tokens - n_queries, n_tokens, device=q.device)[:, None] - torch.arange(
        n_tokens, device=q.device
    )
    unseen = age < 0 if window is None else (age < 0) | (age >= window)
    return scores.view(n_kv_heads, -1, n_queries, n_tokens).masked_fill_(unseen, -torch.inf)


def attend_rows_by_rule(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, window: int | None, soft_cap: float | None
) -> Tensor:
    """Attend causally from the last tokens of a sequence, as `kernels.attention.cached.attend_rows`, by a rule.

    Keys that lie before the window of every new token are not read.
    """
    n_new, n_keys = q.shape[1], k.shape[1]
    first = 0 if window is None else max(0, n_keys - n_new - window + 1)
    n_groups, out = q.shape[0] // k.shape[0], torch.empty_like(q)
    for head in range(k.shape[0]):  # one by one, since all scores at once may be large
        heads = slice(head * n_groups, (head + 1) * n_groups)
        scores = causal_scores(q[heads], k[head : head + 1, first:], window, soft_cap)[0]
        if mask is not None:
            scores += mask[head, :, first:]
        out[heads] = torch.softmax(scores, -1) @ v[head, first:]
    return out


def attend_capped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, soft_cap: float) -> Tensor:
    """Attend from one token as `kernels.attention.cached.attend` does, with soft-capped scores."""
    scores = capped((q @ k.transpose(2, 3)).float(), soft_cap)
    if mask is not None:
        scores += mask
    return torch.softmax(scores, -1).to(v.dtype) @ v
