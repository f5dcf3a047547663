"""The loop that follows a board, in words: alarm, likely cause from the recorded conditions, next measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from app.library.measurements import Measurement
from core.calibrate.follow import LEAST_SHIFT, Followed, most_telling
from core.calibrate.observations import DECODE
from core.spec import Catalogue, OperatingPoint, Posterior
from core.spec.correction import COST_TERMS

WARMER_K, HOT_C = 5.0, 60.0  # rise of the temperature that counts as heat, and from which temperature on
CLOCK_FRAC, BANDWIDTH_FRAC, OTHERS_FRAC = 0.03, 0.1, 0.1  # least changes that count as a cause
FEWEST_STUCK = 5
"""Measurements with exactly one temperature, from which on its sensor counts as standing still."""

UNSURE_LOG_SD = 0.02
"""Log-sd of a drift from which on another measurement of it is proposed."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A board followed through its measurements."""

    followed: Followed
    measurements: tuple[Measurement, ...]  # the series, oldest first

    @property
    def unconfirmed(self) -> bool:
        """Whether only the newest measurement deviates: a drift or a disturbance, the next one tells."""
        newest = self.followed.owner == self.followed.owner[-1]
        return bool(np.any(self.followed.alarms[newest] & self.followed.spike[newest]))

    @property
    def shift_log(self) -> float:
        """Drift of the newest decode time (else of the newest time) against the calibrated board, in logarithms."""
        f = self.followed
        decode = np.flatnonzero(f.kind == DECODE)
        return float(f.drift_log[decode[-1] if len(decode) else -1])

    @property
    def drifted(self) -> bool:
        """Whether the board runs otherwise than calibrated."""
        return self.followed.drifting and abs(self.shift_log) >= LEAST_SHIFT and self._first_alarm() is not None

    @property
    def since(self) -> int | None:
        """Index of the measurement at which the drift began; None without one."""
        first = self._first_alarm()
        return None if first is None else int(self.followed.owner[self.followed.start[first]])

    def _first_alarm(self) -> int | None:
        """Return the index of the first alarm of the newest run of alarms."""
        alarms = np.flatnonzero(self.followed.alarms)
        if not len(alarms):
            return None
        breaks = np.flatnonzero(np.diff(alarms) > 2)
        return int(alarms[breaks[-1] + 1 if len(breaks) else 0])

    @property
    def cause(self) -> str:
        """The likely cause of the drift from the recorded conditions, as a phrase; "" where they show none."""
        since = self.since
        if since is None:
            return ""
        conditions = [m.body.get("conditions", {}) for m in self.measurements]
        return likely_cause(conditions[:since], conditions[since:])

    @property
    def alarm(self) -> str:
        """The alarm in one sentence; "" where the board runs as calibrated."""
        if self.unconfirmed:
            f = self.followed
            i = int(np.flatnonzero((f.owner == f.owner[-1]) & f.alarms & f.spike)[0])
            which = "decode time" if f.kind[i] == DECODE else "time to first token"
            return (
                f"The last {which} is {_percent(f.ahead[i])} than predicted: measure it again to tell a drift from a "
                "disturbance."
            )
        if not self.drifted:
            return ""
        since = self.since
        assert since is not None
        began = self.measurements[since].time_utc[11:16]
        cause = self.cause
        words = f"likely cause: {cause}" if cause else "no recorded condition explains it"
        return (
            f"The board is {_percent(self.shift_log)} than calibrated{f' since {began} UTC' if began else ''}: "
            f"{self.moved}; {words}."
        )

    @property
    def moved(self) -> str:
        """The parameter that moved, as a phrase."""
        term = self.followed.moved
        if term is None:
            best = sorted(self.followed.terms, key=lambda one: -one.probability)[:2]
            names = " or ".join(COST_TERMS[one.key] for one in best)
            return f"{names}, which these points do not tell apart"
        log = term.log_shift if term.key == "launch" else -term.log_shift
        return f"the {COST_TERMS[term.key]} {_changed(log)}"

    def proposal(
        self, posterior: Posterior, candidates: Sequence[OperatingPoint], catalogue: Catalogue
    ) -> tuple[OperatingPoint, str] | None:
        """Return the measurement that tells most of the drift, and why; None where there is none or it is known."""
        newest = self.measurements[-1].point
        if self.unconfirmed:
            return newest, "the last point again tells a drift from a disturbance"
        if not self.drifted:
            return None
        point, log_sd = most_telling(self.followed, posterior, [newest, *candidates], catalogue)
        if log_sd < UNSURE_LOG_SD:
            return None
        names = f"{point.weights} weights, {point.kv} KV, alpha {float(point.alpha):g}, context"
        return point, (
            f"{names} {float(point.context_tokens):g} tells most of the drift, which is known within "
            f"{100 * np.expm1(1.645 * log_sd):.0f} % there"
        )


