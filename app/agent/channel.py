"""One column of the sample records, and the reading that fills it."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Sequence

from app.agent.files import KernelFile


@dataclass
class Channel:
    """One quantity of the board: present with its unit and source, or absent with the reason.

    Attributes
    ----------
    key
        Subject and quantity, e.g. "package.temp_c". Unique.
    unit
        SI: "Hz", "degC", "W", "byte", "frac", "1".
    source
        The file it is read from.
    covers
        For a power: which part of the board it covers, in words.
    absent
        Why there are no samples; "" when there are.
    native_period_s
        How often the source makes a new value, found by counting changes; None while not known.
    """

    key: str
    unit: str
    source: str
    covers: str = ""
    absent: str = ""
    native_period_s: float | None = None

    def message(self) -> dict[str, Any]:
        """Return what the catalogue says about it."""
        return asdict(self)


class Sensor(Protocol):
    """Channels that one file fills."""

    @property
    def channels(self) -> Sequence[Channel]:
        """The columns, in the order of the values that `read` returns."""

    @property
    def interval_ns(self) -> int:
        """The shortest time between reads that can give a new value."""

    def read(self, t_ns: int) -> Sequence[float]:
        """Return one value a channel, NaN where it cannot be read now. Never raises."""


class Gauge:
    """A file that holds the value itself, in a unit `scale` times the SI one.

    A value outside `valid` is what a driver says when it has none (-256 degC of a powered-off block): NaN.
    """

    interval_ns = 0

    def __init__(
        self, channel: Channel, file: KernelFile, scale: float, valid: tuple[float, float] = (-math.inf, math.inf)
    ) -> None:
        self.channels = (channel,)
        self.file = file
        self._scale = scale
        self._valid = valid

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the value in SI."""
        value = self.file.number() * self._scale
        low, high = self._valid
        return (value if low <= value <= high else math.nan,)


def word(name: str) -> str:
    """Return `name` as a part of a channel key: lower case, with underscores for all but letters and digits."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "unnamed"
