"""Limits of validity: points outside the range of the model, or beyond the capabilities of board and runtime."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from core.catalogue.memory_reserve import usable_memory
from core.predict import options
from core.spec import NUMERIC, Absent, ModelShape, OperatingPoint, ResolvedPoint


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Bytes of weights and unpruned cache, and the usable part of the board's memory [byte]."""

    needed_byte: float
    available_byte: float
    of_largest_version: bool  # whether versions of the board differ in memory, and this is the largest
    memory_byte: float = 0.0  # capacity
    basis: str = ""  # reason that the usable memory is smaller than the capacity
    source: str = ""  # of the prior of that part; "" where the board reports it
    upper_bound: bool = False  # whether `needed_byte` has an upper bound of the cache

    @property
    def fits(self) -> bool:
        """Whether weights and cache fit in memory."""
        return self.needed_byte <= self.available_byte


def memory_fit(point: OperatingPoint, at: ResolvedPoint) -> MemoryFit | Absent:
    """Return the fit of a point, or of the largest of an array of points, in the usable memory of its board.

    The cache counts before pruning, since prefill fills all of it.
    """
    had = usable_memory(at.board)
    if had is None:
        return Absent(f"no source states the memory of {at.board.name}")
    needed = np.max(options.memory_byte(point, at, point.context_tokens))
    bounded = bool(at.model.cache_bound)
    had_byte, largest = had.usable_byte, had.of_largest_version
    return MemoryFit(float(needed), had_byte, largest, had.memory_byte, had.words, had.source, bounded)


def outside(point: OperatingPoint, at: ResolvedPoint) -> tuple[str, ...]:
    """Return a sentence for each violated limit of a point, or of any of an array of points; memory comes first.

    The sentence on memory has the excess only for a single point, so that the sentences of an array do not depend on
    its division into chunks.
    """
    sentences = _memory_sentences(point, at) + _support_sentences(at)
    sentences += cache_bounds([at.model])
    if at.weights.bits_per_weight < 4.0 and not at.weights.accuracy_only:
        sentences.append(f"{at.weights.name} has under 4 bits per weight; the cost of unpacking it is not known")
    asked = point.bandwidth_byte_s
    if asked is not None and np.any(np.greater(asked, 1.05 * at.mode.bandwidth_byte_s)):
        sentences.append(f"{at.board.name} has less than the bandwidth asked for")
    if "alpha" not in at.runtime.knobs and _pruned(point):
        sentences.append(f"{at.runtime.name} cannot prune the KV cache: the effect of pruning is hypothetical")
    if "compensation" not in at.runtime.knobs and point.compensation != "none":
        sentences.append(f"{at.runtime.name} does not compensate weights as Trilemma's own decoder does")
    return (*sentences, *options.sentences(point, at))


def cache_bounds(models: Iterable[ModelShape]) -> list[str]:
    """Return a sentence for each model whose KV cache is an upper bound."""
    return [f"the KV cache of {one.name} is an upper bound: {one.cache_bound}" for one in models if one.cache_bound]


def _pruned(point: OperatingPoint) -> bool:
    return bool(np.any(np.asarray(point.alpha) > 0.0))


def _memory_sentences(point: OperatingPoint, at: ResolvedPoint) -> list[str]:
    fit = memory_fit(point, at)
    if isinstance(fit, Absent) or fit.fits:
        return []
    version = ", not even of its largest version" if fit.of_largest_version else ""
    text = f"{at.model.name} in {at.weights.name} does not fit in the memory of {at.board.name}{version}"
    if any(np.ndim(getattr(point, name)) for name in NUMERIC):
        return [text]
    times, before = fit.needed_byte / fit.available_byte, " before pruning" if _pruned(point) else ""
    more = f"{times:.3g} times as much" if times >= 2.0 else f"{100.0 * (times - 1.0):.2g} % more"
    why = fit.basis + (", a prior" if fit.source else "")
    most = "up to " if at.model.cache_bound else ""
    had = f"{'as' if times >= 2.0 else 'than'} can be had ({why})"
    return [f"{text}: it takes {most}{more}{before} {had}"]


def _support_sentences(at: ResolvedPoint) -> list[str]:
    """Return sentences on a runtime that the board does not support, and on a format that the runtime does not support.

    For a machine without a data sheet in the catalogue, the supported runtimes are not known.
    """
    board, runtime, sentences = at.board, at.runtime, list[str]()
    sheet = board.data_sheet or (board.key if board.listed else "")
    unit = runtime.key.rpartition("_")[2]
    if sheet and runtime.runs_on and not any(fnmatchcase(sheet, pattern) for pattern in runtime.runs_on):
        sentences.append(f"{runtime.name} does not run on {board.name}")
    elif sheet and (unit == "npu" or (unit == "gpu" and board.unit == "cpu")) and unit != board.unit:
        sentences.append(f"the data sheet of {board.name} has no {unit.upper()}")
    if not runtime.takes_format("weights", at.weights.key):
        sentences.append(f"{runtime.name} does not support {at.weights.name} weights")
    elif not runtime.takes_format("weights", at.weights.key, board):
        sentences.append(f"{runtime.name} does not support {at.weights.name} weights on {board.name}")
    return sentences
