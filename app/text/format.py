"""Numbers out to people and back: SI prefixes, thin-space thousands, digits decided by the interval.

The only place where prefixes are added for display. Free of Qt, so the command line prints and reads the same texts.
Units are the ones that names and files carry: ``s``, ``byte``, ``byte/s``, ``W``, ``J/token``, ``Hz``, ``op/s``,
``degC``, ``frac`` (shown in percent), ``tokens``, ``1`` (a plain ratio), ``bit``, ``1/s`` (transfers),
``cycle``, ``1/cycle``, ``byte/cycle``; ``min``, ``h`` and ``Wh`` show seconds and
joules that are many.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

from app.text.notation import bus_byte_s, charge_j, plain, symbol
from core.spec import Absent, Output

THIN_SPACE = "\u2009"
MINUS = "\u2212"
DASH = "\u2013"
MAX_INPUT_LENGTH = 64
_FAR = 1e6  # how far a number may be from 1 before zeros hide it
_FAR_DIGITS = 3  # behind the first one of such a number, at most

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SMALL = {"": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_INTO = _DECIMAL | {"K": 1e3} | _BINARY
_WATTS = _SMALL | {"u": 1e-6, "k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True, slots=True)
class _Unit:
    """Display, spellings and prefixes of one SI unit."""

    shown: str
    out: dict[str, float]  # prefixes used for display
    spelled: dict[str, float]  # spellings accepted, with their size in the SI unit
    into: dict[str, float]  # prefixes accepted in front of them
    example: str
    bits: tuple[str, ...] = ()  # spellings that some people mean as bits and others as bytes


_UNITS = {
    "s": _Unit("s", _SMALL, {"s": 1.0}, _SMALL | {"u": 1e-6}, "9.3 ms"),
    "min": _Unit("min", {"": 60.0}, {"min": 60.0, "h": 3600.0, "s": 1.0}, {"": 1.0}, "90 min"),
    "h": _Unit("h", {"": 3600.0}, {"h": 3600.0, "min": 60.0, "s": 1.0}, {"": 1.0}, "2 h or 90 min"),
    "byte": _Unit("B", _DECIMAL, {"B": 1.0, "byte": 1.0, "bit": 0.125}, _INTO, "4 GB or 4 GiB", ("b",)),
    "byte/s": _Unit(
        "B/s",
        _DECIMAL,
        {"B/s": 1.0, "Bps": 1.0, "byte/s": 1.0, "bit/s": 0.125},
        _INTO,
        "51.2 GB/s",
        ("b/s", "bps"),
    ),
    "W": _Unit("W", _SMALL | {"k": 1e3}, {"W": 1.0}, _WATTS, "15 W"),
    "V": _Unit("V", _SMALL, {"V": 1.0}, _SMALL, "5 V"),
    "A": _Unit("A", _SMALL, {"A": 1.0}, _SMALL, "2.1 A"),
    "J": _Unit("J", _SMALL | {"k": 1e3}, {"J": 1.0, "Wh": 3600.0}, _WATTS, "40 J or 56 Wh"),
    "Wh": _Unit("Wh", {"": 3600.0, "k": 3.6e6}, {"Wh": 3600.0, "J": 1.0}, _WATTS, "56 Wh"),
    "J/token": _Unit("J/token", _SMALL, {"J/token": 1.0, "J": 1.0}, _SMALL | {"u": 1e-6}, "90 mJ/token"),
    "Hz": _Unit("Hz", _DECIMAL, {"Hz": 1.0}, _DECIMAL, "2.4 GHz"),
    "op/s": _Unit("op/s", _DECIMAL, {"op/s": 1.0, "OPS": 1.0, "FLOP/s": 1.0, "FLOPS": 1.0}, _DECIMAL, "40 Top/s"),
    "degC": _Unit("°C", {"": 1.0}, {"°C": 1.0, "degC": 1.0, "C": 1.0}, {"": 1.0}, "65 °C"),
    "frac": _Unit("%", {"": 0.01}, {"%": 0.01}, {"": 1.0}, "0.3 or 30 %"),
    "tokens": _Unit("tokens", {"": 1.0}, {"tokens": 1.0, "token": 1.0, "": 1.0}, _INTO, "2048 or 2k"),
    "tokens/s": _Unit(
        "tokens/s",
        {"": 1.0},
        {"": 1.0, **dict.fromkeys(("tokens/s", "token/s", "tok/s", "tk/s", "t/s", "tps"), 1.0)},
        {"": 1.0},
        "10 tok/s",
    ),
    "1/s": _Unit("T/s", _DECIMAL, {"T/s": 1.0, "/s": 1.0}, _DECIMAL, "6400 MT/s"),
    "bit": _Unit("bit", {"": 1.0}, {"bit": 1.0, "bits": 1.0, "": 1.0}, {"": 1.0}, "16 bit"),
    "cycle": _Unit("cycles", {"": 1.0}, {"cycles": 1.0, "cycle": 1.0, "": 1.0}, {"": 1.0}, "1.8 cycles"),
    "1/cycle": _Unit("/cycle", {"": 1.0}, {"/cycle": 1.0, "": 1.0}, {"": 1.0}, "4096 /cycle"),
    "byte/cycle": _Unit("B/cycle", {"": 1.0}, {"B/cycle": 1.0, "": 1.0}, {"": 1.0}, "64 B/cycle"),
    "1": _Unit("", {"": 1.0}, {"": 1.0, "%": 0.01}, {"": 1.0}, "0.3 or 30 %"),
}


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """A unit with its prefix: ``factor`` SI units make one of it, ``text`` names it."""

    factor: float
    text: str


def display_unit(unit: str, reference: float) -> DisplayUnit:
    """Return the prefixed unit in which `reference` (in SI) reads as 1 to 999; an unknown unit is shown as it is."""
    known = _UNITS.get(unit)
    if known is None:
        return DisplayUnit(1.0, unit)
    prefixes = sorted(known.out.items(), key=lambda item: item[1])
    size = abs(reference) * 1.0005  # what rounds up to 1000 takes the next prefix
    if not prefixes[0][1] / _FAR <= size <= prefixes[-1][1] * _FAR:  # no prefix brings it near
        return DisplayUnit(known.out[""], known.shown)
    prefix, factor = prefixes[0]
    for candidate in prefixes:
        if candidate[1] <= size:
            prefix, factor = candidate
    return DisplayUnit(factor, prefix + known.shown)


def number_text(value: float, decimals: int) -> str:
    """Return `value` with `decimals` digits after the point (negative: rounded to tens, hundreds...).

    What would need many zeros has a power of ten in their place: ``1.00e−15``.
    """
    if not math.isfinite(value):
        return DASH
    rounded = round(value, decimals)
    if rounded and not 1.0 / _FAR <= abs(rounded) < _FAR**2:
        n_digits = decimals - significant_decimals(rounded, 1)
        return f"{rounded:.{min(max(n_digits, 0), _FAR_DIGITS)}e}".replace("e+", "e").replace("-", MINUS)
    digits = f"{abs(rounded):,.{max(decimals, 0)}f}".replace(",", THIN_SPACE)
    return (MINUS if rounded < 0 else "") + digits


def significant_decimals(size: float, n_digits: int) -> int:
    """Return the decimals that show `n_digits` significant digits of a number of this size."""
    if size == 0 or not math.isfinite(size):
        return 0
    exponent = int(f"{size:.{n_digits - 1}e}".rpartition("e")[2])  # of the rounded number: 9.996 is 10.0
    return n_digits - 1 - exponent


def interval_decimals(width: float) -> tuple[int, int]:
    """Return the decimals of a value and of its bounds, given the width of its interval.

    The value shows two digits of the width, the bounds one (two where the first is 1 or 2): 9.29 [8.9 – 9.6].
    """
    decimals = max(significant_decimals(width, 2), 0)
    leading = width / 10.0 ** math.floor(math.log10(width)) if width > 0 else 1.0
    return decimals, decimals if leading < 3 else max(decimals - 1, 0)


def quantity_text(value: float, unit: str, n_digits: int = 3) -> str:
    """Return a number without interval, with its unit: ``9.29 ms``, ``2 048 tokens``, ``38.4 GB/s``, ``98.9 %``."""
    if not math.isfinite(value):
        return DASH
    shown = display_unit(unit, value)
    scaled = value / shown.factor
    whole = unit == "tokens"
    decimals = 0 if whole else max(significant_decimals(scaled, n_digits), 0)
    return _joined(number_text(scaled, decimals), "token" if whole and round(scaled) == 1 else shown.text)


def exact_text(value: float, unit: str, least_decimals: int = 0) -> str:
    """Return a number a person entered, with the digits it needs (at most four) and no more: ``51.2 GB/s``, ``0.3``."""
    shown = display_unit(unit, value)
    scaled = value / shown.factor
    most = max(significant_decimals(scaled, 4), 0)
    decimals = next((n for n in range(most) if math.isclose(round(scaled, n), scaled, rel_tol=1e-6)), most)
    return _joined(number_text(scaled, max(decimals, least_decimals)), shown.text)


def at_most_text(value: float, decimals: int) -> str:
    """Return a bound rounded down: what it says is still within."""
    return number_text(math.floor(value * 10.0**decimals + 1e-9) / 10.0**decimals, decimals)


def change_text(value: float, unit: str, like: float | None = None) -> str:
    """Return a difference with its sign and two digits, in the prefix `like` would have: ``−0.62 ms`` of 9.29 ms."""
    shown = display_unit(unit, value if like is None else like)
    scaled = value / shown.factor
    sign = "" if value == 0 else MINUS if value < 0 else "+"
    return _joined(sign + number_text(abs(scaled), max(significant_decimals(scaled, 2), 0)), shown.text)


@dataclass(frozen=True, slots=True)
class EstimateText:
    """An estimate in words, its parts in one unit: ``9.29``, ``ms``, ``8.9 – 9.6``."""

    value: str
    unit: str
    interval: str

    def __str__(self) -> str:
        return _joined(self.value, self.unit) + (f" [{self.interval}]" if self.interval else "")


def estimate_text(
    median: float, q05: float, q95: float, unit: str, like: float | None = None, n_most: int | None = None
) -> EstimateText:
    """Return a value and its 90 % interval as text; the interval decides the digits, `like` the prefix if given.

    Without its interval on the screen, a value gets at most `n_most` digits.
    """
    shown = display_unit(unit, median if like is None else like)
    value, low, high = median / shown.factor, q05 / shown.factor, q95 / shown.factor
    if not (math.isfinite(low) and math.isfinite(high)):
        return EstimateText(number_text(value, max(significant_decimals(value, 3), 0)), shown.text, "")
    width = high - low
    if width <= abs(value) * 1e-6:
        return EstimateText(number_text(value, max(significant_decimals(value, 3), 0)), shown.text, "")
    decimals, bound_decimals = interval_decimals(width)
    if n_most is not None:
        decimals = min(decimals, max(significant_decimals(value, n_most), 0))
    interval = f"{_not_nothing(low, bound_decimals)} {DASH} {_not_nothing(high, bound_decimals)}"
    return EstimateText(_not_nothing(value, decimals), shown.text, interval)


def _not_nothing(value: float, decimals: int) -> str:
    """Return a number with these decimals, or up to two more where it would read as nothing and is something."""
    needed = significant_decimals(value, 1)
    return number_text(value, needed if decimals < needed <= decimals + 2 else decimals)


def output_text(output: Output, unit: str) -> str:
    """Return an output with interval and provenance, or a dash and the reason why it is absent."""
    if isinstance(output, Absent):
        return f"{DASH} ({output.reason})"
    text = estimate_text(float(output.median), float(output.q05), float(output.q95), unit)
    return f"{text} {output.provenance.value.replace('_', ' ')}"


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one: "1 point", "3 points"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def brief(reason: str) -> str:
    """Return the head of a reason, what stands before its details: "no power sensor on this machine"."""
    return re.split(r"[:;] ", reason, maxsplit=1)[0]


def as_sentence(text: str) -> str:
    """Return a text of another program's making as a sentence: it begins with a capital, unless that is a name's
    first letter, and ends.
    """
    first, rest = text.partition(" ")[0], text.rstrip(".")
    head = rest[:1].upper() + rest[1:] if first.rstrip(",:").isalpha() else rest
    return head if head.endswith(("?", "!")) or not head else f"{head}."


_TIED = re.compile(
    r"(?<=\d) (?=(?:%|°C|tokens?\b|[nµm]?s\b|[mk]?[WJ]\b|[kMGT]?(?:B|Hz|B/s|op/s)\b|min\b|h\b))|(?<=α) (?=\d)"
)


def unbroken(text: str) -> str:
    """Return the text with numbers tied to their units and to α, so that no line ends between them."""
    return _TIED.sub("\u00a0", text)


def _joined(number: str, unit: str) -> str:
    return f"{number} {unit}" if unit else number


_LARGE = {"": "", "k": "kilo", "m": "mega", "g": "giga", "t": "tera"} | {
    **{"ki": "kibi", "mi": "mebi", "gi": "gibi", "ti": "tebi"}
}
_TOKEN_RATE = re.compile(r"(?:tokens?|tk|t)(?:/s|ps)", re.I)
_NUMBER = re.compile(r"[+\-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+\-]?\d+)?")
_GROUPS = re.compile(r"(?<![\d.])(\d{1,3})((?: \d{3})+)(?!\d)")


def parse_quantity(
    text: str,
    unit: str,
    *,
    name: str = "value",
    low: float | None = None,
    high: float | None = None,
    bare: str | None = "",
    per_token: bool = False,
) -> float:
    """Return the number a person typed, in the SI unit `unit`.

    Parameters
    ----------
    text
        ``51.2GB/s``, ``0.3``, ``30 %``, ``15W``, ``2 048``, ``2k``, ``0,3``, ``4GiB``, ``900us``; at most 64 long.
        A bandwidth also as ``6400 MT/s x 128 bit``, an energy as ``5000 mAh x 3.7 V``.
    unit
        One of this module's units.
    name
        What the number is, for the message.
    low, high
        Allowed range in SI units, ends included; None means no limit.
    bare
        The unit meant when none is typed, such as ``GB/s``; by default the SI unit itself, with None none: 10 of a
        latency or 50 of a bandwidth is hardly ever seconds or bytes a second.
    per_token
        Whether the time asked for is that of a token: ``20 ms/token`` and ``50 tok/s`` are 20 ms then.

    Raises
    ------
    ValueError
        One sentence: what was typed and what was expected, with an example.
    """
    known = _UNITS[unit]
    if len(text) > MAX_INPUT_LENGTH:
        raise ValueError(
            f"{name}: got {len(text)} characters, expected at most {MAX_INPUT_LENGTH}, such as {known.example}"
        )
    got = f"{name}: got {text.strip()!r}"
    typed = plain(text)
    value = _product(typed, unit, got)
    if value is None:
        value = _simple(typed, unit, name, bare, per_token, got)
    if value is None or not math.isfinite(value):
        raise ValueError(f"{got}, expected a number and its unit, such as {known.example}")
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(f"{name}: got {text.strip()}, expected {_range_text(low, high, unit)}")
    return value


def _product(typed: str, unit: str, got: str) -> float | None:
    """Return a quantity that is written as the product of two others; None where it is not."""
    read = {"byte/s": bus_byte_s, "J": charge_j, "Wh": charge_j}.get(unit)
    try:
        return None if read is None else read(typed)
    except ValueError as error:
        raise ValueError(f"{got}, {error}") from None


def _simple(typed: str, unit: str, name: str, bare: str | None, per_token: bool, got: str) -> float | None:
    """Return a quantity that is written as a number and its unit; None where it is not."""
    number = _plain_number(typed, name)
    match = _NUMBER.match(number)
    if match is None:
        return None
    value, written = float(match.group()), symbol(number[match.end() :])
    if per_token and _TOKEN_RATE.fullmatch(written):
        return 1.0 / value if value > 0.0 else None
    if per_token:
        written = re.sub(r"/(?:tokens?|t)$", "", written)
    if unit == "frac" and not written and value > 1:
        written = "%"  # 97 can only mean 97 %
    if bare is None and not written:
        return None
    factor = _factor(written or bare or "", unit, f"{got}, expected", match.group())
    return None if factor is None else value * factor


def _plain_number(text: str, name: str) -> str:
    """Return the text without thousands separators, and with a point as decimal sign."""
    text = _GROUPS.sub(lambda m: m.group(1) + m.group(2).replace(" ", ""), text)
    if re.match(r"[+\-]?[1-9]\d{0,2},\d{3}(?![\d,.])", text):
        number = text[: text.index(",") + 4]
        a, b = number.replace(",", ""), number.replace(",", ".")
        raise ValueError(f"{name}: {number} may mean {a} or {b}; expected one of the two, without a comma")
    if re.match(r"[+\-]?\d{1,3}(?:,\d{3})+(?:\.|,\d{3}|(?![\d,]))", text) and (text.count(",") > 1 or "." in text):
        return text.replace(",", "")
    return text.replace(",", ".", 1)


@cache
def _spellings(unit: str) -> dict[str, float]:
    known = _UNITS[unit]
    spelled = {
        prefix + spelling: factor * size
        for spelling, size in known.spelled.items()
        for prefix, factor in known.into.items()
    }
    return {"": 1.0} | spelled


def _factor(written: str, unit: str, expected: str, number: str) -> float | None:
    """Return the size of a written unit in SI; case is forgiven where only one reading is left.

    Raises
    ------
    ValueError
        More than one is left: each of them, as it is to be typed.
    """
    spellings = _spellings(unit)
    if written in spellings:
        return spellings[written]
    bit = next((end for end in _UNITS[unit].bits if written.lower().endswith(end)), None)
    if bit is not None:
        prefix = next((p for p in _UNITS[unit].into if p.lower() == written[: -len(bit)].lower()), None)
        if prefix is None:
            return None
        per, per_s = (" per second", "/s") if unit == "byte/s" else ("", "")
        raise ValueError(
            f"{expected} bytes or bits: {number} {_LARGE[prefix.lower()]}bytes{per} is {number}{prefix}B{per_s}, "
            f"{_LARGE[prefix.lower()]}bits {number}{prefix}bit{per_s}"
        )
    readings = {factor: spelling for spelling, factor in spellings.items() if spelling.lower() == written.lower()}
    if len(readings) > 1:
        raise ValueError(f"{expected} " + " or ".join(number + spelling for spelling in readings.values()))
    return next(iter(readings), None)


def _range_text(low: float | None, high: float | None, unit: str) -> str:
    if low is None:
        return f"at most {exact_text(high or 0.0, unit)}"
    if high is None:
        return f"at least {exact_text(low, unit)}"
    return f"{exact_text(low, unit)} to {exact_text(high, unit)}"
