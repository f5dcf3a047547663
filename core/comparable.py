"""Published rows as operating points: which catalogue entries they mean, and entries for what is not in it.

A row names its board, runtime, model and format in its authors' words. What the catalogue knows is taken from it, but
for the bandwidth and the bytes that the row itself states. The rest is described by the row: a board by its bandwidth,
a model by its parameters (shape as is typical of that many), a format by its bits. Nothing here looks at what was
measured, except at which quantities were.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core import traffic
from core.parameters import USUAL_OP_PER_BYTE
from core.published_rows import PublishedRow
from core.spec import LAYOUTS, POLICIES, Board, Catalogue, ModelShape, OperatingPoint, PowerMode, WeightFormat
from core.stated import (
    UNKNOWN_TOKENS,
    bits_stated,
    context_tokens,
    copied_prompts,
    graph_tokens,
    stated_graph_tokens,
    streamed_byte,
    without_ttft,
    without_unknown_prompt,
)
from core.table_models import models_of
from core.typical_shape import ANY_CONTEXT
from core.units import BIT_PER_BYTE

RUNTIMES = (
    ("rkllm", "rkllm"),
    ("qnn", "qnn"),
    ("genie", "qnn"),
    ("mlc", "mlc"),
    ("tinychat", "tinychat"),
    ("vllm", "vllm"),
    ("tensorrt", "tensorrt"),
    ("mlx", "mlx"),
    ("executorch", "executorch"),
    ("t-mac", "tmac"),
    *(
        (word, "llamacpp")
        for word in ("llama", "ollama", "lmstudio", "smallthinker", "cactus", "powerinfer", "koboldcpp")
    ),
)
"""Word in a runtime's name -> stem of the catalogue's key, to which the unit is added; the first that fits counts."""

FORMAT_PARTS = (("q4f16", "q4f16"), ("awq", "w4a16_g128"), ("gptq", "w4a16_g128"))
"""Part of a format's name -> key of the catalogue; the first that fits counts."""

FORMAT_WORDS = {
    **{"f16": "fp16", "f32": "fp32", "w16a16": "fp16"},
    **dict.fromkeys(("q4_0_4_4", "q4_0_4_8", "q4_0_8_8"), "q4_0"),  # the same bits, in the order in which a CPU reads
}
"""Word for a format -> key of the catalogue, where they differ."""

UNPACKED_BELOW_BIT = 6.7  # formats of fewer bits pay for unpacking
MIXTURE = 1.5
"""Times what a token reads: a model of so many parameters is a mixture of experts. Files store those in fewer bits than
what every token reads, so an even share of the file is too little."""
TOO_FAST = 2.0  # times what the peak bandwidth allows: no cache explains it (published rows reach 1.03)
LEAST_BIT = 3.3  # below, the cost of unpacking is not known: outside the model's range
COMPILED_CONTEXT = frozenset({"qnn_npu"})
"""Runtimes whose graphs are compiled for one context length and read all of it at every token."""

KV_OF_RUNTIME = {"qnn_npu": "int8"}  # where rows state none: the KV cache of those graphs is of 8 bits

