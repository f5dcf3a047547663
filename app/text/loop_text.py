"""Words and records of the loop that follows a board: state, drift by term, next measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.library.loop import Loop
from app.library.records import point_record
from app.text.format import counted, number_text
from core.calibrate.follow import THRESHOLD, TermShift
from core.spec import OperatingPoint
from core.spec.correction import COST_TERMS
from core.units import Z90

NOTHING = "No time was measured on this board yet: there is nothing to follow."


def state_sentence(loop: Loop | None, busy: str = "") -> str:
    """Return the alarm, or that there is none, in one sentence; `busy` is the warning of the calibration."""
    if loop is None:
        return NOTHING
    if loop.alarm:
        return loop.alarm
    if busy:
        return busy
    n = counted(len(loop.measurements), "measurement")
    if loop.followed.drifting:
        return f"The board drifts by {percent(loop.shift_log)}, which raises no alarm; {n} followed."
    return f"No drift: the board runs as calibrated; {n} followed."


def percent(log: float) -> str:
    """Return a shift of a logarithm in per cent, with its sign."""
    value = 100.0 * float(np.expm1(log))
    return f"{'+' if value > 0 else ''}{number_text(value, 1)} %"


def term_rows(loop: Loop) -> list[tuple[str, str, str]]:
    """Return each cost term, the shift of its time if it alone moved, with its 90 % interval, and the odds of that."""
    return [(COST_TERMS[t.key], *_shift(t, drifting=loop.followed.drifting)) for t in loop.followed.terms]


def _shift(term: TermShift, *, drifting: bool) -> tuple[str, str]:
    if not drifting:
        return "0 %", ""
    low, high = (term.log_shift + sign * Z90 * term.log_sd for sign in (-1.0, 1.0))
    return f"{percent(term.log_shift)} [{percent(low)} – {percent(high)}]", f"{100 * term.probability:.0f} %"


def term_records(loop: Loop) -> dict[str, Any]:
    """Return the same as JSON values, as shares of the time of each term."""
    found = {}
    for term in loop.followed.terms:
        logs = (term.log_shift + z * term.log_sd for z in (0.0, -Z90, Z90))
        shift = dict(zip(("median", "q05", "q95"), (float(np.expm1(log)) for log in logs), strict=True))
        found[term.key] = {"name": COST_TERMS[term.key], "time_shift_frac": shift, "probability": term.probability}
    return found


def loop_record(loop: Loop | None, proposal: tuple[OperatingPoint, str] | None, busy: str = "") -> dict[str, Any]:
    """Return the state of the loop as JSON values."""
    following: Mapping[str, Any] | None = None if proposal is None else _next(proposal)
    if loop is None:
        return {"absent": NOTHING, "next": following}
    f = loop.followed
    return {
        "state": state_sentence(loop, busy),
        "alarm": loop.alarm or None,
        "cause": loop.cause or None,
        "busy": busy or None,
        "drifting": f.drifting,
        "shift_frac": float(np.expm1(loop.shift_log)),
        "evidence_nat": f.evidence_nat,
        "fast_log_sd": f.fast_log_sd,
        "slow_log_sd": f.slow_log_sd,
        "threshold": THRESHOLD,
        "terms": term_records(loop),
        "n_measurements": len(loop.measurements),
        "series": [
            {
                "time_utc": loop.measurements[i].time_utc,
                "output": ("decode_s", "ttft_s")[kind],
                "log_residual": float(residual),
                "z": float(z),
                "statistic": float(statistic),
                "alarm": bool(alarm),
            }
            for i, kind, residual, z, statistic, alarm in zip(
                f.owner, f.kind, f.residual, f.z, f.statistic, f.alarms, strict=True
            )
        ],
        "next": following,
    }


def _next(proposal: tuple[OperatingPoint, str]) -> dict[str, Any]:
    return {"point": point_record(proposal[0]), "why": proposal[1]}
