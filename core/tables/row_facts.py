"""What a published row states of its weights and its contexts: bytes and tokens. Nothing looks at what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from core.spec import ModelShape
from core.tables.models import ESTIMATED
from core.tables.rows import PublishedRow
from core.units import BIT_PER_BYTE

UNKNOWN_TOKENS = 128.0  # of context, where nothing is stated
COPIED_DIGITS = 4


def context_tokens(row: PublishedRow) -> float:
    """Return the mean context while decoding, as far as the row tells: the prompt and half of what was generated."""
    prompt = row.number.get("prompt_tokens")
    tokens = prompt + row.number.get("gen_tokens", UNKNOWN_TOKENS) / 2.0 if prompt else UNKNOWN_TOKENS
    return max(row.number.get("context_tokens", tokens), 1.0)


def graph_tokens(row: PublishedRow, prompt_chunk_tokens: float) -> float:
    """Return the context that a compiled graph reads at every token: its limit, however little of it is filled."""
    return compiled_graph_tokens(row, prompt_chunk_tokens) or context_tokens(row)


def compiled_graph_tokens(row: PublishedRow, prompt_chunk_tokens: float) -> float:
    """Return the context that a graph was compiled for; 0 where the row does not tell.

    `prompt_chunk_tokens` is what the graph takes of a prompt at once.
    The time to first token of a full context is a whole number of runs of the graph that takes a chunk of the prompt.
    """
    n_chunks = row.number.get("ttft_full_context_ms", 0.0) / row.number.get("ttft_ms", np.inf)
    timed = prompt_chunk_tokens * round(n_chunks) if n_chunks > 1.5 else 0.0
    return timed or row.number.get("context_limit_tokens", 0.0)


def without_ttft(row: PublishedRow) -> PublishedRow:
    """Return the row without its time to first token."""
    return replace(row, number={name: x for name, x in row.number.items() if name not in ("ttft_ms", "prefill_tok_s")})


def copied_ttft(rows: Sequence[PublishedRow]) -> dict[int, str]:
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


def with_prompt_tokens(row: PublishedRow) -> PublishedRow:
    """Return the row with the tokens of its prompt where its other figures tell them.

    They are its time to first token times its speed, or the context while decoding less half of what was generated.
    """
    number = row.number
    if "prompt_tokens" in number:
        return row
    tokens = number.get("ttft_ms", 0.0) * number.get("prefill_tok_s", 0.0)
    if not tokens and "gen_tokens" in number:
        tokens = number.get("context_tokens", 0.0) - number["gen_tokens"] / 2.0
    tokens = round(tokens)
    return replace(row, number={**number, "prompt_tokens": float(tokens)}) if tokens >= 1 else row


def prompt_unknown(row: PublishedRow) -> bool:
    """Tell whether a row has a time to first token but not of what: where a full context's is told, it is a chunk's."""
    of_chunk = "ttft_full_context_ms" in row.number
    return "ttft_ms" in row.number and not of_chunk and not row.number.get("prompt_tokens")


def without_unknown_prompt(row: PublishedRow) -> PublishedRow:
    """Leave out a time to first token that the row itself shows to be of the full context, of unstated length."""
    ttft, full = row.number.get("ttft_ms"), row.number.get("ttft_full_context_ms")
    if ttft is None or full is None or full > 1.5 * ttft or "prompt_tokens" in row.number:
        return row
    limit, bare = row.number.get("context_limit_tokens"), without_ttft(row)
    return replace(bare, number={**bare.number, "ttft_ms": ttft, "prompt_tokens": limit}) if limit else bare


def streamed_byte(row: PublishedRow, model: ModelShape) -> float | None:
    """Return the bytes of weights that a token reads [byte]; None where the row does not tell.

    The row's own figure where it also states the parameters read; else that share of the whole that the parameters
    read are of all, since what is stated then counts the input embedding and idle experts.
    """
    if row.text.get("weight_basis", "").startswith(ESTIMATED):
        return None
    stated = row.number.get("weight_stream_bytes")
    if stated is not None and "params_streamed_b" in row.number:
        return stated
    whole, bits = stated or row.number.get("weight_bytes"), row.number.get("bits_per_weight")
    read = model.body_params + model.head_params
    if whole:
        return whole * min(read / model.total_params, 1.0)
    return read * bits / BIT_PER_BYTE if bits else None
