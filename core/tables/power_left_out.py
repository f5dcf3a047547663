"""Check of the classes of ``power_priors.toml`` on published rows: each board predicted by the others of its class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.catalogue.power_classes import power_class
from core.tables.rows import PublishedRow
from core.units import Z90

Floats = NDArray[np.float64]

WHOLE_BOARD = ("wall", "not stated (board")
"""Beginnings of the names of rails that cover a whole board."""


_SEVERAL = "other"  # beginning of a key that several boards share


@dataclass(frozen=True, slots=True)
class ClassCheck:
    """Boards of a class with rows: their energies per byte, and those that the others predict."""

    words: str
    boards: tuple[str, ...]
    energy_j_byte: Floats  # median of the rows of each board [J/byte]
    predicted_j_byte: Floats  # geometric mean of the other boards; the class's prior where there is none [J/byte]
    log_sd: float

    @property
    def log_error(self) -> Floats:
        """Predicted over measured, in logarithms."""
        return np.asarray(np.log(self.predicted_j_byte / self.energy_j_byte))

    @property
    def rms_log_error(self) -> float:
        """Root mean square of the errors in logarithms."""
        return float(np.sqrt(np.mean(np.square(self.log_error))))

    @property
    def median_error_frac(self) -> float:
        """Median of the magnitudes of predicted over measured minus one."""
        return float(np.median(np.abs(np.expm1(self.log_error))))

    @property
    def coverage_frac(self) -> float:
        """Share of the boards inside the 90 % interval of the class about the prediction."""
        return float(np.mean(np.abs(self.log_error) <= Z90 * self.log_sd))


def left_out(rows: Iterable[PublishedRow]) -> tuple[ClassCheck, ...]:
    """Return the check of each class that has a board with a row, in order of the number of boards.

    Rows count that have an energy or a power of the whole board, a decode time and the bytes read per token.
    """
    found, key_of = dict[tuple[str, str], list[float]](), dict[str, str]()
    for row in rows:
        energy_j, moved = row.energy_j_per_token, row.number.get("weight_stream_bytes", 0.0)
        if energy_j and moved and row.text["power_rail"].startswith(WHOLE_BOARD):
            key, name = row.text["board_key"], row.text.get("board", "")
            board = name if name and key.startswith(_SEVERAL) else key
            key_of[board] = key
            found.setdefault((row.text["compute"], board), []).append(energy_j / moved)
    classes = dict[str, dict[str, float]]()
    log_sd, prior = dict[str, float](), dict[str, float]()
    for (compute, board), values in found.items():
        unit = compute.partition("/")[0]
        if unit not in ("cpu", "gpu", "npu"):
            continue
        of = power_class(unit, board, key_of[board])
        classes.setdefault(of.words, {})[f"{board}, {compute}"] = float(np.median(values))
        log_sd[of.words], prior[of.words] = of.log_sd, of.energy_j_byte
    checks = [_check(words, boards, prior[words], log_sd[words]) for words, boards in classes.items()]
    return tuple(sorted(checks, key=lambda check: -len(check.boards)))


def _check(words: str, boards: dict[str, float], prior_j_byte: float, log_sd: float) -> ClassCheck:
    measured = np.array(list(boards.values()))
    n, total = len(measured), np.log(measured).sum()
    others = np.exp((total - np.log(measured)) / (n - 1)) if n > 1 else np.array([prior_j_byte])
    return ClassCheck(words, tuple(boards), measured, others, log_sd)