UNKNOWN_BANDWIDTH_BYTE_S: Mapping[str, float] = {"cpu": 40e9, "gpu": 200e9, "npu": 60e9}
UNKNOWN_BANDWIDTH_LOG_SD = 1.0  # [prior] boards of one kind differ by a factor of 5 either way
UNKNOWN_VECTOR_LOG_SD = 0.6  # [prior] of vector rate over bandwidth between boards of one unit: the catalogue's is 0.55
INTEGER_SPEEDUP = 2.0  # matrix units reach twice the stated rate, which is of 16 bit, in 8 bit
NOTHING_MEASURED = "no decode time, time to first token or energy"
DOUBTFUL_LOG_SD = 0.15  # [prior] of figures that users submitted, or that were taken under unknown settings


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A row that can be compared with a prediction."""

    row: PublishedRow
    group: tuple[str, str, str, str]  # board, unit, runtime and power mode, in the table's words
    weights: str  # format in the table's words
    decode: OperatingPoint  # where its decode time and energy belong
    prompt: OperatingPoint  # where its time to first token belongs
    bandwidth_stated: bool
    compute_stated: bool
    outside: str  # why the equations do not cover it; "" where they do
    log_sd: float  # how uncertain its figures are by themselves


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows of a table that can be compared, the catalogue extended by what they describe, and the others."""

    rows: tuple[ComparedRow, ...]
    catalogue: Catalogue
    left_out: tuple[tuple[int, str], ...]  # line and reason
    without_ttft: tuple[tuple[int, str], ...] = ()  # the same of rows of which only the time to first token is left out


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
    made = _Entries(catalogue)
    most_threads = dict[tuple[str, ...], float]()
    for row in rows:
        key = _group(row)
        most_threads[key] = max(most_threads.get(key, 0.0), row.number.get("threads", 0.0))
    copied = copied_prompts(rows)
    compared, left_out, without = list[ComparedRow](), list[tuple[int, str]](), list[tuple[int, str]]()
    for row, model in zip(rows, models_of(rows, catalogue.models), strict=True):
        found = _compared(row, model, made, most_threads[_group(row)])
        if not isinstance(found, str) and not found.outside:
            found = replace(found, outside=made.too_fast(found) or made.beyond_memory(found))
        doubt = "" if isinstance(found, str) else made.cached_prompt(found)
        if row.line in copied:
            doubt = f"the prompt's time is that of {copied[row.line]} to the last digit: copied"
        if not isinstance(found, str) and doubt and found.row.ttft_s is not None:
            found = replace(found, row=without_ttft(found.row))
            without.append((row.line, doubt))
        found = found if isinstance(found, str) or _measured(found.row) else doubt or NOTHING_MEASURED
        if isinstance(found, str):
            left_out.append((row.line, found))
        else:
            compared.append(found)
    boards = {**catalogue.boards, **made.boards}
    formats = {**catalogue.weight_formats, **made.formats}
    extended = replace(catalogue, boards=boards, models={**catalogue.models, **made.models}, weight_formats=formats)
    return Comparison(tuple(compared), extended, tuple(left_out), tuple(without))


def _group(row: PublishedRow) -> tuple[str, str, str, str]:
    return (_board_name(row), row.text["compute"], row.text["runtime"], row.text["power_mode"])


def _board_name(row: PublishedRow) -> str:
    """Return what tells the row's board from others: a key may stand for many boards, whose bandwidth differs."""
    stated = "dram_bandwidth_gb_s" in row.number
    return row.text["board_key"] if stated else row.text["board"] or row.text["board_key"]


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


def _compared(row: PublishedRow, model: ModelShape | str, made: _Entries, most_threads: float) -> ComparedRow | str:
    """Return the row as an operating point, or why it is none."""
    reason = _unusable(row)
    found = reason or made.weights_of(row, model)
    if isinstance(found, str):
        return found
    key, weights, bits = found
    board, mode = made.board_of(row)
    threads = row.number.get("threads", most_threads)
    outside = ""
    if bits < LEAST_BIT:
        outside = f"{bits:.3g} bits a weight; the cost of unpacking under {LEAST_BIT:g} is not known"
    elif threads < most_threads:
        outside = f"{threads:g} of {most_threads:g} threads; the equations are of all"
    runtime = _runtime_key(row, made.catalogue)
    point = OperatingPoint(
        board=board,
        runtime=runtime,
        power_mode=mode,
        model=key,
        weights=weights,
        kv=made.kv_of(row, runtime),
        bandwidth_byte_s=made.own_bandwidth(row, board, mode),
    )
    row = without_unknown_prompt(row)
    prompt = row.number.get("prompt_tokens") or UNKNOWN_TOKENS
    compiled = runtime in COMPILED_CONTEXT
    pruned: dict[str, Any] = {name: row.text[name] for name in ("policy", "layout") if row.text.get(name)}
    if pruned.get("policy", POLICIES[0]) not in POLICIES or pruned.get("layout", LAYOUTS[0]) not in LAYOUTS:
        return f"prunes by {pruned}, expected a policy of {', '.join(POLICIES)} and a layout of {', '.join(LAYOUTS)}"
    point = replace(point, alpha=row.number.get("alpha", 0.0), **pruned)
    return ComparedRow(
        row,
        _group(row),
        row.text["quant"],
        replace(point, context_tokens=graph_tokens(row) if compiled else context_tokens(row)),
        replace(point, context_tokens=max(prompt, 1.0), graph_tokens=stated_graph_tokens(row) if compiled else 0.0),
        made.bandwidth_stated[board, mode],
        made.compute_stated[board, mode],
        outside,
        DOUBTFUL_LOG_SD if row.text["trust"].upper() == "C" else 0.0,
    )


