"""Where an operating point is beyond what the model is valid for, or what its board and runtime can do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from core.catalogue.memory_reserve import usable_memory
from core.physics import traffic
from core.spec import NUMERIC, Absent, ModelShape, OperatingPoint, ResolvedPoint


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Bytes of weights and cache before pruning, and what they can have of the board's memory [byte]."""

    needed_byte: float
    available_byte: float
    of_largest_version: bool  # versions of the board differ in memory and this is the most
    memory_byte: float = 0.0  # all of it
    basis: str = ""  # why not all of it can be had
    source: str = ""  # of that prior; "" where the board says so itself
    upper_bound: bool = False  # the cache may take less

    @property
    def fits(self) -> bool:
        """Whether memory holds weights and cache."""
        return self.needed_byte <= self.available_byte


def memory_fit(point: OperatingPoint, at: ResolvedPoint) -> MemoryFit | Absent:
    """Return whether what can be had of the memory holds the point, or the largest of an array of points.

    Memory must hold the cache before pruning, which chooses among what the whole prompt has left there.
    """
    had = usable_memory(at.board)
    if had is None:
        return Absent(f"no source states the memory of {at.board.name}")
    needed = np.max(traffic.memory_byte(at.model, at.weights, at.kv, point.context_tokens, head=at.head))
    bounded = bool(at.model.cache_bound)
    had_byte, largest = had.usable_byte, had.of_largest_version
    return MemoryFit(float(needed), had_byte, largest, had.memory_byte, had.words, had.source, bounded)


def outside(point: OperatingPoint, at: ResolvedPoint) -> tuple[str, ...]:
    """Return what speaks against the prediction of a point (or of any of an array of points), as sentences.

    That memory does not hold it comes first. By how much it is short is part of the sentence of a single point only: of
    arrays, however they are cut, the sentences are the same.
    """
    sentences = _not_held(point, at) + _not_run(at)
    sentences += cache_bounds([at.model])
    if at.weights.bits_per_weight < 4.0 and not at.weights.accuracy_only:
        sentences.append(f"{at.weights.name} has under 4 bits per weight; the cost of unpacking it is not known")
    asked = point.bandwidth_byte_s
    if asked is not None and np.any(np.greater(asked, 1.05 * at.mode.bandwidth_byte_s)):
        sentences.append(f"{at.board.name} has less than the bandwidth asked for")
    if "alpha" not in at.runtime.knobs and _pruned(point):
        sentences.append(f"{at.runtime.name} prunes no cache: this is what pruning would do if it could")
    return tuple(sentences)


def cache_bounds(models: Iterable[ModelShape]) -> list[str]:
    """Return a sentence for each model whose KV cache is an upper bound."""
    return [f"the KV cache of {one.name} is an upper bound: {one.cache_bound}" for one in models if one.cache_bound]


def _pruned(point: OperatingPoint) -> bool:
    return bool(np.any(np.asarray(point.alpha) > 0.0))


def _not_held(point: OperatingPoint, at: ResolvedPoint) -> list[str]:
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


def _not_run(at: ResolvedPoint) -> list[str]:
    """Say that a board does not run a runtime, or a runtime a weight format.

    Of a machine that neither is in the catalogue nor has its data sheet, what it runs is not known.
    """
    board, runtime, sentences = at.board, at.runtime, list[str]()
    sheet = board.data_sheet or (board.key if board.listed else "")
    unit = runtime.key.rpartition("_")[2]
    if sheet and runtime.runs_on and not any(fnmatchcase(sheet, pattern) for pattern in runtime.runs_on):
        sentences.append(f"{runtime.name} does not run on {board.name}")
    elif sheet and (unit == "npu" or (unit == "gpu" and board.unit == "cpu")) and unit != board.unit:
        sentences.append(f"the data sheet of {board.name} has no {unit.upper()}")
    if runtime.takes and not any(fnmatchcase(at.weights.key, pattern) for pattern in runtime.takes):
        sentences.append(f"{runtime.name} takes no weights in {at.weights.name}")
    return sentences
