"""A row of the lab: the inputs of a formula with their defaults, its outputs, a sentence, and the curve of a sweep.

An input is read from text with its unit, here for the command line and the screen alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from app.text.chart import Chart, Rule, Series
from app.text.format import exact_text, parse_quantity
from core.spec import Provenance

UTC_TIME = "UTC"
"""Unit of an input that is a moment: seconds since 1970, typed as 2026-01-01T00:00:00Z."""
_BARE = ("1", "frac", "bit", "cycle", "1/cycle", "byte/cycle", "tokens")
"""Units that may be left out; 40 of a latency or 128 of a bandwidth may not stand alone."""
_ENDS = {
    "s": "_s",
    "h": "_s",
    "byte": "_byte",
    "byte/s": "_byte_s",
    "bit": "_bit",
    "1/s": "_per_s",
    "cycle": "_cycle",
    "1/cycle": "_per_cycle",
    "byte/cycle": "_byte_cycle",
    UTC_TIME: "_utc_s",
}
"""Unit -> end of the name of a value."""
_SIZES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
_N_SWEPT = 61
_LOG_FROM = 30.0  # ratio of the ends of a sweep from which its axis is logarithmic

Values = Mapping[str, float]
Found = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Input:
    """One number that the user gives. `span` is what a sweep covers, in multiples of `step` where there is one."""

    option: str  # ``--latency`` on the command line, ``lab.A03.latency`` on the screen
    label: str
    default: float
    unit: str
    low: float
    high: float
    span: tuple[float, float]
    source: str = "published"  # of the default: "published" or "assumed"
    whole: bool = False
    step: float = 0.0

    @property
    def name(self) -> str:
        """The option with its unit, as ``latency_s``."""
        return self.option.replace("-", "_") + _ENDS.get(self.unit, "")

    def text(self, value: float) -> str:
        """Return a value as it can be typed."""
        if self.unit == UTC_TIME:
            return moment_text(value)
        if self.whole and self.unit == "byte" and value == round(value):
            name, size = next(((name, size) for name, size in _SIZES if value % size == 0 < value), _SIZES[-1])
            return f"{value / size:.0f} {name}"
        return exact_text(value, self.unit)

    def read(self, text: str) -> float:
        """Return the value of a text in the unit of the input.

        Raises
        ------
        ValueError
            One sentence: the input, the text, and what was expected.
        """
        if not text.strip():
            raise ValueError(f"{self.label}: got nothing, expected {self.expected}")
        if self.unit == UTC_TIME:
            return self.checked(_moment(self.label, text))
        bare = "" if self.unit in _BARE else None
        return self.checked(parse_quantity(text, self.unit, name=self.label, bare=bare))

    def checked(self, value: float) -> float:
        """Return a value that is in range, and whole where it must be.

        Raises
        ------
        ValueError
            One sentence: the input, the value, and what was expected.
        """
        in_range = isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high
        if not in_range or (self.whole and value != round(value)):
            shown = repr(value) if not isinstance(value, int | float) or in_range else self._beyond(value)
            raise ValueError(f"{self.label}: got {shown}, expected {self.expected}")
        return float(value)

    def _beyond(self, value: float) -> str:
        return f"{value:g}" if self.unit == UTC_TIME or not math.isfinite(value) else exact_text(value, self.unit)

    @property
    def expected(self) -> str:
        """The values that hold, in words."""
        kind = "a whole number from " if self.whole else ""
        return f"{kind}{self.text(self.low)} to {self.text(self.high)}"


def moment_text(time_s: float) -> str:
    """Return a moment as it is typed: seconds since 1970 as 2026-01-01T00:00:00Z."""
    return datetime.fromtimestamp(time_s, UTC).isoformat().replace("+00:00", "Z")


def _moment(label: str, text: str) -> float:
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{label}: got {text[:64]!r}, expected a UTC time such as 2026-01-01T00:00:00Z") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


@dataclass(frozen=True, slots=True)
class Output:
    """One number that the formula returns."""

    name: str
    label: str
    unit: str = "1"
    provenance: Provenance = Provenance.PREDICTED

    def text(self, value: float | str) -> str:
        """Return a value with its unit."""
        return value if isinstance(value, str) else exact_text(value, self.unit)


@dataclass(frozen=True, slots=True)
class Lab:
    """An item of an article with the user's own numbers.

    Attributes
    ----------
    key, title : str
        The item; its title begins with the name of the component where it has one.
    inputs, outputs : tuple
        What it takes and what it returns.
    calculate : callable
        Values by input name -> results by output name; raises ValueError for values that contradict each other.
    sentence : callable
        Values and results -> the result in words.
    swept : str
        The input on the x axis of the plot.
    drawn : tuple of str
        The outputs on its y axis, all of one unit.
    """

    key: str
    title: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    calculate: Callable[[Values], Found]
    sentence: Callable[[Values, Found], str]
    swept: str
    drawn: tuple[str, ...]

    @property
    def defaults(self) -> dict[str, float]:
        """The printed values, and assumed ones where nothing is printed."""
        return {one.name: one.default for one in self.inputs}

    def input(self, option: str) -> Input:
        """Return an input by its name or option.

        Raises
        ------
        ValueError
            There is none; the message lists them.
        """
        found = next((one for one in self.inputs if option in (one.name, one.option)), None)
        if found is None:
            known = ", ".join(one.option for one in self.inputs)
            raise ValueError(f"input: got {option[:80]!r}, expected one of {known}")
        return found

    def evaluate(self, values: Values) -> Found:
        """Return the results of checked values.

        Raises
        ------
        ValueError
            A value is out of range, or two contradict each other.
        """
        whole = {one.name: one.checked(values[one.name]) for one in self.inputs}
        try:
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                return self.calculate(whole)
        except ArithmeticError as error:
            raise ValueError(f"{self.key}: these values have no finite result together ({error})") from error

    @property
    def check(self) -> str:
        """Return which check the article's own values fail."""
        return _verdict(self.key)


