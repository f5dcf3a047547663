"""Throttling: the power allocator of the Linux kernel, and caps on the clock by trip temperature.

Both make a controller: a function called once a control period with the die temperature, which returns the highest
operating level (index into a table that rises in clock and power) that is allowed until the next call.

References
----------
.. [1] docs/physics.md M8
.. [2] powerallocator, devicetrees and raspberrypidocs, docs/references.md
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.units import check_range

Controller = Callable[[float], int]


@dataclass(frozen=True, slots=True)
class PowerAllocator:
    """A PID controller with temperature in and power out, ``P_max = k_p e + k_i sum(e) + k_d de + P_sustainable``.

    ``e`` is the target minus the temperature. It acts from the switch-on temperature up and resets its integral below
    it. The integral stops growing while e is at or above `integral_cutoff_k`, and where it would exceed the highest
    level's power.

    Attributes
    ----------
    sustainable_w : float
        P_sustainable [W], > 0.
    switch_on_temp_c : float
        Temperature from which it acts [deg C].
    target_temp_c : float
        Target temperature [deg C], above the former.
    over_w_k, under_w_k : float
        k_p while too hot and while too cold [W/K], >= 0.
    integral_w_k, derivative_w_k : float
        k_i and k_d [W/K], >= 0.
    integral_cutoff_k : float
        Distance to the target from which the integral rests [K].
    """

    sustainable_w: float
    switch_on_temp_c: float
    target_temp_c: float
    over_w_k: float
    under_w_k: float
    integral_w_k: float
    derivative_w_k: float = 0.0
    integral_cutoff_k: float = 0.0

    def __post_init__(self) -> None:
        check_range("sustainable_w", self.sustainable_w, 0.0, open_low=True)
        check_range("target_temp_c - switch_on_temp_c", self.target_temp_c - self.switch_on_temp_c, 0.0, open_low=True)
        for name in ("over_w_k", "under_w_k", "integral_w_k", "derivative_w_k"):
            check_range(name, getattr(self, name), 0.0)

    @classmethod
    def estimated(cls, sustainable_w: float, switch_on_temp_c: float, target_temp_c: float) -> PowerAllocator:
        """Return the allocator with the constants that the kernel estimates where a board states none.

        ``k_p = P / dT`` while too hot, ``2 P / dT`` while too cold, and a tenth of the latter for k_i, dT being the
        distance from switch-on to target.

        Parameters
        ----------
        sustainable_w : float
            P, the sustainable power [W], > 0.
        switch_on_temp_c : float
            Temperature from which it acts [deg C].
        target_temp_c : float
            Target temperature [deg C], above the former.

        Returns
        -------
        PowerAllocator
            The allocator.

        Raises
        ------
        ValueError
            An argument is outside its range.

        References
        ----------
        .. [1] docs/physics.md M8
        .. [2] powerallocator, docs/references.md

        Examples
        --------
        >>> allocator = PowerAllocator.estimated(10.0, 75.0, 85.0)
        >>> allocator.over_w_k, allocator.under_w_k, allocator.integral_w_k
        (1.0, 2.0, 0.2)
        """
        check_range("target_temp_c", target_temp_c, switch_on_temp_c, open_low=True)
        over = sustainable_w / (target_temp_c - switch_on_temp_c)
        return cls(sustainable_w, switch_on_temp_c, target_temp_c, over, 2 * over, over / 5)

    def controller(self, level_power_w: Sequence[float], level_clock_hz: Sequence[float]) -> Controller:
        """Return a new controller for levels of rising power [W]; the lowest level is always allowed."""
        levels, top = list(level_power_w), len(level_power_w) - 1
        most = levels[-1]
        over, under, k_i, k_d = self.over_w_k, self.under_w_k, self.integral_w_k, self.derivative_w_k
        switch_on, target, cutoff, base = (
            self.switch_on_temp_c, self.target_temp_c, self.integral_cutoff_k, self.sustainable_w
        )  # fmt: skip
        integral = previous = 0.0

        def allowed(temp_c: float) -> int:
            nonlocal integral, previous
            if temp_c < switch_on:
                integral = previous = 0.0
                return top
            error = target - temp_c
            if error < cutoff:
                grown = integral + k_i * error
                if -most < grown < most:
                    integral = grown
            budget = base + (over if error < 0 else under) * error + integral
            if k_d:
                budget += k_d * (error - previous)
                previous = error
            return bisect_right(levels, budget, 1) - 1  # the lowest level is always allowed

        return allowed


@dataclass(frozen=True, slots=True)
class Trip:
    """A temperature from which the clock is capped until the die is `hysteresis_k` below it.

    Attributes
    ----------
    temp_c : float
        Trip temperature [deg C].
    max_clock_hz : float
        Cap [Hz], > 0.
    hysteresis_k : float
        Distance below the trip at which the cap ends [K], >= 0.
    """

    temp_c: float
    max_clock_hz: float
    hysteresis_k: float = 0.0

    def __post_init__(self) -> None:
        check_range("max_clock_hz", self.max_clock_hz, 0.0, open_low=True)
        check_range("hysteresis_k", self.hysteresis_k, 0.0)


@dataclass(frozen=True, slots=True)
class TripCaps:
    """Caps by temperature, as RK3588 (800 MHz above 85 deg C) and Raspberry Pi have them; all tripped caps hold.

    Attributes
    ----------
    trips : tuple of Trip
        The caps.
    """

    trips: tuple[Trip, ...]

    def controller(self, level_power_w: Sequence[float], level_clock_hz: Sequence[float]) -> Controller:
        """Return a new controller for levels of rising clock [Hz]; a cap below the lowest level allows the lowest."""
        clocks, top = list(level_clock_hz), len(level_clock_hz) - 1
        trips = [
            (t.temp_c, t.temp_c - t.hysteresis_k, max(bisect_right(clocks, t.max_clock_hz) - 1, 0)) for t in self.trips
        ]
        tripped = [False] * len(trips)

        def allowed(temp_c: float) -> int:
            level = top
            for i, (above, release, cap) in enumerate(trips):
                tripped[i] = temp_c >= above or (tripped[i] and temp_c > release)
                if tripped[i] and cap < level:
                    level = cap
            return level

        return allowed


@dataclass(frozen=True, slots=True)
class Unthrottled:
    """No control: the board keeps its level at any temperature."""

    def controller(self, level_power_w: Sequence[float], level_clock_hz: Sequence[float]) -> Controller:
        """Return a controller that always allows the highest level."""
        top = len(level_power_w) - 1
        return lambda _temp_c: top


Throttle = PowerAllocator | TripCaps | Unthrottled
