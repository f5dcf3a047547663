"""Energy of measured runs: the power of the board integrated over their windows, and the idle board beside it.

A run reports the times of prefill and decode in the clock of the sensors
(``time.monotonic``; ``time.perf_counter`` is the same clock on Linux). Prefill and decode are kept apart, and idle
power is never subtracted.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections import deque
from typing import Any, Callable, NamedTuple, Sequence

IDLE_S = (1.0, 5.0)
"""Idle power is the mean over the end of a pause between runs: of at least and at most so many seconds."""

_PATIENCE_S = 2.0  # for the reading past the end of a run, which a busy machine delays
_SETTLE_S = 0.3  # after a run, and after the first reading of a counter
_ENTRY_NS = 20_000_000  # the meter keeps at most 50 entries a second
_RAIL_ENTRIES, _RAIL_ENTRY_NS = 3600, 50_000_000  # of a rail: three minutes, half a megabyte
_WINDOWS = ("decode_window_s", "decode_window_tokens", "prefill_window_s", "prefill_window_prompts")


def request_windows(start_s: float, first_token_s: float, last_token_s: float, n_tokens: int) -> dict[str, Any]:
    """Return the conditions from which `RunEnergy` takes the time windows of a request.

    Parameters
    ----------
    start_s, first_token_s, last_token_s
        When the prompt began to be read and when the first and the last token came, rising, in seconds of
        ``time.monotonic``. Loading the model is not part of it.
    n_tokens
        Tokens generated, the first included: between the first and the last are ``n_tokens - 1`` steps.
    """
    return {
        "prefill_window_s": [start_s, first_token_s],
        "prefill_window_prompts": 1,
        "decode_window_s": [first_token_s, last_token_s],
        "decode_window_tokens": n_tokens - 1,
    }


class EnergyMeter:
    """The energy used up to each moment, by the trapezoid rule; a moment without power breaks the windows across it.

    One thread adds, another one asks.
    """

    def __init__(self, max_entries: int = 36_000, entry_ns: int = _ENTRY_NS) -> None:
        self._entry_ns = entry_ns
        self._entries: deque[tuple[int, float, int]] = deque(maxlen=max_entries)  # time, joules so far, breaks so far
        self._last: tuple[int, float] | None = None
        self._energy_j = 0.0
        self._n_breaks = 0
        self._moved = threading.Condition()

    @property
    def first_s(self) -> float:
        """Time of the oldest reading that is kept; infinite before the first."""
        with self._moved:
            return self._entries[0][0] * 1e-9 if self._entries else math.inf

    def add(self, t_ns: int, power_w: float) -> None:
        """Add one reading; times must rise."""
        with self._moved:
            if math.isnan(power_w):
                self._n_breaks += 1
                self._last = None
                self._moved.notify_all()
                return
            if self._last is not None:
                last_ns, last_w = self._last
                self._energy_j += (power_w + last_w) / 2 * (t_ns - last_ns) * 1e-9
            self._last = (t_ns, power_w)
            if (
                not self._entries
                or t_ns - self._entries[-1][0] >= self._entry_ns
                or self._n_breaks != self._entries[-1][2]
            ):
                self._entries.append((t_ns, self._energy_j, self._n_breaks))
                self._moved.notify_all()

    def energy_j(self, start_ns: int, end_ns: int, patience_s: float) -> float | None:
        """Return the energy of a window; None unless readings without a break reach over both of its ends.

        The last window of a run has just ended when it is asked for: `patience_s` is how long to wait for a reading
        past its end. A sensor that is gone is not waited for.
        """

        def past() -> bool:
            return bool(self._entries) and (self._last is None or self._entries[-1][0] >= end_ns)

        with self._moved:
            self._moved.wait_for(past, patience_s)
            entries = list(self._entries)
        times = [entry[0] for entry in entries]
        start, end = _at(entries, times, start_ns), _at(entries, times, end_ns)
        if start is None or end is None or start[1] != end[1]:
            return None
        return end[0] - start[0]


def _at(entries: Sequence[tuple[int, float, int]], times: Sequence[int], t_ns: int) -> tuple[float, int] | None:
    """Return joules and breaks at a time, interpolated between its neighbours; None outside and in a break."""
    after = bisect_right(times, t_ns)
    if after == 0 or (after == len(times) and times[-1] != t_ns):
        return None
    t0, e0, n0 = entries[after - 1]
    if t0 == t_ns:
        return e0, n0
    t1, e1, n1 = entries[after]
    return (e0 + (e1 - e0) * (t_ns - t0) / (t1 - t0), n0) if n0 == n1 else None


class Rail(NamedTuple):
    """A rail or part of the board whose power has a channel of its own."""

    key: str
    covers: str
    meter: EnergyMeter
    period_s: float  # between its new values; 0 when not known


def rail_meter() -> EnergyMeter:
    """Return a meter that is small enough for each of a dozen rails."""
    return EnergyMeter(_RAIL_ENTRIES, _RAIL_ENTRY_NS)


class RunEnergy:
    """Adds to the result of a measured run what its windows cost.

    Parameters
    ----------
    meter
        What the total power has been.
    absent
        Why there is none; "" when there is.
    covers
        What the power covers, in words.
    period_s
        Gives how often the power sensor has a new value; 0 when not known.
    rails
        Gives the parts of the board that are known one by one.
    """

    def __init__(
        self,
        meter: EnergyMeter,
        absent: str,
        covers: str,
        period_s: Callable[[], float],
        rails: Callable[[], Sequence[Rail]] = tuple,
    ) -> None:
        self._meter, self._absent, self._covers, self._period_s = meter, absent, covers, period_s
        self._rails = rails
        self._idle: dict[str, Any] = {"absent": absent or f"the board was not idle for {IDLE_S[0]:g} s before this run"}
        self._pause: tuple[float, float] | None = None  # not integrated yet

    def cover(self, absent: str, covers: str) -> None:
        """Take another total power, as when a tool has shown its rails."""
        self._absent, self._covers = absent, covers

    def idled(self, start_s: float, end_s: float) -> None:
        """Take note of a pause in which nothing ran on the board."""
        start_s = max(start_s + _SETTLE_S, end_s - IDLE_S[1], self._meter.first_s)
        if not self._absent and end_s - start_s >= IDLE_S[0]:
            self._pause = start_s, end_s

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a result with energy and power of its windows.

        Parameters
        ----------
        body
            A measured run. Its conditions carry the windows as `request_windows` makes them, as far as the run had
            them, or ``no_window``, the reason why it has none; they are taken out here. Added are ``power_w`` and
            ``energy_j_per_token`` (decode), ``prefill_power_w`` and ``prefill_energy_j`` (of one prompt),
            ``idle_power_w``, and ``rails``: the same of each part of the board by the key of its channel. Parts may
            overlap, and their sum is not the board.
        """
        if self._pause is not None:
            found, self._pause = self._mean(*self._pause), None
            self._idle = self._idle if "absent" in found else found
        conditions = dict(body.get("conditions", {}))
        decode_s, n_tokens, prefill_s, n_prompts = (conditions.pop(name, None) for name in _WINDOWS)
        power, energy = self._window(decode_s, n_tokens, conditions.pop("no_window", "decode was not asked for"))
        added = {"power_w": power, "energy_j_per_token": energy, "idle_power_w": self._idle}
        if prefill_s is not None:
            added["prefill_power_w"], added["prefill_energy_j"] = self._window(prefill_s, n_prompts, "")
        rails = {rail.key: self._of_rail(rail, decode_s, n_tokens, prefill_s, n_prompts) for rail in self._rails()}
        if rails and (decode_s or prefill_s):
            added["rails"] = rails
        notes = list(body.get("notes", []))
        if any("absent" not in added.get(name, {"absent": ""}) for name in ("power_w", "prefill_power_w")):
            conditions["power_covers"] = self._covers
            notes.append(f"Power covers {self._covers}; idle power is included.")
        return {**body, **added, "conditions": conditions, "notes": notes}

    def _of_rail(self, rail: Rail, decode_s: Any, n_tokens: Any, prefill_s: Any, n_prompts: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"covers": rail.covers}
        if decode_s and n_tokens:
            found["power_w"], found["energy_j_per_token"] = _cost(rail.meter, rail.period_s, decode_s, n_tokens)
        if prefill_s and n_prompts:
            found["prefill_power_w"], found["prefill_energy_j"] = _cost(rail.meter, rail.period_s, prefill_s, n_prompts)
        return found

    def _window(self, window_s: Sequence[float] | None, n: int | None, missing: str) -> tuple[Any, Any]:
        """Return mean power and energy per token or prompt of a window, or why there are none."""
        if self._absent or not window_s or not n:
            reason = {"absent": self._absent or missing}
            return reason, reason
        return _cost(self._meter, self._period_s(), window_s, n)

    def _mean(self, start_s: float, end_s: float) -> dict[str, Any]:
        return _mean_power(self._meter, self._period_s(), start_s, end_s)


def _cost(meter: EnergyMeter, period_s: float, window_s: Sequence[float], n: int) -> tuple[Any, Any]:
    """Return mean power of a window and its energy per token or prompt, or why there are none."""
    start_s, end_s = window_s
    power = _mean_power(meter, period_s, start_s, end_s)
    if "absent" in power:
        return power, power
    return power, _measured(power["median"] * (end_s - start_s) / n)


def _mean_power(meter: EnergyMeter, period_s: float, start_s: float, end_s: float) -> dict[str, Any]:
    """Return the mean power of a window, or why there is none."""
    if end_s <= start_s or end_s - start_s < 2 * period_s:
        return {"absent": f"the power sensor has a new value every {period_s:.2g} s, too slow for this run"}
    energy_j = meter.energy_j(int(start_s * 1e9), int(end_s * 1e9), _PATIENCE_S)
    if energy_j is None:
        return {"absent": "the power sensor could not be read during this run"}
    return _measured(energy_j / (end_s - start_s))


def _measured(value: float) -> dict[str, Any]:
    """Return the record of one reading; its spread is not known."""
    return {"median": value, "q05": value, "q95": value, "n": 1, "provenance": "measured"}