@functools.cache
def _verdict(key: str) -> str:
    from core.articles.items import item  # computes the whole item

    return item(key).verdict


@dataclass(frozen=True, slots=True)
class Sweep:
    """Results along one input. A position without a result has NaN."""

    input: Input
    x: NDArray[np.float64]
    found: tuple[Found | None, ...]
    reasons: tuple[str, ...]

    def values(self, name: str) -> NDArray[np.float64]:
        """Return one output along the sweep."""
        return np.array([np.nan if one is None else float(one[name]) for one in self.found])


def sweep(lab: Lab, values: Values, option: str, low: float | None = None, high: float | None = None) -> Sweep:
    """Evaluate a lab along one input, by default over its span widened to the value at hand.

    Raises
    ------
    ValueError
        There is no such input, or the range is empty or out of bounds.
    """
    one = lab.input(option)
    at = values[one.name]
    first = min(one.span[0], at) if low is None else one.checked(low)
    last = max(one.span[1], at) if high is None else one.checked(high)
    if first >= last:
        raise ValueError(f"sweep: got {one.text(first)}..{one.text(last)}, expected a lower and a higher {one.label}")
    found: list[Found | None] = []
    reasons: list[str] = []
    x = _positions(one, first, last)
    for position in x:
        try:
            found.append(lab.evaluate({**values, one.name: float(position)}))
            reasons.append("")
        except ValueError as error:
            found.append(None)
            reasons.append(str(error))
    return Sweep(one, x, tuple(found), tuple(reasons))


def _positions(one: Input, first: float, last: float) -> NDArray[np.float64]:
    if one.step:
        n_first, n_last = math.ceil(first / one.step), math.floor(last / one.step)
        steps = np.asarray(np.arange(n_first, n_last + 1) * one.step, dtype=float)
        return steps[:: max(1, steps.size // _N_SWEPT)] if steps.size > 1 else np.array([first, last])
    ends = (math.log(first), math.log(last)) if _is_log(first, last) else (first, last)
    even = np.linspace(*ends, _N_SWEPT)
    positions = np.asarray(np.clip(np.exp(even) if ends != (first, last) else even, first, last), dtype=float)
    return np.unique(np.round(positions)) if one.whole else positions


def _is_log(first: float, last: float) -> bool:
    return 0.0 < first * _LOG_FROM <= last


def chart(lab: Lab, values: Values, swept: Sweep) -> Chart:
    """Return the curves of a sweep, with a rule at the value at hand."""
    outputs = [one for one in lab.outputs if one.name in lab.drawn]
    columns = {one.name: swept.values(one.name) for one in outputs}
    known = np.concatenate([column[np.isfinite(column)] for column in columns.values()])
    x_range = (float(swept.x[0]), float(swept.x[-1]))
    name = swept.input.label[0].lower() + swept.input.label[1:]
    title = " and ".join([outputs[0].label, *(["others"] if len(outputs) > 2 else [o.label for o in outputs[1:]])])
    if not known.size:
        return Chart(title, ("", ""), ("", ""), message=f"No curve: {next(filter(None, swept.reasons))}.")
    top, bottom = float(known.max()), float(known.min())
    log = (_is_log(*x_range), bottom > 0.0 and _is_log(bottom, top))
    series = tuple(
        Series(swept.x, columns[one.name], one.provenance, one.label if len(outputs) > 1 else "", color)
        for one, color in zip(outputs, _colors(outputs), strict=True)
    )
    return Chart(
        title,
        (name, swept.input.unit),
        (outputs[0].label if len(outputs) == 1 else "result", outputs[0].unit),
        series,
        (Rule("x", values[swept.input.name], "here", "dim"),),
        x_range=x_range,
        y_range=(bottom / 1.2, top * 1.2) if log[1] else (min(0.0, bottom * 1.1), (top * 1.12) or 1.0),
        log=log,
        description=f"{title} against {name}",
    )


def _colors(outputs: list[Output]) -> list[str]:
    own = iter(("accent", "ok", "dim", "text"))
    return ["published" if one.provenance is Provenance.AS_PUBLISHED else next(own) for one in outputs]
