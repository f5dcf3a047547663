"""One column of the sample records, and the reading that fills it."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Sequence

from app.agent.files import KernelFile

TOTALS = ("input", "sum", "disjoint", "estimate", "flow")
"""How power channels make up that of the whole board, the best first: one channel is the board's input; all of these
rails together are the module; all of these parts are disjoint and most of the machine; one channel estimates the board;
one channel is the battery's flow, which is the machine's power while it discharges."""


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
        Which part of the board it covers, in words.
    absent
        Why there are no samples; "" when there are.
    native_period_s
        How often the source makes a new value, found by counting changes; None while not known.
    error
        Largest error that the steps of the source cause, in `unit`; None while not known.
    total
        For a power, how it takes part in that of the whole board: one of `TOTALS`, or "" where it does not.
    part_of
        For a power: the key of the channel that has counted it already.
    doubt
        For a power of the whole board: why its values are not believed now; "" while they are.
    note
        What to know when reading it ("a load above 100 % was read: shown as 100 %").
    """

    key: str
    unit: str
    source: str
    covers: str = ""
    absent: str = ""
    native_period_s: float | None = None
    error: float | None = None
    total: str = ""
    part_of: str = ""
    note: str = ""
    doubt: str = ""

    def message(self) -> dict[str, Any]:
        """Return the catalogue entry; rare members only where they have a value. A power in doubt is no total."""
        record = asdict(self)
        doubt = record.pop("doubt")
        if doubt:
            record.update(total="", note=doubt)
        for name in ("error", "total", "part_of", "note"):
            if not record[name]:
                del record[name]
        return record


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


_NOTHING = (math.nan,)
_MAX = 3e38  # of the records' numbers


class Gauge:
    """A file that holds the value itself, in a unit `scale` times the SI one.

    A value outside `valid` is what a driver says when it has none (-256 degC of a powered-off block): NaN.
    """

    def __init__(
        self,
        channel: Channel,
        file: KernelFile,
        scale: float,
        valid: tuple[float, float] = (-math.inf, math.inf),
        interval_ns: int = 0,
    ) -> None:
        self.channels = (channel,)
        self.file = file
        self.interval_ns = interval_ns
        self._number = file.number
        self._scale = scale
        self._low, self._high = max(valid[0], -_MAX), min(valid[1], _MAX)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the value in SI."""
        value = self._number() * self._scale
        return (value,) if self._low <= value <= self._high else _NOTHING


def word(name: str) -> str:
    """Return `name` as a part of a channel key: lower case, with underscores for all but letters and digits."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "unnamed"
