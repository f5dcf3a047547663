"""Where an operating point is beyond what the model is valid for, or what its board and runtime can do."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np

from core import traffic
from core.spec import OperatingPoint, Setting


def outside(point: OperatingPoint, at: Setting) -> tuple[str, ...]:
    """Return what speaks against the prediction of a point (or of any of an array of points), as sentences.

    Memory must hold the cache before pruning, which chooses among what the whole prompt has left there.
    """
    said = _not_run(at)
    if at.weights.bits_per_weight < 4.0 and not at.weights.accuracy_only:
        said.append(f"{at.weights.name} has under 4 bits per weight; the cost of unpacking it is not known")
    asked = point.bandwidth_byte_s
    if asked is not None and np.any(np.greater(asked, 1.05 * at.mode.bandwidth_byte_s)):
        said.append(f"{at.board.name} has less than the bandwidth asked for")
    there, pruned = at.board.memory_byte or at.board.most_memory_byte, np.any(np.asarray(point.alpha) > 0.0)
    if there is not None:
        held = float(np.max(traffic.memory_byte(at.model, at.weights, at.kv, point.context_tokens, head=at.head)))
        if held > there:
            most, before = "" if at.board.memory_byte else " at most", " before pruning" if pruned else ""
            said.append(
                f"{at.model.name} in {at.weights.name} does not fit in the memory of {at.board.name}: "
                f"it takes {held / 1e9:.3g} GB{before} of{most} {there / 1e9:.3g} GB"
            )
    if "alpha" not in at.runtime.knobs and pruned:
        said.append(f"{at.runtime.name} prunes no cache: this is what pruning would do if it could")
    return tuple(said)


def _not_run(at: Setting) -> list[str]:
    """Say that a board does not run a runtime, or a runtime a weight format; of an unknown machine nothing is said."""
    board, runtime, said = at.board, at.runtime, list[str]()
    sheet = board.data_sheet or ("" if board.key == "this" else board.key)
    unit = runtime.key.rpartition("_")[2]
    if sheet and runtime.runs_on and not any(fnmatchcase(sheet, pattern) for pattern in runtime.runs_on):
        said.append(f"{runtime.name} does not run on {board.name}")
    elif sheet and (unit == "npu" or (unit == "gpu" and board.unit == "cpu")) and unit != board.unit:
        said.append(f"the data sheet of {board.name} has no {unit.upper()}")
    if runtime.takes and not any(fnmatchcase(at.weights.key, pattern) for pattern in runtime.takes):
        said.append(f"{runtime.name} takes no weights in {at.weights.name}")
    return said
