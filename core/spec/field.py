"""A field of the operating point: what is known of it, and the check of its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.units import check_range


@dataclass(frozen=True, slots=True)
class Slider:
    """Range of a slider and of a curve, in the unit of its field. A typed value may lie outside it."""

    low: float
    high: float
    step: float  # of sensitivities
    log: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the operating point: a number with a unit, or a name without one.

    Notes
    -----
    The dashboard lists the `offered` values of a number; any other value may be typed. A `rare` field at its default is
    omitted from files and commands. So files of versions without the field describe the same points, and their
    measurements and journals stay valid. Fields that are added later are rare. The dashboard's controls show a field
    `aside` at its default only under "More".
    """

    name: str  # of `OperatingPoint`; its key in files and in messages to the board
    path: str  # in the dashboard's store
    option: str  # of the command line, and name of the axis of a sweep
    label: str
    help: str  # of the option; {default} is the default
    default: str | float | None  # None: the board's own
    unit: str = ""  # "1", "tokens" or "byte/s"; "" of a name
    placeholder: str = "VALUE"
    # of a number
    low: float = -np.inf
    high: float = np.inf
    open_high: bool = False  # whether `high` lies outside
    whole: bool = False
    expected: str = ""  # the range in words
    array: bool = False  # whether it may be an array
    slider: Slider | None = None  # None where its range depends on the board or the model
    offered: tuple[float, ...] = ()
    offered_text: str = ""  # format of an offered value
    # of a name
    known: str = ""  # attribute of `Catalogue` that holds the keys
    options: tuple[str, ...] = ()  # the keys, where they are the same for every board
    # of both
    unset: str = ""  # label of the default in a list, where the default is "" or 0
    column: str = ""  # of tables of measurements, where it is not `name`
    required: bool = False  # whether a file must have it
    rare: bool = False
    aside: bool = False  # whether the dashboard's controls have it under "More"
    knob: bool = False  # whether runtimes can have it among `Runtime.knobs`
    of_pruning: bool = False  # whether it has no effect without pruning
    effective: Callable[[Any], bool] | None = None  # whether it has an effect at a point (scalars); None for always
    read: Callable[[str], str] | None = None  # the usual writing of a typed name, which need not be among `options`

    @property
    def is_number(self) -> bool:
        """Whether the field is a number, not a name."""
        return bool(self.unit)

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest value [unit of the field]."""
        return self.low, self.high

    def holds(self, value: float) -> bool:
        """Return whether a number lies in the range; NaN does not."""
        return self.low <= value < self.high if self.open_high else self.low <= value <= self.high

    def check(self, value: Any, high: float | None = None) -> None:
        """Raise `ValueError` unless every element of a number or array is in range; `high` replaces the upper end."""
        check_range(self.name, value, self.low, self.high if high is None else high, open_high=self.open_high)