def likely_cause(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> str:
    """Return the likely cause of a change from the conditions of the runs before and after, "" where they show none.

    In this order: another power mode, throttling that the board reports, heat, other programs, clock, read bandwidth.
    """
    modes = [_newest_word(rows, "mode") for rows in (before, after)]
    if all(modes) and modes[0] != modes[1]:
        return f"the power mode changed from {modes[0]} to {modes[1]}"
    found = []
    throttle = _newest_word(after, "throttle")
    if throttle and throttle != "none" and "(earlier)" not in throttle:
        found.append(f"throttling ({throttle})")
    temp = _both(before, after, "temp_c", np.median)
    if temp is not None and temp[1] - temp[0] >= WARMER_K and temp[1] >= HOT_C:
        found.append(f"heat ({temp[1]:.0f} °C, {temp[0]:.0f} °C before)")
    others = _both(before, after, "others_frac", np.median, missing=0.0)
    if others is not None and others[1] - others[0] >= OTHERS_FRAC:
        found.append(f"other programs ({100 * others[1]:.0f} % of the processors)")
    clock = _both(before, after, "clock_hz", np.median)
    if clock is not None and abs(clock[1] / clock[0] - 1.0) >= CLOCK_FRAC:
        found.append(f"the clock ({clock[1] / 1e9:.2f} GHz, {clock[0] / 1e9:.2f} GHz before)")
    read = _both(before, after, "read_byte_s", np.median)
    if read is not None and abs(read[1] / read[0] - 1.0) >= BANDWIDTH_FRAC:
        found.append(f"the read bandwidth ({read[1] / 1e9:.1f} GB/s, {read[0] / 1e9:.1f} GB/s before)")
    return ", ".join(found)


def _newest_word(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    return next((row[name] for row in reversed(rows) if isinstance(row.get(name), str)), "")


def _both(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    name: str,
    one: Callable[[Sequence[float]], Any],
    missing: float | None = None,
) -> tuple[float, float] | None:
    """Return a condition before and after; None where either is not known, or its sensor stands still."""
    values = [_numbers(rows, name) for rows in (before, after)]
    known = [*values[0], *values[1]]
    if name == "temp_c" and len(known) >= FEWEST_STUCK and len(set(known)) == 1:
        return None
    if not values[1] or not (values[0] or missing is not None):
        return None
    first = float(one(values[0])) if values[0] else float(missing or 0.0)
    return first, float(one(values[1]))


def _numbers(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    found = (row.get(name) for row in rows)
    numbers = (value.get("median") if isinstance(value, Mapping) else value for value in found)
    return [float(n) for n in numbers if isinstance(n, int | float) and not isinstance(n, bool) and np.isfinite(n)]


def seconds(time_utc: str) -> float | None:
    """Return a time of a measurement in seconds since 1970; None where it has none."""
    try:
        moment = datetime.fromisoformat(time_utc)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _percent(log: float) -> str:
    return f"{100 * abs(float(np.expm1(log))):.0f} % {'slower' if log > 0 else 'faster'}"


def _changed(log: float) -> str:
    return f"{'rose' if log > 0 else 'fell'} by {100 * abs(float(np.expm1(log))):.0f} %"
