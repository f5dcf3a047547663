"""Predicted effects of single changes of an operating point, and the selection of changes to propose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from core.spec import BY_NAME, Absent, Catalogue, Estimate, OperatingPoint, Prediction, Runtime

WORTH_FRAC = 0.01  # least saving of decode time of a listed change
CHEAP_AGREEMENT = 0.02  # changes that cost more top-1 agreement are proposed only to keep a latency limit
ALPHA_STEP = 0.01  # least rise of the prune rate


class Kind(StrEnum):
    """Subject of a change: settings of the runtime, the task, or the board."""

    SETTING = "setting"
    TASK = "task"
    BOARD = "board"


@dataclass(frozen=True, slots=True)
class Step:
    """A point that differs from another in one field, with the change as text."""

    text: str  # "int4 weights"
    point: OperatingPoint
    kind: Kind


@dataclass(frozen=True, slots=True)
class Change:
    """Predicted effect of a step; fractions are relative to the current point."""

    step: Step
    decode_frac: float  # change of the decode time, < 0 is faster
    energy_frac: float | None
    top1_difference: float | None  # change of the top-1 agreement

    @property
    def cheap(self) -> bool:
        """Whether its predicted loss of top-1 agreement is at most `CHEAP_AGREEMENT`, or not predicted."""
        return self.top1_difference is None or self.top1_difference >= -CHEAP_AGREEMENT


def steps(point: OperatingPoint, catalogue: Catalogue, bandwidth_byte_s: float, alpha_max: float | None) -> list[Step]:
    """Return the single steps from a point (scalars only) that its runtime supports.

    The steps are: half of the kept cache pruned, or less if `alpha_max` requires it; a compacted layout; the next
    smaller format of weights and of the cache; half the context; 10 % more bandwidth; instructions twice as fast.

    Parameters
    ----------
    point : OperatingPoint
    catalogue : Catalogue
    bandwidth_byte_s : float
        Peak bandwidth of the point's board, > 0 [byte/s].
    alpha_max : float or None
        The largest prune rate within the quality budget, in [0, 1); None for no step of pruning.
    """
    runtime = catalogue.resolve(point).runtime
    settings = list[tuple[str, OperatingPoint]]()
    if "alpha" in runtime.knobs and alpha_max is not None:
        settings += _more_pruning(point, alpha_max)
    if point.alpha > 0 and point.layout != "compacted":
        settings.append(("compacting the kept tokens", replace(point, layout="compacted")))
    weights = _smaller_weights(point, runtime, catalogue)
    if weights:
        settings.append((f"{weights} weights", replace(point, weights=weights)))
    kv = _smaller_kv(point, runtime, catalogue)
    if kv:
        settings.append((f"{'an' if kv[0] in 'aei' else 'a'} {kv} KV cache", replace(point, kv=kv)))
    found = [Step(text, changed, Kind.SETTING) for text, changed in settings]
    half = float(round(float(point.context_tokens) / 2))
    if half >= 2.0:
        text = f"half the context ({half:.0f} tokens)"
        found.append(Step(text, replace(point, context_tokens=half), Kind.TASK))
    faster, quicker = 1.1 * bandwidth_byte_s, 2.0 * float(point.beta)
    if faster <= BY_NAME["bandwidth_byte_s"].high:
        found.append(Step("10 % more bandwidth", replace(point, bandwidth_byte_s=faster), Kind.BOARD))
    if quicker <= BY_NAME["beta"].high:
        found.append(Step("instructions twice as fast (beta)", replace(point, beta=quicker), Kind.BOARD))
    return found


def _more_pruning(point: OperatingPoint, alpha_max: float) -> list[tuple[str, OperatingPoint]]:
    half = round(1.0 - (1.0 - float(point.alpha)) / 2.0, 3)
    if half <= alpha_max:
        return [(f"halving the kept cache (α {half:.2f})", replace(point, alpha=half))]
    most = math.floor(100.0 * alpha_max) / 100.0
    if most < float(point.alpha) + ALPHA_STEP:
        return []
    return [(f"pruning up to r_max (α {most:.2f})", replace(point, alpha=most))]


def _smaller_weights(point: OperatingPoint, runtime: Runtime, catalogue: Catalogue) -> str:
    """Return the key of the next smaller weight format of the runtime, or "" where there is none."""
    if "weights" not in runtime.knobs:
        return ""
    bits = {key: each.bits_per_weight for key, each in catalogue.weight_formats.items()}
    board = catalogue.boards[point.board]
    offered = (key for key in runtime.smaller_weights if runtime.takes_format("weights", key, board))
    return _next(offered, bits, bits[point.weights])


def _smaller_kv(point: OperatingPoint, runtime: Runtime, catalogue: Catalogue) -> str:
    """Return the key of the next smaller KV format of the runtime, or "" where there is none."""
    if "kv" not in runtime.knobs:
        return ""
    bits = {key: each.bits_per_value for key, each in catalogue.kv_formats.items()}
    return _next(runtime.smaller_kv, bits, bits[point.kv])


def _next(offered: Iterable[str], bits: dict[str, float], now: float) -> str:
    below = [key for key in offered if bits[key] < 0.95 * now]
    return max(below, key=bits.__getitem__) if below else ""


def changes(here: Prediction, taken: Iterable[Step], predicted: Callable[[OperatingPoint], Prediction]) -> list[Change]:
    """Return the effects of the steps that lower the decode time by at least `WORTH_FRAC`, the fastest first.

    Parameters
    ----------
    here : Prediction
        Of the current point.
    taken : iterable of Step
        All or some of `steps`.
    predicted : callable
        Returns the prediction of a point.
    """
    if isinstance(here.decode_s, Absent):
        return []
    found = [change for step in taken if (change := _change(step, here, predicted(step.point))) is not None]
    return sorted((c for c in found if c.decode_frac <= -WORTH_FRAC), key=lambda change: change.decode_frac)


def _change(step: Step, here: Prediction, there: Prediction) -> Change | None:
    if not (isinstance(here.decode_s, Estimate) and isinstance(there.decode_s, Estimate)):
        return None
    energy = top1 = None
    if isinstance(here.energy_j_per_token, Estimate) and isinstance(there.energy_j_per_token, Estimate):
        energy = float(there.energy_j_per_token.median) / float(here.energy_j_per_token.median) - 1.0
    if isinstance(here.top1_agreement, Estimate) and isinstance(there.top1_agreement, Estimate):
        top1 = float(there.top1_agreement.median) - float(here.top1_agreement.median)
    return Change(step, float(there.decode_s.median) / float(here.decode_s.median) - 1.0, energy, top1)


def proposed(tried: Sequence[Change], here: Prediction, latency_limit_s: float | None = None) -> list[Change]:
    """Return the best two changes of settings.

    Cheap changes are preferred; where the point misses its latency limit, or no change is cheap, all changes of
    settings are candidates. Changes of the task or the board are never proposed.
    """
    now = here.decode_s
    needed = latency_limit_s is not None and isinstance(now, Estimate) and float(now.median) > latency_limit_s
    settings = [change for change in tried if change.step.kind is Kind.SETTING]
    cheap = [change for change in settings if change.cheap]
    return (settings if needed or not cheap else cheap)[:2]
