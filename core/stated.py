"""What a published row states of its model and its contexts: parameters, bytes, shape and tokens.

What it does not state is guessed from what it does, without looking at what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from core.published_rows import PublishedRow
from core.spec import ModelShape
from core.units import BIT_PER_BYTE

UNTIED_EMBEDDING_FRAC = 0.05  # of the parameters, where only a total is stated (median of the catalogue's models)
UNKNOWN_TOKENS = 128.0  # of context, where nothing is stated
PROMPT_CHUNK_TOKENS = 128.0  # of the prompt that such a graph takes at once (quic/ai-hub-models, all its models)
COPIED_DIGITS = 4
ANY_CONTEXT = 10_000_000  # a table may have gone beyond what a model was trained on
FP16_BYTE = 2
ACTIVE = re.compile(r"A(\d+(?:\.\d+)?)([BM])\b")  # parameters that a token reads, in the name of a mixture
ESTIMATED = "estimate"  # of `weight_basis`: parameters times nominal bits, without scales


def context_tokens(row: PublishedRow) -> float:
    """Return the mean context while decoding, as far as the row tells: the prompt and half of what was generated."""
    prompt = row.number.get("prompt_tokens")
    tokens = prompt + row.number.get("gen_tokens", UNKNOWN_TOKENS) / 2.0 if prompt else UNKNOWN_TOKENS
    return max(row.number.get("context_tokens", tokens), 1.0)


def graph_tokens(row: PublishedRow) -> float:
    """Return the context that a compiled graph reads at every token: its limit, however little of it is filled."""
    return stated_graph_tokens(row) or context_tokens(row)


def stated_graph_tokens(row: PublishedRow) -> float:
    """Return the context that a graph was compiled for; 0 where the row does not tell.

    The time to first token of a full context is a whole number of runs of the graph that takes a chunk of the prompt.
    """
    n_chunks = row.number.get("ttft_full_context_ms", 0.0) / row.number.get("ttft_ms", np.inf)
    timed = PROMPT_CHUNK_TOKENS * round(n_chunks) if n_chunks > 1.5 else 0.0
    return timed or row.number.get("context_limit_tokens", 0.0)


def without_ttft(row: PublishedRow) -> PublishedRow:
    """Return the row without its time to first token."""
    return replace(row, number={name: x for name, x in row.number.items() if name not in ("ttft_ms", "prefill_tok_s")})


def copied_prompts(rows: Sequence[PublishedRow]) -> dict[int, str]:
    """Return the lines whose time to first token is that of another weight format of the model, and that format.

    Times of four digits and more do not agree by chance: a table's author copied one. The first one is believed.
    """
    first, copied = dict[tuple[object, ...], str](), dict[int, str]()
    for row in rows:
        ttft_s = row.number.get("ttft_ms", 0.0)
        digits = f"{ttft_s * 1e3:.9g}".replace(".", "").strip("0")
        names = (row.text[key] for key in ("board_key", "board", "compute"))
        quant = first.setdefault((*names, row.text["model_key"] or row.text["model"], ttft_s), row.text["quant"])
        if quant != row.text["quant"] and len(digits) >= COPIED_DIGITS:
            copied[row.line] = quant
    return copied


def without_unknown_prompt(row: PublishedRow) -> PublishedRow:
    """Leave out a time to first token that the row itself shows to be of the full context, of unstated length."""
    ttft, full = row.number.get("ttft_ms"), row.number.get("ttft_full_context_ms")
    if ttft is None or full is None or full > 1.5 * ttft or "prompt_tokens" in row.number:
        return row
    limit, bare = row.number.get("context_limit_tokens"), without_ttft(row)
    return replace(bare, number={**bare.number, "ttft_ms": ttft, "prompt_tokens": limit}) if limit else bare


def streamed_params(row: PublishedRow, known: ModelShape | None = None) -> float | None:
    """Return the parameters that a token reads, as far as the row, the catalogue or the model's name states them."""
    stated = row.number.get("params_streamed_b")
    if stated is not None:
        return stated
    if known is not None:
        return known.body_params + known.head_params
    active = ACTIVE.search(row.text["model"])
    if active:
        return float(active[1]) * (1e9 if active[2] == "B" else 1e6)
    if row.text["moe_or_sparse"].lower() == "true":
        return None
    total = row.number.get("params_b")
    return None if total is None else total * (1.0 - UNTIED_EMBEDDING_FRAC)


def streamed_byte(row: PublishedRow, known: ModelShape | None = None) -> float | None:
    """Return the bytes of weights that a token reads [byte]; None where the row does not tell.

    The row's own figure where it also states the parameters read; else that share of the whole that the parameters
    read are of all, since what is stated then counts the input embedding and idle experts.
    """
    if known is not None and row.text.get("weight_basis", "").startswith(ESTIMATED):
        return None
    stated = row.number.get("weight_stream_bytes")
    if stated is not None and "params_streamed_b" in row.number:
        return stated
    params, total = streamed_params(row, known), known.total_params if known else row.number.get("params_b")
    whole = stated or row.number.get("weight_bytes")
    if params is None:
        return stated
    if total and whole:
        return whole * min(params / total, 1.0)
    bits = bits_stated(row)
    return params * bits / BIT_PER_BYTE if bits else stated


def bits_stated(row: PublishedRow) -> float | None:
    """Return the bits of a weight that the row states, with scales where it tells those."""
    return row.number.get("bits_per_weight") or row.number.get("weight_bits")


def described_shape(row: PublishedRow, key: str, params: float) -> ModelShape:
    """Return the typical shape of so many parameters read per token; of a mixture, its total counts idle experts."""
    shape = typical_shape(key, row.text["model"], params, row.number.get("kv_bytes_per_token"))
    mixture = row.text["moe_or_sparse"].lower() == "true" or ACTIVE.search(row.text["model"]) is not None
    return replace(shape, total_params=max(row.number.get("params_b", 0.0), params)) if mixture else shape


def typical_shape(key: str, name: str, params: float, kv_byte_per_token: float | None) -> ModelShape:
    """Return the shape that a dense decoder of so many parameters read per token typically has.

    Layers ``24.3 (params / 1e9)**0.233`` (least squares over the catalogue's models, log-sd 0.23); a layer has 12 h**2
    parameters; heads of 128; a vocabulary of a twentieth; a KV head for four others where the cache is not stated.
    """
    n_layers = max(2, round(24.3 * (params / 1e9) ** 0.233))
    head_params = UNTIED_EMBEDDING_FRAC * params
    body = params - head_params
    n_heads = max(1, round(float(np.sqrt(body / (12.0 * n_layers))) / 128.0))
    kv_width = 32.0 * n_heads if kv_byte_per_token is None else kv_byte_per_token / (2 * FP16_BYTE * n_layers)
    n_kv_heads = max(1, round(kv_width / 128.0))
    head_dim = max(1, round(kv_width / n_kv_heads))
    hidden = 128 * n_heads
    return ModelShape(
        key=key,
        name=name,
        n_layers=n_layers,
        hidden_size=hidden,
        n_heads=max(1, round(hidden / head_dim)),
        n_kv_heads=n_kv_heads,
        head_dim=head_dim,
        intermediate_size=4 * hidden,
        vocab_size=max(1, round(head_params / hidden)),
        tied_embeddings=True,
        body_params=body,
        head_params=head_params,
        total_params=params,
        max_context_tokens=ANY_CONTEXT,
    )
