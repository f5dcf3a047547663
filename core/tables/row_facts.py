"""Weight bytes and context lengths derived from a published row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from core.spec import ModelShape
from core.tables.models import ESTIMATED
from core.tables.rows import PublishedRow
from core.units import BIT_PER_BYTE

UNKNOWN_TOKENS = 128.0  # context of rows without one
COPIED_DIGITS = 4  # significant digits from which equal times are no coincidence


def context_tokens(row: PublishedRow) -> float:
    """Return the mean context while decoding: that of the row, else the prompt and half of the generated tokens."""
    prompt = row.number.get("prompt_tokens")
    tokens = prompt + row.number.get("gen_tokens", UNKNOWN_TOKENS) / 2.0 if prompt else UNKNOWN_TOKENS
    return max(row.number.get("context_tokens", tokens), 1.0)


def graph_tokens(row: PublishedRow, prompt_chunk_tokens: float) -> float:
    """Return the context that a compiled graph reads at every token: its limit, else the mean context."""
    return compiled_graph_tokens(row, prompt_chunk_tokens) or context_tokens(row)


def compiled_graph_tokens(row: PublishedRow, prompt_chunk_tokens: float) -> float:
    """Return the context that a graph was compiled for; 0 where it is not known.

    The time to first token of a full context is an integer number of runs of the graph, one per chunk of
    `prompt_chunk_tokens`.
    """
    n_chunks = row.number.get("ttft_full_context_ms", 0.0) / row.number.get("ttft_ms", np.inf)
    timed = prompt_chunk_tokens * round(n_chunks) if n_chunks > 1.5 else 0.0
    return timed or row.number.get("context_limit_tokens", 0.0)


def without_ttft(row: PublishedRow) -> PublishedRow:
    """Return the row without its time to first token."""
    return replace(row, number={name: x for name, x in row.number.items() if name not in ("ttft_ms", "prefill_tok_s")})


def copied_ttft(rows: Sequence[PublishedRow]) -> dict[int, str]:
    """Return lines with the time to first token of another weight format of the model, and that format.

    Equal times of four or more digits are no coincidence but copies; the first one counts as the original.
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
    """Return the row with its prompt tokens, where they follow from its other figures.

    They are the time to first token times the prefill rate, or the mean context less half of the generated tokens.
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
    """Return True if a time to first token has no prompt length; with that of a full context, it is of one chunk."""
    of_chunk = "ttft_full_context_ms" in row.number
    return "ttft_ms" in row.number and not of_chunk and not row.number.get("prompt_tokens")


def without_unknown_prompt(row: PublishedRow) -> PublishedRow:
    """Return the row without a time to first token that is of a full context of unknown length.

    With a known context limit, that is the length of the prompt.
    """
    ttft, full = row.number.get("ttft_ms"), row.number.get("ttft_full_context_ms")
    if ttft is None or full is None or full > 1.5 * ttft or "prompt_tokens" in row.number:
        return row
    limit, bare = row.number.get("context_limit_tokens"), without_ttft(row)
    return replace(bare, number={**bare.number, "ttft_ms": ttft, "prompt_tokens": limit}) if limit else bare


def streamed_byte(row: PublishedRow, model: ModelShape) -> float | None:
    """Return the bytes of weights that a token reads [byte]; None where they are not known.

    With a number of parameters read, it is the row's own figure. Otherwise the figure includes the input embedding and
    idle experts, and the share of the read in all parameters applies.
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
