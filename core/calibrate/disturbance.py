"""Disturbance of a measured time by other work: its degree from the recorded conditions, and its prior in a fit.

Other work only adds to a time. A time of degree d (0 quiet, 1 disturbed throughout) is

    ln t = ln t_quiet + d x_s + error,   x_s > 0

with one excess x_s for all times of a session s, log-normal, as in a stochastic frontier: the least time is the
board's, and excess is one-sided. Quiet times (d = 0) of any session fix the board; disturbed ones then inform ratios
within their session only.

References
----------
.. [1] docs/physics.md M10
.. [2] aigner1977, docs/references.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from core.spec import Prior

QUIET_DEGREE = 0.1
"""Largest degree of a time that counts as quiet."""

EXCESS = Prior(0.4, 0.8)  # [prior] of x: a fully disturbed time is 11 % to 340 % longer
OWN_LOG_SD = 0.1  # [prior] of a fully disturbed time about the excess of its session
SESSION_GAP_S = 600.0
"""Time between two measurements from which on the other work counts as another one [s]."""

FEWEST_QUIET = 3
"""Quiet points from which on they fix the board, however many are disturbed."""

NAME = "busy."
"""Prefix of the parameters' names: ``busy.`` kind ``.`` session."""

OTHERS_FULL_FRAC = 0.5  # [prior] share of the processors taken by others, from which on a run is disturbed throughout


def degree(conditions: Mapping[str, Any]) -> float:
    """Return the degree of disturbance of a run from its recorded conditions, 0 (quiet) to 1.

    The largest of: the cube of the share of interrupted steps (``quiet_share``), the share of the processors that other
    programs took over `OTHERS_FULL_FRAC` (``others_frac``), and the cubes of the shares of time in which some task
    waited for memory (``psi_memory_frac``) or, where the share of others is not known, for a processor
    (``psi_cpu_frac``): the run's own threads wait for each other too. Values that are no number are ignored.
    """
    interrupted = 1.0 - _share(conditions, "quiet_share", 1.0)
    others = _share(conditions, "others_frac") / OTHERS_FULL_FRAC
    waiting = _share(conditions, "psi_memory_frac")
    if "others_frac" not in conditions:
        waiting = max(waiting, _share(conditions, "psi_cpu_frac"))
    return float(min(max(interrupted**3, others, waiting**3), 1.0))


def _share(conditions: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    value = conditions.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        return default
    return float(min(max(value, 0.0), 1.0))


def sessions(times_s: Sequence[float | None]) -> list[int]:
    """Return the number of each measurement's session from its time: a gap of `SESSION_GAP_S` begins another one.

    Measurements without a time belong to the first session.
    """
    known = sorted({t for t in times_s if t is not None})
    starts = [known[i] for i in range(1, len(known)) if known[i] - known[i - 1] > SESSION_GAP_S]
    return [0 if t is None else int(np.searchsorted(starts, t, side="right")) for t in times_s]


def excess_name(kind: int, session: int) -> str:
    """Return the name of the excess of one kind of time in one session."""
    return f"{NAME}{kind}.{session}"


def sentence(n_disturbed: int, n: int) -> str:
    """Return the warning of a calibration made while other programs ran; "" where enough points are quiet."""
    if n_disturbed <= n / 2 or n - n_disturbed >= FEWEST_QUIET:
        return ""
    return (
        f"Calibrated while busy: other programs disturbed {n_disturbed} of {n} points, so the intervals are wide. "
        "Calibrate again when the board is quiet?"
    )
