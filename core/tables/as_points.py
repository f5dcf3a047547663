"""Published rows as operating points, with records of the catalogue or new ones.

A row names its board, runtime, model and format in its authors' words. Records of the catalogue are used for known
names, with the bandwidth and the bytes of the row itself. Other records are made from the row: a board from its
bandwidth, a model from its number of parameters (with a typical shape), a format from its bits. The measured values
serve only for checks of plausibility.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.physics import traffic
from core.predict.parameters import product_speedup
from core.spec import LAYOUTS, POLICIES, Catalogue, ModelShape, OperatingPoint
from core.tables.boards import UNKNOWN_BANDWIDTH_BYTE_S, BoardOfRow, boards_of
from core.tables.entries import Entries
from core.tables.models import models_of
from core.tables.row_facts import (
    UNKNOWN_TOKENS,
    compiled_graph_tokens,
    context_tokens,
    copied_ttft,
    graph_tokens,
    prompt_unknown,
    with_prompt_tokens,
    without_ttft,
    without_unknown_prompt,
)
from core.tables.rows import PublishedRow

TOO_FAST = 2.0  # times the speed at peak bandwidth: no cache explains it (published rows reach 1.03)
TOO_SLOW = 300.0  # times the time of reading the weights: published rows of one thread reach 167
LEAST_BIT = 3.3  # below, the cost of unpacking is not known: outside the model's range
INTEGER_SPEEDUP = 2.0  # rate of matrix units in 8 bit over `compute_op_s`, which is of 16 bit
NOTHING_MEASURED = "no decode time, time to first token or energy"
DOUBTFUL_LOG_SD = 0.15  # [prior] of figures submitted by users or measured under unknown settings


Group = tuple[str, str, str, str]
"""Board, unit, runtime and power mode in the table's words; boards of the catalogue by key."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A row that can be compared with a prediction."""

    row: PublishedRow
    group: Group
    weights: str  # format in the table's words
    decode: OperatingPoint  # of its decode time and energy
    prefill: OperatingPoint  # of its time to first token
    bandwidth_known: bool  # whether row or data sheet give the bandwidth
    compute_known: bool  # whether the data sheet gives the compute rate
    outside: str  # reason that the equations do not apply; "" where they do
    log_sd: float  # of its figures themselves


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparable rows of a table, the catalogue extended by their records, and the rows that are left out."""

    rows: tuple[ComparedRow, ...]
    catalogue: Catalogue
    left_out: tuple[tuple[int, str], ...]  # line and reason
    without_ttft: tuple[tuple[int, str], ...] = ()  # line and reason, of rows without their time to first token only


def compare(rows: Sequence[PublishedRow], catalogue: Catalogue) -> Comparison:
    """Turn rows into operating points.

    Parameters
    ----------
    rows : sequence of PublishedRow
    catalogue : Catalogue

    Returns
    -------
    Comparison
        In the order of the rows.
    """
    rows, ran_on = [with_prompt_tokens(row) for row in rows], boards_of(rows, catalogue.boards)
    made, copied, most_threads = Entries(catalogue), copied_ttft(rows), dict[Group, float]()
    groups = [_group(row, board.name) for row, board in zip(rows, ran_on, strict=True)]
    for row, group in zip(rows, groups, strict=True):
        most_threads[group] = max(most_threads.get(group, 0.0), row.number.get("threads", 0.0))
    compared, left_out, without = list[ComparedRow](), list[tuple[int, str]](), list[tuple[int, str]]()
    models = models_of(rows, catalogue.models)
    for row, model, board, group in zip(rows, models, ran_on, groups, strict=True):
        found = _compared(row, model, board, group, made, most_threads[group])
        if not isinstance(found, str) and not found.outside:
            found = replace(found, outside=_wrong_speed(found, made) or _beyond_memory(found, made))
        doubt = "" if isinstance(found, str) else _cached_prompt(found, made)
        if row.line in copied:
            doubt = f"the prompt's time is that of {copied[row.line]} to the last digit: copied"
        elif not isinstance(found, str) and prompt_unknown(row) and not made.runtime(found.decode.runtime).graph_tokens:
            doubt = "the length of its prompt (prompt_tokens) is not stated"
        if not isinstance(found, str) and doubt and found.row.ttft_s is not None:
            found = replace(found, row=without_ttft(found.row))
            without.append((row.line, doubt))
        found = found if isinstance(found, str) or _measured(found.row) else doubt or NOTHING_MEASURED
        if isinstance(found, str):
            left_out.append((row.line, found))
        else:
            compared.append(found)
    return Comparison(tuple(compared), made.extended(), tuple(left_out), tuple(without))


def _group(row: PublishedRow, board: str) -> Group:
    return (board, row.text["compute"], row.text["runtime"], row.text["power_mode"])


def _unusable(row: PublishedRow) -> str:
    batch = row.number.get("batch", 1.0)
    if row.text["trust"].upper() == "X":
        return "trust X: inconsistent or not comparable"
    if batch != 1.0:
        return f"{batch:g} sequences decoded together; everything here is of one"
    if row.text["compute"] not in UNKNOWN_BANDWIDTH_BYTE_S:
        return f"decodes on {row.text['compute']}, expected one unit"
    return "" if _measured(row) else NOTHING_MEASURED


def _measured(row: PublishedRow) -> bool:
    return not (row.decode_s is None and row.ttft_s is None and row.energy_j_per_token is None)


def _compared(
    row: PublishedRow, model: ModelShape | str, ran_on: BoardOfRow, group: Group, made: Entries, most_threads: float
) -> ComparedRow | str:
    """Return the row as operating points, or the reason against it."""
    reason = _unusable(row)
    found = reason or made.weights_of(row, model)
    if isinstance(found, str):
        return found
    key, weights, bits = found
    reason = made.wrong_bandwidth(ran_on)
    if reason:
        return reason
    board, mode = made.board_of(row, ran_on)
    runtime = made.runtime_of(row)
    kv = made.kv_of(row, runtime)
    if kv is None:
        return f"the bits of a cache in {row.text['kv_quant']} (kv_quant) are not known"
    point = OperatingPoint(
        board=board,
        runtime=runtime,
        power_mode=mode,
        model=key,
        weights=weights,
        kv=kv,
        bandwidth_byte_s=made.own_bandwidth(board, mode, ran_on.bandwidth_byte_s),
    )
    row = without_unknown_prompt(row)
    prompt = row.number.get("prompt_tokens") or UNKNOWN_TOKENS
    compiled, chunk = made.runtime(runtime).graph_tokens > 0.0, made.runtime(runtime).prompt_chunk_tokens
    pruned: dict[str, Any] = {name: row.text[name] for name in ("policy", "layout") if row.text.get(name)}
    if pruned.get("policy", POLICIES[0]) not in POLICIES or pruned.get("layout", LAYOUTS[0]) not in LAYOUTS:
        return f"prunes by {pruned}, expected a policy of {', '.join(POLICIES)} and a layout of {', '.join(LAYOUTS)}"
    point = replace(point, alpha=row.number.get("alpha", 0.0), **pruned)
    return ComparedRow(
        row,
        group,
        row.text["quant"],
        replace(point, context_tokens=graph_tokens(row, chunk) if compiled else context_tokens(row)),
        replace(
            point, context_tokens=max(prompt, 1.0), graph_tokens=compiled_graph_tokens(row, chunk) if compiled else 0.0
        ),
        made.bandwidth_known[board, mode],
        made.compute_known[board, mode],
        _outside(bits, row.number.get("threads", most_threads), most_threads),
        DOUBTFUL_LOG_SD if row.text["trust"].upper() == "C" else 0.0,
    )


def _outside(bits: float, n_threads: float, most_threads: float) -> str:
    """Return the reason that the equations do not apply to a row; "" where they do."""
    if bits < LEAST_BIT:
        return f"{bits:.3g} bits a weight; the cost of unpacking under {LEAST_BIT:g} is not known"
    if n_threads < most_threads:
        return f"{n_threads:g} of {most_threads:g} threads; the equations are of all"
    return ""


def _wrong_speed(row: ComparedRow, made: Entries) -> str:
    """Return the reason that the decode time of a row is implausible; "" where it is not, or without a bandwidth."""
    decode_s, at = row.row.decode_s, row.decode
    if decode_s is None or not row.bandwidth_known:
        return ""
    mode = made.boards[at.board].power_modes[at.power_mode]
    byte = float(np.max(traffic.weight_byte(made.models[at.model], made.weights(at.weights))))
    times = decode_s * float(np.max(at.bandwidth_byte_s or mode.bandwidth_byte_s)) / byte
    if times <= 1.0 / TOO_FAST:
        why = "a wrong unit, or a mixture of experts without the parameters that a token reads (params_streamed_b)?"
        return f"decodes faster than its weights can be read at {TOO_FAST:g} times the peak bandwidth: {why}"
    return "" if times < TOO_SLOW else f"decodes {times:.0f} times as long as its weights are read: a wrong unit?"


def _beyond_memory(row: ComparedRow, made: Entries) -> str:
    """Return the reason that weights and cache exceed the board's memory; "" where they fit, or it is not known."""
    at, board = row.decode, made.boards[row.decode.board]
    if board.memory_byte is None:
        return ""
    weights = made.weights(at.weights)
    kv = made.catalogue.kv_formats[at.kv]
    needed = float(np.max(traffic.memory_byte(made.models[at.model], weights, kv, at.context_tokens)))
    if needed <= board.memory_byte:
        return ""
    return f"weights and cache take {needed / board.memory_byte:.3g} times the memory of {board.name}"


def _cached_prompt(row: ComparedRow, made: Entries) -> str:
    """Return the reason that a time to first token is too short for the whole prompt; "" where it is not."""
    point, ttft_s = row.prefill, row.row.ttft_s
    model, mode = made.models[point.model], made.boards[point.board].power_modes[point.power_mode]
    if ttft_s is None:
        return ""
    weights = made.weights(point.weights)
    byte = np.max(traffic.prefill_weight_byte(model, weights, point.context_tokens))
    if row.bandwidth_known and ttft_s < byte / float(np.max(point.bandwidth_byte_s or mode.bandwidth_byte_s)):
        return "the prompt took less time than reading its weights at the peak bandwidth: cached"
    faster = max(product_speedup(made.boards[point.board], weights), INTEGER_SPEEDUP)
    faster = 1.0 if mode.compute_op_s == mode.vector_op_s else faster
    flop_s = (mode.compute_op_s or np.inf) * faster
    if row.compute_known and ttft_s < np.max(traffic.prefill_flop(model, point.context_tokens)) / flop_s:
        return "the prompt took less time than its arithmetic at the peak rate: cached"
    return ""
