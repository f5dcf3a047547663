"""Where an axis has its ticks and what they say: few, round, in the unit the card shows. Free of Qt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.views.format import display_unit, number_text, significant_decimals


@dataclass(frozen=True, slots=True)
class Scale:
    """What an axis carries: an SI unit; whether its positions are decimal logarithms; or names of options 0, 1, 2..."""

    unit: str = ""
    log: bool = False
    names: tuple[str, ...] = ()

    def ticks(self, low: float, high: float, n_wanted: int) -> list[tuple[float, str]]:
        """Return (position, text) of about `n_wanted` ticks between two positions."""
        if self.names:
            return [(float(i), name) for i, name in enumerate(self.names) if low <= i <= high]
        if self.log:
            return self._log_ticks(low, high, n_wanted)
        factor = display_unit(self.unit, max(abs(low), abs(high))).factor
        scaled = nice_ticks(low / factor, high / factor, n_wanted)
        gaps = [b - a for a, b in pairwise(scaled)]
        decimals = max(significant_decimals(min(gaps), 1), 0) if gaps else 2
        return [(value * factor, number_text(value, decimals)) for value in scaled]

    def _log_ticks(self, low: float, high: float, n_wanted: int) -> list[tuple[float, str]]:
        values = log_ticks(math.pow(10.0, low), math.pow(10.0, high), base_two=self.unit == "tokens")
        values = values[:: math.ceil(len(values) / (n_wanted + 2))] if values else []
        factor = display_unit(self.unit, max(values, default=1.0)).factor
        texts = [number_text(v / factor, max(significant_decimals(v / factor, 1), 0)) for v in values]
        return [(math.log10(value), text) for value, text in zip(values, texts, strict=True)]


def nice_ticks(low: float, high: float, n_wanted: int) -> list[float]:
    """Return about `n_wanted` round numbers between two bounds: multiples of 1, 2 or 5 times a power of ten."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return []
    rough = (high - low) / max(n_wanted, 1)
    power = math.pow(10.0, math.floor(math.log10(rough)))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.75)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) if step > 1e-9 else i * step for i in range(first, last + 1)]


def log_ticks(low: float, high: float, *, base_two: bool) -> list[float]:
    """Return round numbers between two positive bounds: powers of two, or 1, 2 and 5 times powers of ten."""
    if base_two:
        exponents = range(math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9) + 1)
        return [math.ldexp(1.0, i) for i in exponents]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [k * 10.0**i for i in decades for k in (1, 2, 5) if low * 0.999 <= k * 10.0**i <= high * 1.001]


def texts_fit(positions: Sequence[float], widths: Sequence[float], gap: float) -> list[bool]:
    """Return which centred texts to draw so that none touches the one drawn before it."""
    fits, edge = [], -math.inf
    for position, width in zip(positions, widths, strict=True):
        fits.append(position - width / 2 >= edge)
        if fits[-1]:
            edge = position + width / 2 + gap
    return fits