def _runtime_key(row: PublishedRow, catalogue: Catalogue) -> str:
    if row.text["runtime"] in catalogue.runtimes:
        return row.text["runtime"]
    stem = next((key for word, key in RUNTIMES if word in row.text["runtime"].lower()), "other")
    key = f"{stem}_{row.text['compute']}"
    return key if key in catalogue.runtimes else f"other_{row.text['compute']}"


class _Entries:
    """The catalogue's entries that rows mean, and new ones for what they describe."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.boards = dict[str, Board]()
        self.models = dict[str, ModelShape]()
        self.formats = dict[str, WeightFormat]()
        self.bandwidth_stated = dict[tuple[str, str], bool]()
        self.compute_stated = dict[tuple[str, str], bool]()

    def board_of(self, row: PublishedRow) -> tuple[str, str]:
        """Return the keys of the row's board and power mode."""
        unit = row.text["compute"]
        known = self.catalogue.boards.get(row.text["board_key"])
        name = _board_name(row) if known is None else known.key
        same_unit = known is not None and known.unit == unit
        key = f"{name}.{unit}" if known is not None and not same_unit else name
        board = self.boards.get(key) or (known if known is not None and same_unit else Board(key, name, unit, {}))
        mode = _mode_key(row.text["power_mode"], board.power_modes)
        if (key, mode) in self.bandwidth_stated:
            return key, mode
        listed = known.power_modes.get(_mode_key(row.text["power_mode"], known.power_modes)) if known else None
        given = row.number.get("dram_bandwidth_gb_s") or (listed.bandwidth_byte_s if listed else None)
        bandwidth = given or UNKNOWN_BANDWIDTH_BYTE_S[unit]
        rate = listed.compute_op_s if listed and same_unit else None
        described = replace(
            listed or PowerMode(mode, bandwidth), key=mode, bandwidth_byte_s=bandwidth, compute_op_s=rate
        )
        if unit == "cpu" and not same_unit:
            described = replace(described, vector_op_s=described.cpu_vector_op_s)
        unpacks_unknown = unit in USUAL_OP_PER_BYTE and described.vector_op_s is None
        self.boards[key] = replace(
            board,
            power_modes={**board.power_modes, mode: described},
            bandwidth_log_sd=board.bandwidth_log_sd if given else UNKNOWN_BANDWIDTH_LOG_SD,
            vector_log_sd=UNKNOWN_VECTOR_LOG_SD if unpacks_unknown else 0.0,
        )
        self.bandwidth_stated[key, mode], self.compute_stated[key, mode] = given is not None, rate is not None
        return key, mode

    def too_fast(self, row: ComparedRow) -> str:
        """Say that the row decodes faster than its weights can be read; "" where it does not, or nobody knows."""
        decode_s, at = row.row.decode_s, row.decode
        if decode_s is None or not row.bandwidth_stated:
            return ""
        weights = {**self.catalogue.weight_formats, **self.formats}[at.weights]
        mode = self.boards[at.board].power_modes[at.power_mode]
        byte = float(np.max(traffic.weight_byte(self.models[at.model], weights)))
        if decode_s * TOO_FAST * float(np.max(at.bandwidth_byte_s or mode.bandwidth_byte_s)) > byte:
            return ""
        return f"decodes faster than its weights can be read at {TOO_FAST:g} times the peak bandwidth: a wrong unit?"

    def beyond_memory(self, row: ComparedRow) -> str:
        """Say that weights and cache do not fit in the board's memory; "" where they do, or nobody states it."""
        at, board = row.decode, self.boards[row.decode.board]
        if board.memory_byte is None:
            return ""
        weights = {**self.catalogue.weight_formats, **self.formats}[at.weights]
        kv = self.catalogue.kv_formats[at.kv]
        needed = float(np.max(traffic.memory_byte(self.models[at.model], weights, kv, at.context_tokens)))
        if needed <= board.memory_byte:
            return ""
        return f"{needed / 1e9:.3g} GB do not fit in the {board.memory_byte / 1e9:.3g} GB of {board.name}"

    def cached_prompt(self, row: ComparedRow) -> str:
        """Return why the row's time to first token cannot be of its whole prompt; "" where it can."""
        point, ttft_s = row.prompt, row.row.ttft_s
        model, mode = self.models[point.model], self.boards[point.board].power_modes[point.power_mode]
        if ttft_s is None:
            return ""
        weights = {**self.catalogue.weight_formats, **self.formats}[point.weights]
        byte = np.max(traffic.prompt_weight_byte(model, weights, point.context_tokens))
        if row.bandwidth_stated and ttft_s < byte / float(np.max(point.bandwidth_byte_s or mode.bandwidth_byte_s)):
            return "the prompt took less time than reading its weights at the peak bandwidth: cached"
        flop_s = (mode.compute_op_s or np.inf) * (1.0 if mode.compute_op_s == mode.vector_op_s else INTEGER_SPEEDUP)
        if row.compute_stated and ttft_s < np.max(traffic.prefill_flop(model, point.context_tokens)) / flop_s:
            return "the prompt took less time than its arithmetic at the peak rate: cached"
        return ""

    def own_bandwidth(self, row: PublishedRow, board: str, mode: str) -> float | None:
        """Return the row's bandwidth where it differs from that of its board and mode."""
        given = row.number.get("dram_bandwidth_gb_s")
        theirs = self.boards[board].power_modes[mode].bandwidth_byte_s
        return given if given is not None and abs(given / theirs - 1.0) > 0.01 else None

    def kv_of(self, row: PublishedRow, runtime: str) -> str:
        """Return the key of the KV format; 16 bit where neither the row nor the runtime tells."""
        name = row.text["kv_quant"].lower() or KV_OF_RUNTIME.get(runtime, "")
        return name if name in self.catalogue.kv_formats else FORMAT_WORDS.get(name, "bf16")

    def weights_of(self, row: PublishedRow, shape: ModelShape | str) -> tuple[str, str, float] | str:
        """Return the keys of model and weight format and the bits per weight, or why they are not known."""
        if isinstance(shape, str):
            return f"the model {row.text['model']} is not in the catalogue and {shape} are not stated"
        byte = streamed_byte(row, shape)
        weights = self._format_of(row, byte, shape.body_params + shape.head_params)
        if weights is None:
            bits = f"the bits (bits_per_weight) of {row.text['quant']}"
            return f"neither the bytes read per token (weight_stream_bytes) nor {bits} are known"
        if shape.total_params > MIXTURE * (shape.body_params + shape.head_params):
            byte = shape.weight_byte_by_format.get(weights.key, byte)
        return self._file_of(shape, weights, byte), weights.key, weights.bits_per_weight

    def _format_of(self, row: PublishedRow, byte: float | None, params: float) -> WeightFormat | None:
        key = _format_key(row.text["quant"].lower(), self.catalogue)
        if key:
            return self.catalogue.weight_formats[key]
        bits = bits_stated(row) or (BIT_PER_BYTE * byte / params if byte else None)
        if bits is None or not 0.5 <= bits <= 40.0:
            return None
        key = re.sub(r"[^a-z0-9]+", "_", row.text["quant"].lower()).strip("_") or "unnamed"
        return self.formats.setdefault(key, WeightFormat(key, row.text["quant"], bits, bits, bits < UNPACKED_BELOW_BIT))

    def _file_of(self, shape: ModelShape, weights: WeightFormat, stated_byte: float | None) -> str:
        """Return the key of the model whose file in this format has the row's bytes."""
        byte = traffic.weight_byte(shape, weights) if stated_byte is None else stated_byte
        key: str = shape.key
        bare = replace(shape, max_context_tokens=ANY_CONTEXT, weight_byte_by_format={}, reference_format="")
        taken = self.models.get(key, bare).weight_byte_by_format.get(weights.key)
        if taken is not None and abs(taken / byte - 1.0) > 0.005:
            key = f"{shape.key}~{byte / 1e6:.0f}"
        held = self.models.get(key, replace(bare, key=key))
        self.models[key] = replace(held, weight_byte_by_format={**held.weight_byte_by_format, weights.key: byte})
        return key


def _mode_key(name: str, modes: Mapping[str, PowerMode]) -> str:
    """Return the mode that a name means: the one it names, the default where it says nothing or "max", else its own."""
    words = re.findall(r"[a-z0-9_]+", name.lower())
    for mode in modes:
        if mode.lower() in words:
            return str(mode)
    if modes and (not words or any(word.startswith("max") for word in words)):
        return next(iter(modes))
    return name or "default"


def _format_key(name: str, catalogue: Catalogue) -> str:
    """Return the catalogue's key of a format's name, by a part of it or by the last word that is one; "" if none is."""
    for part, key in FORMAT_PARTS:
        if part in name:
            return key
    words = (FORMAT_WORDS.get(word, word) for word in reversed(re.findall(r"[a-z0-9_]+", name)))
    return next((word for word in words if word in catalogue.weight_formats), "")
